"""`jetarrow read`: read a range of a stream into a file, a query or the terminal."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli.arguments import (
    MessageName,
    OnRollback,
    Payload,
    Registry,
    Schema,
    Stream,
    Subjects,
    TimestampNumbers,
    TimeZone,
    registry_of,
    schema_of,
)
from jetarrow.cli.row_output import SHAPES, Columns, Format, Limit, Sql, To, columns_of, for_people, write_out
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import moment
from jetarrow.cli.usage import exclusive

if TYPE_CHECKING:
    from jetarrow.sync import Reader


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(
        app,
        "read",
        example="jetarrow read ORDERS --since 1h --sql 'select region, sum(amount) from ORDERS group by 1'",
        json=SHAPES,
    )(read)


def read(
    session: Session,
    stream: Stream,
    since: Annotated[
        datetime | None, typer.Option(help="From this time, or this long ago.", parser=moment, metavar="TIME")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(help="Up to this time, or this long ago.", parser=moment, metavar="TIME")
    ] = None,
    from_seq: Annotated[int | None, typer.Option(help="From this sequence.", min=0)] = None,
    until_seq: Annotated[int | None, typer.Option(help="Up to, but not including, this sequence.", min=0)] = None,
    subject: Subjects = None,
    payload: Payload = "json",
    schema: Schema = None,
    message: MessageName = None,
    registry: Registry = None,
    time_zone: TimeZone = "UTC",
    timestamp_numbers: TimestampNumbers = "error",
    columns: Columns = None,
    limit: Limit = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the stream until Ctrl-C.")] = False,
    on_rollback: OnRollback = "fail",
    to: To = None,
    format: Format = None,
    sql: Sql = None,
) -> None:
    """Reads a range of a stream exactly and in order; leaves no consumer on the server."""
    if sql is not None and follow:
        raise typer.BadParameter("a query needs an end; leave out --follow.", param_hint="--sql")
    exclusive(since=since, from_seq=from_seq)
    exclusive(until=until, until_seq=until_seq)
    decoded = schema_of(schema, sql, payload, message, registry=registry)
    found = registry_of(registry)
    flatten = decoded is not None or found is not None

    def make(progress: Any) -> Reader:
        return session.js.read(
            stream,
            start_seq=from_seq,
            end_seq=until_seq,
            start_time=since,
            end_time=until,
            subjects=subject,
            format=payload,
            schema=decoded,
            registry=found,
            time_zone=time_zone,
            timestamp_numbers=timestamp_numbers,
            flatten=flatten,
            columns=columns_of(columns, flatten or payload == "arrow", people=for_people(session, to, sql)),
            limit=limit,
            follow=follow,
            on_rollback=on_rollback,
            progress=progress,
        )

    write_out(session, make, stream, to=to, form=format, sql=sql, follow=follow)
