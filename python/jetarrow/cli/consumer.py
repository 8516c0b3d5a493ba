"""`jetarrow consumer`: list, show, pause and remove consumers."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import lag as lag_table
from jetarrow.cli.arguments import Stream, Yes
from jetarrow.cli.json_shape import an_object, array_of
from jetarrow.cli.output import Column
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import future, plain_time, show_span, show_time, show_utc

if TYPE_CHECKING:
    from jetarrow.js.api import ConsumerInfo

group = typer.Typer(no_args_is_help=True, help="Consumers: list, show, lag, pause, resume, remove.")

# Keys of a consumer in a list, and of the server's response.
_ROW = (
    "stream name kind durable filter_subjects pending ack_pending redelivered waiting ack_floor delivered last_active"
    " paused"
)
_INFO = (
    "type stream_name name created config delivered ack_floor num_ack_pending num_redelivered num_waiting num_pending"
    " ts? cluster? paused? pause_remaining? push_bound? priority_groups?"
)

Consumer = Annotated[str, typer.Argument(metavar="CONSUMER", help="The consumer.")]


def add_to(app: typer.Typer) -> None:
    """Adds the group."""
    app.add_typer(group, name="consumer")


def row(info: ConsumerInfo) -> dict[str, Any]:
    """Return a consumer as a row of a list."""
    config = info.config
    filters = [config.filter_subject] if config.filter_subject else config.filter_subjects or []
    return {
        "stream": info.stream_name,
        "name": info.name,
        "kind": "push" if config.deliver_subject else "pull",
        "durable": bool(config.durable_name),
        "filter_subjects": filters,
        "pending": info.num_pending,
        "ack_pending": info.num_ack_pending,
        "redelivered": info.num_redelivered,
        "waiting": info.num_waiting,
        "ack_floor": info.ack_floor.stream_seq if info.ack_floor else None,
        "delivered": info.delivered.stream_seq if info.delivered else None,
        "last_active": plain_time(info.delivered.last_active) if info.delivered else None,
        "paused": bool(info.paused),
    }


@verb(
    group,
    "ls",
    example="jetarrow consumer ls ORDERS",
    json=array_of(_ROW),
)
def ls(session: Session, stream: Stream) -> None:
    """Lists the consumers of a stream."""
    columns = (
        Column("name", "Consumer"),
        Column("kind", "Kind"),
        Column("filter_subjects", "Filter"),
        Column("pending", "To come"),
        Column("ack_pending", "Unacknowledged"),
        Column("redelivered", "Redelivered"),
        Column("last_active", "Last active", show_time),
        Column("paused", "Paused"),
    )
    rows = [row(info) for info in session.js.stream(stream).consumers()]
    session.rows(rows, columns, f"stream {stream} has no consumers")


@verb(
    group,
    "info",
    example="jetarrow consumer info ORDERS billing",
    json=an_object(_INFO),
)
def info(session: Session, stream: Stream, name: Consumer) -> None:
    """Shows configuration and state of a consumer; `--json` writes the server's response."""
    found = session.js.consumer_info(stream, name)
    config, short = found.config, row(found)
    session.facts(
        found.as_dict(),
        [
            ("Consumer", f"{stream} > {name}"),
            ("Description", config.description),
            ("Kind", f"{'durable' if short['durable'] else 'ephemeral'} {short['kind']}"),
            ("Delivers to", config.deliver_subject),
            ("Filter", short["filter_subjects"]),
            ("Created", show_time(found.created)),
            ("Starts", config.deliver_policy),
            ("Acknowledges", config.ack_policy),
            ("Waits for an ack", show_span(config.ack_wait)),
            ("Most deliveries", config.max_deliver if (config.max_deliver or -1) > 0 else "unlimited"),
            ("Most unacknowledged", config.max_ack_pending),
            ("Last delivered", short["delivered"]),
            ("Acknowledged up to", short["ack_floor"]),
            ("Unacknowledged", short["ack_pending"]),
            ("Redelivered", short["redelivered"]),
            ("To come", short["pending"]),
            ("Waiting requests", short["waiting"]),
            ("Last active", show_time(short["last_active"])),
            ("Paused for", show_span((found.pause_remaining or 0) / 1e9) if found.paused else None),
        ],
    )


@verb(
    group,
    "lag",
    example="jetarrow consumer lag ORDERS",
    json=lag_table.SHAPE,
)
def lag(
    session: Session,
    stream: Annotated[str | None, typer.Argument(metavar="STREAM", help="The stream; all streams if omitted.")] = None,
    temporary: lag_table.Temporary = False,
) -> None:
    """Lists the lag of consumers in messages and in time, the largest first; `sink ls` lists that of sinks."""
    lag_table.write(session, stream, temporary=temporary)


@verb(group, "pause", example="jetarrow consumer pause ORDERS billing 1h", json=an_object("paused pause_until"))
def pause(
    session: Session,
    stream: Stream,
    name: Consumer,
    until: Annotated[datetime, typer.Argument(parser=future, metavar="UNTIL", help="A duration, or a time.")],
) -> None:
    """Pauses the deliveries of a consumer until a time. Needs server 2.11 or later."""
    answer = session.js.pause_consumer(stream, name, until)
    session.done(f"paused consumer {name} until {show_utc(until)}", paused=answer.paused, pause_until=plain_time(until))


@verb(group, "resume", example="jetarrow consumer resume ORDERS billing", json=an_object("paused"))
def resume(session: Session, stream: Stream, name: Consumer) -> None:
    """Resumes the deliveries of a paused consumer."""
    answer = session.js.resume_consumer(stream, name)
    session.done(f"resumed consumer {name}", paused=answer.paused)


@verb(group, "rm", example="jetarrow consumer rm ORDERS billing --yes", json=an_object("removed"))
def rm(session: Session, stream: Stream, name: Consumer, yes: Yes = False) -> None:
    """Removes a consumer, but no messages."""
    session.confirm(f"Remove consumer {name} of stream {stream}?", yes=yes)
    session.js.delete_consumer(stream, name)
    session.done(f"removed consumer {name} of stream {stream}", removed=name)
