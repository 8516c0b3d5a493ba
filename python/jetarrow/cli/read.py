"""`jetarrow read`: a range of a stream to a file, a query, or the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import files
from jetarrow.cli.session import Session
from jetarrow.cli.stream import Name
from jetarrow.cli.units import moment
from jetarrow.cli.verb import verb

if TYPE_CHECKING:
    import pyarrow as pa

    from jetarrow.sync import Reader

# What people are shown unless they ask for more.
_SHOWN = ("seq", "timestamp", "subject", "data")

Subjects = Annotated[
    list[str] | None, typer.Option("--subject", help="Only these subjects; may be given again.", metavar="FILTER")
]
Schema = Annotated[
    str | None,
    typer.Option(
        help="Decodes JSON: infer, 'id BIGINT, name STRING', a file with that; none is bytes.", metavar="SCHEMA"
    ),
]
Columns = Annotated[str | None, typer.Option(help="What is read, with commas: seq,subject,value ...")]
To = Annotated[str | None, typer.Option(help="A file (.parquet, .csv, .ndjson, .arrow); - is stdout.", metavar="FILE")]
Format = Annotated[str | None, typer.Option(help="parquet, csv, ndjson or arrow; else by the file's name.")]
Sql = Annotated[
    str | None, typer.Option(help="A query over the rows, by duckdb; the table has the stream's name.", metavar="QUERY")
]
Limit = Annotated[int | None, typer.Option(help="Most messages.", min=1)]


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(
        app, "read", example="jetarrow read ORDERS --since 1h --sql 'select region, sum(amount) from ORDERS group by 1'"
    )(read)


def read(
    session: Session,
    stream: Name,
    since: Annotated[
        datetime | None, typer.Option(help="From this time, or this long ago.", parser=moment, metavar="TIME")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(help="Up to this time, or this long ago.", parser=moment, metavar="TIME")
    ] = None,
    from_seq: Annotated[int | None, typer.Option(help="From this sequence.", min=0)] = None,
    until_seq: Annotated[int | None, typer.Option(help="Up to this sequence, without it.", min=0)] = None,
    subject: Subjects = None,
    schema: Schema = None,
    columns: Columns = None,
    limit: Limit = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    to: To = None,
    format: Format = None,
    sql: Sql = None,
) -> None:
    """Reads a range of a stream: exactly, in order, without a consumer that stays."""
    if sql is not None and follow:
        raise typer.BadParameter("a query has no end on a stream that is followed.", param_hint="--sql")
    decoded = schema_of(schema, sql)

    def make(progress: Any) -> Reader:
        return session.js.read(
            stream,
            start_seq=from_seq,
            end_seq=until_seq,
            start_time=since,
            end_time=until,
            subjects=subject,
            schema=decoded,
            flatten=decoded is not None,
            columns=columns_of(columns, decoded, people=for_people(session, to, sql)),
            limit=limit,
            follow=follow,
            progress=progress,
        )

    write_out(session, make, stream, to=to, form=format, sql=sql, follow=follow)


def for_people(session: Session, to: str | None, sql: str | None) -> bool:
    """Whether rows are shown rather than kept."""
    return to is None and sql is None and not session.as_json


def schema_of(given: str | None, sql: str | None) -> str | None:
    """What `schema=` gets: the text, or that of a file; with a query it is inferred unless something else is said.

    Args:
        given: What was typed.
        sql: The query, if there is one.
    """
    if given is None:
        return "infer" if sql is not None else None
    if given == "none":
        return None
    if given == "infer" or " " in given.strip():
        return given
    return Path(given).read_text("utf-8").strip()


def columns_of(given: str | None, schema: str | None, *, people: bool) -> list[str] | None:
    """The columns that are read; None is all that `js.read` has by default.

    Args:
        given: What was typed.
        schema: Whether payloads are decoded.
        people: Whether rows are shown rather than kept.
    """
    if given is not None:
        return [name.strip() for name in given.split(",")]
    if not people:
        return None
    return ["seq", "value"] if schema is not None else list(_SHOWN)


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
    form = None if to is None else files.format_of(to, form)
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
        writer: files.Writer
        if to is None or form is None:
            writer = files.Lines(schema.names)
        else:
            writer = stack.enter_context(files.writing(to, form, schema, keep=lambda: follow))
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
