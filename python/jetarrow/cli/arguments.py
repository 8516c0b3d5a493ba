"""Arguments and options that several subcommands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from jetarrow.jetstream.literals import BINARY_FORMATS

if TYPE_CHECKING:
    from jetarrow.jetstream.binary_schema import ProtobufSchema
    from jetarrow.jetstream.registry import SchemaRegistry

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
Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        help="With avro and protobuf: a schema registry, whose ids payloads begin with. Credentials are in"
        " $JETARROW_REGISTRY_USER and _PASSWORD, or _TOKEN; a CA file in $JETARROW_REGISTRY_CA.",
        metavar="URL",
    ),
]

OnRollback = Annotated[
    Literal["fail", "continue", "earliest"],
    typer.Option(
        help="After a rollback of the stream: fail, continue after the last common message, or restart at the earliest."
    ),
]


def schema_of(
    given: str | None,
    sql: str | None = None,
    payload: str = "json",
    message: str | None = None,
    *,
    registry: str | None = None,
) -> str | ProtobufSchema | None:
    """Return the argument `schema=`: the text, or that of a file. A query infers the schema by default.

    Args:
        given: Value of the option `--schema`.
        sql: The query, if any.
        payload: Encoding of the payloads; Arrow payloads contain their schema.
        message: Value of the option `--message`.
        registry: Value of the option `--registry`; without a schema it is the registry's.
    """
    if registry is not None and payload not in BINARY_FORMATS:
        raise typer.BadParameter("it is for avro and protobuf.", param_hint="--registry")
    if registry is not None and given is None and message is None:
        return None
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


def registry_of(url: str | None, subject: str | None = None) -> SchemaRegistry | None:
    """Return the argument `registry=`, with credentials of the environment.

    Args:
        url: Value of the option `--registry`.
        subject: Value of the option `--registry-subject`.
    """
    if url is None:
        return None
    # Imported here, because it needs the native module.
    from jetarrow.core.tls import TLS
    from jetarrow.jetstream.registry import SchemaRegistry

    user, password, token, ca = (
        os.environ.get(f"JETARROW_REGISTRY_{name}") or None for name in ("USER", "PASSWORD", "TOKEN", "CA")
    )
    try:
        return SchemaRegistry(
            url, user=user, password=password, token=token, tls=None if ca is None else TLS(ca=ca), subject=subject
        )
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--registry") from None
