"""Arguments and options that several subcommands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from jetarrow.jetstream.literals import BINARY_FORMATS

if TYPE_CHECKING:
    from jetarrow.jetstream.binary_schema import ProtobufSchema

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
        " Avro: a file with its schema. Protobuf: a file with a descriptor set.",
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
    Literal["json", "arrow", "avro", "protobuf"],
    typer.Option(
        help="json; arrow: messages of many rows, as written by load --format arrow; avro, protobuf: of --schema."
    ),
]
RowPayload = Annotated[
    Literal["json", "avro", "protobuf"], typer.Option(help="json, or avro or protobuf: of --schema.")
]
MessageName = Annotated[
    str | None, typer.Option("--message", help="With protobuf: full name of the message in --schema.", metavar="NAME")
]

OnRollback = Annotated[
    Literal["fail", "continue", "earliest"],
    typer.Option(
        help="After a rollback of the stream: fail, continue after the last common message, or restart at the earliest."
    ),
]


def schema_of(
    given: str | None, sql: str | None = None, payload: str = "json", message: str | None = None
) -> str | ProtobufSchema | None:
    """Return the argument `schema=`: the text, or that of a file. A query infers the schema by default.

    Args:
        given: Value of the option `--schema`.
        sql: The query, if any.
        payload: Encoding of the payloads; Arrow payloads contain their schema.
        message: Value of the option `--message`.
    """
    if (payload == "protobuf") != (message is not None):
        raise typer.BadParameter(
            "Protobuf needs the name of a message, and nothing else has one.", param_hint="--message"
        )
    if payload in BINARY_FORMATS:
        if given is None:
            raise typer.BadParameter(f"{payload} needs a file with its schema.", param_hint="--schema")
        if message is None:
            return Path(given).read_text("utf-8")
        # Imported here, because it needs the native module.
        from jetarrow.jetstream.binary_schema import ProtobufSchema

        return ProtobufSchema(given, message)
    if given is None:
        return "infer" if sql is not None and payload == "json" else None
    if given == "none":
        return None
    if given == "infer" or " " in given.strip():
        return given
    return Path(given).read_text("utf-8").strip()
