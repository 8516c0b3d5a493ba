"""Options and output of rows, shared by `read` and `latest`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import row_writers
from jetarrow.cli.session import Session
from jetarrow.cli.units import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from jetarrow.sync import Reader

# Default columns of the output for people.
_SHOWN = ("seq", "timestamp", "subject", "data")

Columns = Annotated[str | None, typer.Option(help="Columns to read, separated with commas: seq,subject,value ...")]
To = Annotated[
    str | None, typer.Option(help="A file (.parquet, .csv, .ndjson, .arrow); - writes to stdout.", metavar="FILE")
]
Format = Annotated[str | None, typer.Option(help="parquet, csv, ndjson or arrow; default by the file's name.")]
Sql = Annotated[
    str | None, typer.Option(help="A duckdb query over the rows; the table has the stream's name.", metavar="QUERY")
]
Limit = Annotated[int | None, typer.Option(help="Maximum number of messages.", min=1)]


def for_people(session: Session, to: str | None, sql: str | None) -> bool:
    """Return whether rows are written for people, not for a file, a query or `--json`."""
    return to is None and sql is None and not session.as_json


def columns_of(given: str | None, decoded: object, *, people: bool) -> list[str] | None:
    """Return the columns to read; None selects the default of `js.read`.

    Args:
        given: Value of the option `--columns`.
        decoded: Whether payloads are decoded.
        people: Whether rows are written for people.
    """
    if given is not None:
        return [name.strip() for name in given.split(",")]
    if not people:
        return None
    return ["seq", "value"] if decoded else list(_SHOWN)


def write_out(
    session: Session, make: Any, stream: str, *, to: str | None, form: str | None, sql: str | None, follow: bool = False
) -> None:
    """Write the rows of a reader to a file, to stdout, or as lines for people.

    Args:
        session: The run.
        make: Creates the reader, given its progress callback.
        stream: Name of the stream.
        to: The file; `-` is stdout, None writes lines for people.
        form: Format of the file; None derives it from the file's name.
        sql: A query over the rows.
        follow: Whether the read follows the stream until Ctrl-C.
    """
    if to is None and (session.as_json or form is not None):
        to = "-"
    form = None if to is None else row_writers.format_of(to, form)
    # Rows written to the same terminal would break a progress bar.
    quiet = follow or (to in (None, "-") and sql is None and sys.stdout.isatty())
    with ExitStack() as stack:
        report: Any = None
        if not quiet:
            bar = stack.enter_context(session.progress("messages"))
            task = bar.add_task("reading", total=None)

            def report(done: int, total: int | None) -> None:
                bar.update(task, completed=done, total=total)

        reader = stack.enter_context(make(report))
        schema, batches = _batches(reader) if sql is None else _query(reader, stream, sql)
        if reader.inferred is not None and sys.stderr.isatty():
            session.say("inferred schema: " + ", ".join(f"{field.name} {field.type}" for field in reader.inferred))
        writer: row_writers.Writer
        if to is None or form is None:
            writer = row_writers.Lines(schema.names)
        else:
            writer = stack.enter_context(row_writers.writing(to, form, schema, keep=lambda: follow))
        rows = 0
        for batch in batches:
            writer.write(batch)
            rows += batch.num_rows
    if to not in (None, "-"):
        session.done(f"wrote {counted(rows, 'row')} to {to}", file=to, rows=rows)
    elif not rows and not session.as_json:
        session.say("no rows")


def _batches(reader: Reader) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    return reader.schema, (batch.to_pyarrow() for batch in reader)


def _query(reader: Reader, name: str, sql: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the result of a query; duckdb reads the rows as they arrive."""
    try:
        import duckdb
    except ImportError:
        raise RuntimeError('could not run the query: --sql needs duckdb; run pip install "jetarrow[cli]"') from None
    import pyarrow as pa

    schema, batches = _batches(reader)
    connection = duckdb.connect()
    # A query reads the stream only, not the files or the network of this machine.
    connection.execute("SET enable_external_access=false")
    connection.register(name, pa.RecordBatchReader.from_batches(schema, batches))
    result = pa.RecordBatchReader.from_stream(connection.sql(sql))
    return result.schema, iter(result)
