"""`jetarrow latest`: read the last message of each subject."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli.arguments import (
    MessageName,
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
        "latest",
        example="jetarrow latest ORDERS --subject 'orders.eu.*' --schema infer --to state.parquet",
        json=SHAPES,
    )(latest)


def latest(
    session: Session,
    stream: Stream,
    as_of: Annotated[
        datetime | None, typer.Option(help="State at this time, or this long ago.", parser=moment, metavar="TIME")
    ] = None,
    as_of_seq: Annotated[int | None, typer.Option(help="State when this was the last sequence.", min=0)] = None,
    deleted: Annotated[bool, typer.Option(help="Include subjects whose last message is a deletion marker.")] = False,
    subject: Subjects = None,
    payload: Payload = "json",
    schema: Schema = None,
    message: MessageName = None,
    registry: Registry = None,
    time_zone: TimeZone = "UTC",
    timestamp_numbers: TimestampNumbers = "error",
    columns: Columns = None,
    limit: Limit = None,
    to: To = None,
    format: Format = None,
    sql: Sql = None,
) -> None:
    """Reads the last message of each subject: the present or a past state of a stream."""
    exclusive(as_of=as_of, as_of_seq=as_of_seq)
    decoded = schema_of(schema, sql, payload, message, registry=registry)
    found = registry_of(registry)
    flatten = decoded is not None or found is not None

    def make(progress: Any) -> Reader:
        return session.js.latest(
            stream,
            subject,
            as_of_seq=as_of_seq,
            as_of_time=as_of,
            deleted=deleted,
            format=payload,
            schema=decoded,
            registry=found,
            time_zone=time_zone,
            timestamp_numbers=timestamp_numbers,
            flatten=flatten,
            columns=columns_of(columns, flatten or payload == "arrow", people=for_people(session, to, sql)),
            limit=limit,
            progress=progress,
        )

    write_out(session, make, stream, to=to, form=format, sql=sql)
