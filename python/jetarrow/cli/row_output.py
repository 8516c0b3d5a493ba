"""Options and output of rows, shared by `read` and `latest`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import row_writers, signals
from jetarrow.cli.json_shape import JsonShape, an_object, lines_of
from jetarrow.cli.session import Session
from jetarrow.cli.units import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.progress import Progress

    from jetarrow.sync import Reader

# Default columns of the output for people.
_SHOWN = ("seq", "timestamp", "subject", "data")

# Documented output of `--json`.
SHAPES = (
    lines_of("stream seq subject timestamp headers data", "by default"),
    JsonShape("lines", ("the selected columns",), "with --columns, --schema or --sql"),
    an_object("file rows", "with --to FILE"),
)

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
    run = _Run(session, make, to, form, follow=follow)
    try:
        run.write(stream, sql)
    except KeyboardInterrupt:
        run.report_stop()
        raise
    if to not in (None, "-"):
        session.done(f"wrote {counted(run.rows, 'row')} to {to}", file=to, rows=run.rows)
    elif not run.rows and not session.as_json:
        session.say("no rows")


class _Run:
    """One run of a reader into a file, stdout, or lines for people.

    Attributes:
        rows: Number of rows written.
        position: Sequence after the last row written; None before the first one.
    """

    def __init__(self, session: Session, make: Any, to: str | None, form: str | None, *, follow: bool) -> None:
        self.rows = 0
        self.position: int | None = None
        self._session, self._make, self._to, self._form, self._follow = session, make, to, form, follow

    def write(self, stream: str, sql: str | None) -> None:
        """Write all rows, or those of a query."""
        shares_terminal = self._to in (None, "-") and sys.stdout.isatty()
        with ExitStack() as stack:
            bar = None
            # Rows written to the same terminal would break a progress bar. The rows of a query arrive at its end.
            if not self._follow and not (shares_terminal and sql is None):
                bar = stack.enter_context(self._session.progress("messages", transient=shares_terminal))
            reader = stack.enter_context(self._make(None if bar is None else _report_to(bar)))
            schema, batches = _batches(reader) if sql is None else _query(reader, stream, sql)
            if reader.inferred is not None and sys.stderr.isatty():
                fields = ", ".join(f"{field.name} {field.type}" for field in reader.inferred)
                self._session.say(f"inferred schema: {fields}")
            writer: row_writers.Writer
            if self._to is None or self._form is None:
                writer = row_writers.Lines(schema.names)
            else:
                writer = stack.enter_context(
                    row_writers.writing(self._to, self._form, schema, keep=lambda: self._follow)
                )
            to_file = self._to not in (None, "-")
            for batch in batches:
                if bar is not None and shares_terminal:
                    bar.stop()
                # The counts must agree with the output.
                with signals.deferred(None if to_file else signals.STDOUT_DELAY):
                    writer.write(batch)
                    self.rows += batch.num_rows
                    self.position = reader.position if sql is None else None

    def report_stop(self) -> None:
        """Write the rows of a stopped run, and how to continue."""
        if self._to in (None, "-"):
            if self._follow and self.position is not None:
                self._session.stopped(
                    f"read up to sequence {self.position - 1}; continue with --from-seq {self.position}"
                )
        elif not self._follow:
            self._session.stopped(f"{self._to} was not written; run the same command again")
        elif self.position is None:
            self._session.stopped(f"wrote no rows to {self._to}; run the same command to continue")
        else:
            self._session.stopped(
                f"wrote {counted(self.rows, 'row')} to {self._to}, up to sequence {self.position - 1}; continue with"
                f" --from-seq {self.position} and another file"
            )


def _report_to(bar: Progress) -> Callable[[int, int | None], None]:
    task = bar.add_task("reading", total=None)

    def report(done: int, total: int | None) -> None:
        bar.update(task, completed=done, total=total)

    return report


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
