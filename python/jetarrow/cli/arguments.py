"""Arguments and options that several subcommands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt for confirmation.")]
Storage = Annotated[Literal["file", "memory"], typer.Option(help="Storage on the server.")]
Subjects = Annotated[
    list[str] | None,
    typer.Option("--subject", help="Only these subjects; repeat the option for more.", metavar="FILTER"),
]
Schema = Annotated[
    str | None,
    typer.Option(
        help="Decodes payloads. JSON: infer, 'id BIGINT, name STRING', or a file with a schema; none keeps bytes."
        " Avro: a file with its schema.",
        metavar="SCHEMA",
    ),
]
TimeZone = Annotated[
    str, typer.Option(help="Zone of JSON times without an offset: UTC, Europe/Berlin, +02:00.", metavar="ZONE")
]
TimestampNumbers = Annotated[
    Literal["error", "seconds", "millis", "micros", "nanos"],
    typer.Option(help="Unit of JSON numbers in timestamp fields; with error their rows are malformed."),
]
Payload = Annotated[
    Literal["json", "arrow", "avro"],
    typer.Option(
        help="json; arrow: each message holds many rows, as written by load --format arrow; avro: records of --schema."
    ),
]
RowPayload = Annotated[Literal["json", "avro"], typer.Option(help="json, or avro: records of --schema.")]

OnRollback = Annotated[
    Literal["fail", "continue", "earliest"],
    typer.Option(
        help="After a rollback of the stream: fail, continue after the last common message, or restart at the earliest."
    ),
]


def schema_of(given: str | None, sql: str | None = None, payload: str = "json") -> str | None:
    """Return the argument `schema=`: the text, or that of a file. A query infers the schema by default.

    Args:
        given: Value of the option `--schema`.
        sql: The query, if any.
        payload: Encoding of the payloads; Arrow payloads contain their schema.
    """
    if payload == "avro":
        if given is None:
            raise typer.BadParameter("Avro needs a file with its schema.", param_hint="--schema")
        return Path(given).read_text("utf-8")
    if given is None:
        return "infer" if sql is not None and payload == "json" else None
    if given == "none":
        return None
    if given == "infer" or " " in given.strip():
        return given
    return Path(given).read_text("utf-8").strip()
