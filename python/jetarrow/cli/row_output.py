"""What `read` and `latest` share: their options, and where the rows go to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import row_writers
from jetarrow.cli.session import Session

if TYPE_CHECKING:
    import pyarrow as pa

    from jetarrow.sync import Reader

# What people are shown unless they ask for more.
_SHOWN = ("seq", "timestamp", "subject", "data")

Columns = Annotated[str | None, typer.Option(help="What is read, with commas: seq,subject,value ...")]
To = Annotated[str | None, typer.Option(help="A file (.parquet, .csv, .ndjson, .arrow); - is stdout.", metavar="FILE")]
Format = Annotated[str | None, typer.Option(help="parquet, csv, ndjson or arrow; else by the file's name.")]
Sql = Annotated[
    str | None, typer.Option(help="A query over the rows, by duckdb; the table has the stream's name.", metavar="QUERY")
]
Limit = Annotated[int | None, typer.Option(help="Most messages.", min=1)]


def for_people(session: Session, to: str | None, sql: str | None) -> bool:
    """Whether rows are shown rather than kept."""
    return to is None and sql is None and not session.as_json


def columns_of(given: str | None, decoded: object, *, people: bool) -> list[str] | None:
    """The columns that are read; None is all that `js.read` has by default.

    Args:
        given: What was typed.
        decoded: Whether payloads are decoded.
        people: Whether rows are shown rather than kept.
    """
    if given is not None:
        return [name.strip() for name in given.split(",")]
    if not people:
        return None
    return ["seq", "value"] if decoded else list(_SHOWN)


def write_out(
    session: Session, make: Any, stream: str, *, to: str | None, form: str | None, sql: str | None, follow: bool = False
) -> None:
    """Writes what a reader gives to where it was asked for.

    Args:
        session: The run.
        make: Makes the reader, given what is called with its progress.
        stream: The stream's name.
        to: The file; `-` is stdout; None shows it.
        form: The file's format, where its name does not say it.
        sql: A query over the rows.
        follow: Whether it goes on until Ctrl-C.
    """
    if to is None and (session.as_json or form is not None):
        to = "-"
    form = None if to is None else row_writers.format_of(to, form)
    # A bar would be torn by rows that are shown on the same terminal.
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
            session.say("inferred: " + ", ".join(f"{field.name} {field.type}" for field in reader.inferred))
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
        session.done(f"{rows:,} rows in {to}", file=to, rows=rows)
    elif not rows and not session.as_json:
        session.say("no rows")


def _batches(reader: Reader) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    return reader.schema, (batch.to_pyarrow() for batch in reader)


def _query(reader: Reader, name: str, sql: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """What a query gives; duckdb reads the rows as they come."""
    try:
        import duckdb
    except ImportError:
        raise RuntimeError('--sql needs duckdb: run pip install "jetarrow[cli]"') from None
    import pyarrow as pa

    schema, batches = _batches(reader)
    connection = duckdb.connect()
    # The files and the network of this machine are no part of a stream.
    connection.execute("SET enable_external_access=false")
    connection.register(name, pa.RecordBatchReader.from_batches(schema, batches))
    result = pa.RecordBatchReader.from_stream(connection.sql(sql))
    return result.schema, iter(result)
