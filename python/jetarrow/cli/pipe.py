"""`jetarrow pipe`: make one stream of another by a function or a query, exactly once."""

from __future__ import annotations

import importlib
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import signals
from jetarrow.cli.arguments import (
    MessageName,
    OnRollback,
    Registry,
    RowPayload,
    Schema,
    TimestampNumbers,
    TimeZone,
    registry_of,
    schema_of,
)
from jetarrow.cli.json_shape import an_object
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import counted, moment, span
from jetarrow.cli.usage import exclusive
from jetarrow.core.errors import Error
from jetarrow.jetstream.literals import DecodeMode, OnPipeError

if TYPE_CHECKING:
    from jetarrow.sync.pipes import Pipe

# Begin of a table that is a bucket.
_BUCKET = "kv:"


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(
        app,
        "pipe",
        example="jetarrow pipe ORDERS LARGE --sql 'select * from ORDERS where amount > 100' --subject 'large.{region}'",
        json=an_object("rows messages dead_letters skipped last_seq"),
    )(pipe)


def pipe(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Stream to read.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Stream to write, with --allow-atomic.")],
    python: Annotated[
        str | None,
        typer.Option(
            help="Function of a table of rows: its module (also of this folder) and name.", metavar="MODULE:NAME"
        ),
    ] = None,
    sql: Annotated[str | None, typer.Option(help="Query of DuckDB; the rows are a table named as the source.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the position; default the source's name.")] = None,
    subject: Annotated[
        str | None,
        typer.Option(help="Subject or template, such as large.{region}; default the column subject."),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(help="Another table: last messages of a stream, or a bucket.", metavar="NAME=STREAM|kv:BUCKET"),
    ] = None,
    payload: RowPayload = "json",
    schema: Schema = None,
    message: MessageName = None,
    registry: Registry = None,
    mode: Annotated[DecodeMode, typer.Option(help="Rows that cannot be decoded.")] = "PERMISSIVE",
    time_zone: TimeZone = "UTC",
    timestamp_numbers: TimestampNumbers = "error",
    filter: Annotated[
        list[str] | None, typer.Option("--filter", help="Only these subjects of the source.", metavar="SUBJECT")
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(help="First start: from this time, or from this long ago.", parser=moment, metavar="TIME"),
    ] = None,
    from_seq: Annotated[int | None, typer.Option(help="First start: from this sequence.", min=0)] = None,
    rows: Annotated[int, typer.Option(help="Most rows of a step.", min=1)] = 65_536,
    every: Annotated[str, typer.Option("--every", help="Wait of a step for more rows.", metavar="SPAN")] = "100ms",
    on_error: Annotated[OnPipeError, typer.Option(help="Failed rows: an error, dead letters, or left out.")] = "fail",
    on_rollback: OnRollback = "fail",
    reset: Annotated[
        int | None, typer.Option(help="Start anew with this sequence; messages of the target remain.", min=1)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the source until Ctrl-C.")] = False,
) -> None:
    """Makes one stream of another, each message exactly once; after an interruption the next run goes on.

    The rows have the columns stream, seq, subject, timestamp and headers, and data or the fields of the schema. Each
    row of the result is a message: of its column data, or of its columns as JSON.
    """
    exclusive(python=python, sql=sql)
    exclusive(since=since, from_seq=from_seq)
    if python is None and sql is None:
        raise typer.BadParameter("a pipe needs --python or --sql.")
    options: dict[str, Any] = {
        "subject": subject,
        "schema": schema_of(schema, sql, payload, message, registry=registry),
        "format": payload,
        "registry": registry_of(registry),
        "mode": mode,
        "time_zone": time_zone,
        "timestamp_numbers": timestamp_numbers,
        "subjects": filter,
        "start_time": since,
        "start_seq": from_seq,
        "tables": dict(_table(session, one) for one in table or ()),
        "rows": rows,
        "seconds": span(every),
        "on_error": on_error,
        "on_rollback": on_rollback,
        "follow": follow,
    }
    function = sql if python is None else _function(python)
    with session.progress("messages") as bar:
        task = bar.add_task("piping", total=None)

        def report(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        made = session.js.pipe(source, target, function, name=name or source, progress=report, **options)
        if reset is not None:
            made.reset(reset)
        _run(session, made, target)


def _run(session: Session, made: Pipe, target: str) -> None:
    """Run a pipe; a signal ends it after its step."""
    with made, signals.stopping(made.close):
        try:
            result = made.run()
        except KeyboardInterrupt as error:
            # A second Ctrl-C, during a step.
            messages = getattr(getattr(error, "partial", None), "messages", 0)
            session.stopped(f"stored {counted(messages, 'message')} in {target}; run the same command to continue")
            raise
        except Error as error:
            # A signal before the start of the run has closed the pipe.
            if not signals.has_stopped() or type(error) is not Error:
                raise
            raise KeyboardInterrupt from None
    others = [(result.dead_letters, "dead letter"), (result.skipped, "skipped row")]
    more = "".join(f", {counted(number, what)}" for number, what in others if number)
    done = f"made {counted(result.messages, 'message')} in {target} of {counted(result.rows, 'row')}{more}"
    if session.as_json or not signals.has_stopped():
        session.done(done, **result._asdict())
    if signals.has_stopped():
        until = "" if result.last_seq is None else f", up to sequence {result.last_seq}"
        session.stopped(f"{done}{until}; run the same command to continue")
        raise KeyboardInterrupt


def _function(text: str) -> Any:
    """Return the function of an option `--python`."""
    module, _, name = text.partition(":")
    if not module or not name:
        raise typer.BadParameter("it is a module and a name, such as orders:enrich.", param_hint="--python")
    # As `python -m`: modules of this folder.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise typer.BadParameter(f"{error}.", param_hint="--python") from error
    if not callable(found):
        raise typer.BadParameter(f"{text} is no function.", param_hint="--python")
    return found


def _table(session: Session, text: str) -> tuple[str, Any]:
    """Return name and reader of an option `--table`."""
    name, _, place = text.partition("=")
    if not name.isidentifier() or not place:
        raise typer.BadParameter("it is NAME=STREAM or NAME=kv:BUCKET.", param_hint="--table")
    if place.startswith(_BUCKET):
        return name, session.js.key_value(place.removeprefix(_BUCKET)).read(schema="infer")
    return name, session.js.latest(place, schema="infer", flatten=True)
