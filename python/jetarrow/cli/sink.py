"""`jetarrow sink`: archive a stream exactly once into Parquet files, a Delta table or an Iceberg table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import typer

from jetarrow.cli import output, signals
from jetarrow.cli.arguments import (
    MessageName,
    OnRollback,
    Registry,
    RowPayload,
    Schema,
    Stream,
    Subjects,
    TimestampNumbers,
    TimeZone,
    registry_of,
    schema_of,
)
from jetarrow.cli.json_shape import an_object, array_of
from jetarrow.cli.output import Column
from jetarrow.cli.session import Session
from jetarrow.cli.sink_list import KEYS, is_place, sink_rows
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import counted, moment, show_behind, span
from jetarrow.cli.usage import exclusive
from jetarrow.core.errors import Error
from jetarrow.jetstream.literals import Evolve, RowFormat, SinkCompression, SinkDeletes, SinkMerge
from jetarrow.jetstream.sinks.state import SinkResult
from jetarrow.sync.sinks import Sink

# Misplaced files that `verify` names.
_FILES_SHOWN = 10

# Keys of the result of a run.
_RESULT = "rows files first_seq last_seq corrupt"

group = typer.Typer(
    no_args_is_help=True, help="Archive a stream exactly once: Parquet files, Delta and Iceberg tables."
)

Since = Annotated[
    datetime | None,
    typer.Option(help="First start: from this time, or from this long ago.", parser=moment, metavar="TIME"),
]
FromSeq = Annotated[int | None, typer.Option(help="First start: from this sequence.", min=0)]
Partition = Annotated[
    str | None, typer.Option(help="Partition columns, separated with commas; date and hour come from the timestamp.")
]
Rows = Annotated[int, typer.Option(help="Maximum number of rows per commit.", min=1)]
Wait = Annotated[str, typer.Option("--every", help="Maximum wait of a commit for more rows.", metavar="SPAN")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Follow the stream until Ctrl-C.")]
Durable = Annotated[str | None, typer.Option(help="Durable consumer to read from; required for work queues.")]
EvolveColumns = Annotated[Evolve, typer.Option(help="Columns that the table lacks: fail, or add them.")]
Compression = Annotated[SinkCompression, typer.Option(help="Compression of the files.")]
Merge = Annotated[SinkMerge, typer.Option(help="append: a row for each message. upsert: a row for each key.")]
Key = Annotated[str | None, typer.Option(help="With upsert: subject, or the key columns, separated with commas.")]
Deletes = Annotated[
    SinkDeletes, typer.Option(help="With upsert: whether deletion markers delete the rows of their subject.")
]


def add_to(app: typer.Typer) -> None:
    """Adds the group."""
    app.add_typer(group, name="sink")


@verb(
    group,
    "parquet",
    example="jetarrow sink parquet ORDERS /data/orders --schema infer --partition-by date --follow",
    json=an_object(_RESULT),
)
def parquet(
    session: Session,
    stream: Stream,
    target: Annotated[str, typer.Argument(metavar="FOLDER", help="A folder, or a URI such as s3://bucket/orders.")],
    payload: RowPayload = "json",
    schema: Schema = None,
    message: MessageName = None,
    registry: Registry = None,
    time_zone: TimeZone = "UTC",
    timestamp_numbers: TimestampNumbers = "error",
    subject: Subjects = None,
    since: Since = None,
    from_seq: FromSeq = None,
    partition_by: Partition = None,
    rows: Rows = 1_000_000,
    every: Wait = "60s",
    compression: Compression = "zstd",
    durable: Durable = None,
    on_rollback: OnRollback = "fail",
    follow: Follow = False,
) -> None:
    """Writes Parquet files; after any interruption the next run resumes at the last commit."""
    options = _options(
        schema=schema,
        format=payload,
        message=message,
        registry=registry,
        subject=subject,
        since=since,
        from_seq=from_seq,
        partition_by=partition_by,
        every=every,
        rows=rows,
        compression=compression,
        durable=durable,
        time_zone=time_zone,
        timestamp_numbers=timestamp_numbers,
        on_rollback=on_rollback,
        follow=follow,
    )
    _run(session, partial(session.js.to_parquet, stream, target, **options), target)


@verb(
    group,
    "delta",
    example="jetarrow sink delta ORDERS /data/orders --schema 'id BIGINT, region STRING'",
    json=an_object(_RESULT),
)
def delta(
    session: Session,
    stream: Stream,
    target: Annotated[str, typer.Argument(metavar="TABLE", help="A folder, or a URI such as s3://bucket/orders.")],
    payload: RowPayload = "json",
    schema: Schema = None,
    message: MessageName = None,
    registry: Registry = None,
    time_zone: TimeZone = "UTC",
    timestamp_numbers: TimestampNumbers = "error",
    subject: Subjects = None,
    since: Since = None,
    from_seq: FromSeq = None,
    partition_by: Partition = None,
    rows: Rows = 1_000_000,
    every: Wait = "60s",
    compression: Compression = "zstd",
    durable: Durable = None,
    app_id: Annotated[str | None, typer.Option(help="Name of this sink in the table's log.")] = None,
    merge: Merge = "append",
    key: Key = None,
    deletes: Deletes = "markers",
    on_rollback: OnRollback = "fail",
    evolve: EvolveColumns = "fail",
    follow: Follow = False,
) -> None:
    """Writes a Delta table; after any interruption the next run resumes at the last commit.

    With --merge upsert the table has one row for each key, the last one.
    """
    options = _options(
        schema=schema,
        format=payload,
        message=message,
        registry=registry,
        subject=subject,
        since=since,
        from_seq=from_seq,
        partition_by=partition_by,
        every=every,
        rows=rows,
        compression=compression,
        durable=durable,
        time_zone=time_zone,
        timestamp_numbers=timestamp_numbers,
        on_rollback=on_rollback,
        follow=follow,
    )
    options |= {"app_id": app_id, "merge": merge, "key": _names(key), "deletes": deletes, "evolve": evolve}
    _run(session, partial(session.js.to_delta, stream, target, **options), target)


@verb(
    group,
    "iceberg",
    example="jetarrow sink iceberg ORDERS db.orders --catalog prod --schema 'id BIGINT, region STRING'",
    json=an_object(_RESULT),
)
def iceberg(
    session: Session,
    stream: Stream,
    target: Annotated[str, typer.Argument(metavar="TABLE", help="Namespace and name, such as db.orders.")],
    catalog: Annotated[
        str | None,
        typer.Option(help="Catalog in .pyiceberg.yaml or PYICEBERG_CATALOG__<NAME>__URI; default its default."),
    ] = None,
    payload: RowPayload = "json",
    schema: Schema = None,
    message: MessageName = None,
    registry: Registry = None,
    time_zone: TimeZone = "UTC",
    timestamp_numbers: TimestampNumbers = "error",
    subject: Subjects = None,
    since: Since = None,
    from_seq: FromSeq = None,
    partition_by: Partition = None,
    rows: Rows = 1_000_000,
    every: Wait = "60s",
    durable: Durable = None,
    app_id: Annotated[str | None, typer.Option(help="Name of this sink in the table's properties.")] = None,
    merge: Merge = "append",
    key: Key = None,
    deletes: Deletes = "markers",
    on_rollback: OnRollback = "fail",
    evolve: EvolveColumns = "fail",
    follow: Follow = False,
) -> None:
    """Writes an Iceberg table; after any interruption the next run resumes at the last commit.

    With --merge upsert the table has one row for each key, the last one.
    """
    options = _options(
        schema=schema,
        format=payload,
        message=message,
        registry=registry,
        subject=subject,
        since=since,
        from_seq=from_seq,
        partition_by=partition_by,
        every=every,
        rows=rows,
        durable=durable,
        time_zone=time_zone,
        timestamp_numbers=timestamp_numbers,
        on_rollback=on_rollback,
        evolve=evolve,
        app_id=app_id,
        catalog=catalog,
        merge=merge,
        key=_names(key),
        deletes=deletes,
        follow=follow,
    )
    _run(session, partial(session.js.to_iceberg, stream, target, **options), target, corrupt="beside it")


@verb(group, "ls", example="jetarrow sink ls ORDERS /data", json=array_of(KEYS))
def ls(
    session: Session,
    where: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STREAM|FOLDER",
            help="Streams whose sinks are listed, default all; folders and URIs to search, default this folder.",
        ),
    ] = None,
) -> None:
    """Lists sinks with their position and lag: archives in folders, and durable consumers that sinks created.

    A sink stores its position with its data, so the server does not know archives without a durable consumer.
    """
    places = [one for one in where or () if is_place(one)]
    streams = [one for one in where or () if not is_place(one)]
    for name in streams:
        session.js.stream_info(name)
    columns = (
        Column("stream", "Stream"),
        Column("target", "Target"),
        Column("format", "Format"),
        Column("position", "Position"),
        Column("lag", "Lag"),
        Column("behind", "Behind", show_behind),
        Column("durable", "Consumer"),
        Column("writer", "Written by"),
    )
    rows = sink_rows(session.js, places or ["."], streams, durables=bool(streams) or not places)
    of = f" of {', '.join(streams)}" if streams else ""
    session.rows(rows, columns, f"no sinks{of} in {', '.join(places) or 'this folder'}")
    for row in rows if not session.as_json else ():
        if row["problem"]:
            session.say(f"{row['target']}: {row['problem']}")


@verb(
    group,
    "verify",
    example="jetarrow sink verify /data/orders",
    json=an_object("rows compared misplaced missing twice files"),
)
def verify(
    session: Session,
    target: Annotated[str, typer.Argument(metavar="FOLDER", help="A folder of sink parquet, or its URI.")],
    subject: Subjects = None,
) -> None:
    """Compares an archive with its stream: counts misplaced, missing and duplicated rows."""
    from jetarrow.cli.archive_check import verify_archive

    found = verify_archive(session.js, target, subjects=subject)
    summary = (
        f"verified {counted(found.rows, 'row')}, {found.compared:,} of them against the stream: {found.misplaced:,}"
        f" misplaced, {found.missing:,} missing, {found.twice:,} duplicated"
    )
    session.done(summary, **found._asdict())
    if not session.as_json:
        for file in found.files[:_FILES_SHOWN]:
            output.line(f"  {file}")
    if not found.is_whole:
        raise typer.Exit(1)


def _options(
    *,
    schema: str | None,
    format: RowFormat,
    message: str | None,
    registry: str | None,
    subject: list[str] | None,
    since: datetime | None,
    from_seq: int | None,
    partition_by: str | None,
    every: str,
    **same: Any,
) -> dict[str, Any]:
    """Map the options to keywords of the verbs; `same` has equal names."""
    exclusive(since=since, from_seq=from_seq)
    return {
        "schema": schema_of(schema, payload=format, message=message, registry=registry),
        "registry": registry_of(registry),
        "format": format,
        "subjects": subject,
        "start_time": since,
        "start_seq": from_seq,
        "partition_by": _names(partition_by),
        "seconds": span(every),
        **same,
    }


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _run(session: Session, make: Callable[..., Sink], target: str, *, corrupt: str = "to _corrupt") -> None:
    """Run a sink; a signal has it commit the rows that it holds. `corrupt` is the place of undecodable rows."""
    try:
        result = _archived(session, make)
    except KeyboardInterrupt as error:
        # A second Ctrl-C, during the last commit.
        rows = getattr(error, "partial", SinkResult()).rows
        session.stopped(
            f"wrote {counted(rows, 'row')} to {target}, without the last commit; run the same command to continue"
        )
        raise
    others = f", {counted(result.corrupt, 'undecodable row')} {corrupt}" if result.corrupt else ""
    written = f"wrote {counted(result.rows, 'row')} to {counted(result.files, 'file')} of {target}{others}"
    if session.as_json or not signals.has_stopped():
        session.done(written, **result._asdict())
    if not signals.has_stopped():
        return
    until = "" if result.last_seq is None else f", up to sequence {result.last_seq}"
    session.stopped(f"{written}{until}; run the same command to continue")
    raise KeyboardInterrupt


def _archived(session: Session, make: Callable[..., Sink]) -> SinkResult:
    with session.progress("messages") as bar:
        task = bar.add_task("archiving", total=None)

        def report(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        with make(progress=report) as sink, signals.stopping(sink.close):
            try:
                return sink.run()
            except Error as error:
                # A signal before the start of the run has closed the sink.
                if not signals.has_stopped() or type(error) is not Error:
                    raise
                return SinkResult()
