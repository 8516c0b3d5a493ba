"""The closed sets of option values, as `Literal` types, and their check."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

DecodeMode: TypeAlias = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
"""Handling of payloads that do not fit the schema."""

PayloadFormat: TypeAlias = Literal["json", "arrow", "avro", "protobuf"]
"""Encoding of payloads that have columns: a JSON object, an Arrow IPC stream, an Avro record or a Protobuf message."""

RowFormat: TypeAlias = Literal["json", "avro", "protobuf"]
"""Encoding of payloads that have one row each."""

BINARY_FORMATS = ("avro", "protobuf")
"""Those that have one row each and a schema of their own."""

ArrowCompression: TypeAlias = Literal["zstd", "lz4"]
"""Compression of the buffers of an Arrow IPC stream."""

TimestampNumbers: TypeAlias = Literal["error", "seconds", "millis", "micros", "nanos"]
"""Unit of numbers in timestamp fields of JSON; "error" makes them malformed."""

TimestampUnit: TypeAlias = Literal["ns", "us"]
"""Unit of the timestamp columns."""

OnDataLoss: TypeAlias = Literal["error", "warn"]
"""Reaction to messages of the range that the stream no longer has."""

OnRollback: TypeAlias = Literal["fail", "continue", "earliest"]
"""Reaction to a stream that was rolled back behind the position."""

SinkMerge: TypeAlias = Literal["append", "upsert"]
"""How a sink adds rows to a table: each message is a row, or each key has one."""

SinkDeletes: TypeAlias = Literal["markers", "none"]
"""Whether deletion markers delete rows of a table with keys."""

Evolve: TypeAlias = Literal["fail", "add"]
"""Reaction to rows with columns that the table lacks: an error, or new columns."""

SinkCompression: TypeAlias = Literal["zstd", "snappy", "gzip", "brotli", "lz4", "none"]
"""Compression of the Parquet files of a sink."""

OnPipeError: TypeAlias = Literal["fail", "dead_letter", "skip"]
"""Reaction of a pipe to a row that its function cannot process."""

PublishMode: TypeAlias = Literal["window", "fast", "atomic", "auto"]
"""Protocol of a bulk publish: an ack for each message, fast ingest or an atomic batch (ADR-50), or chosen."""

OnReject: TypeAlias = Literal["chunk", "split"]
"""Effect of a rejected row of an atomic chunk: its chunk is rejected, or stored without it."""

ExtraColumns: TypeAlias = Literal["error", "ignore"]
"""Handling of a table's columns that are no part of a message."""

Rollup: TypeAlias = Literal["sub", "all"]
"""Messages that a rollup replaces: those of its subject, or all of the stream."""

ScheduleRollup: TypeAlias = Literal["sub"]
"""Messages that a message of a schedule replaces (ADR-51)."""

NeverExpires: TypeAlias = Literal["never"]
"""A time to live without an end (ADR-43)."""

AckVerb: TypeAlias = Literal["ack", "nak", "term", "in_progress"]
"""Acknowledgement of the rows of a batch."""

ConsumerAction: TypeAlias = Literal["create", "update"]
"""`action` of a CONSUMER.CREATE request (ADR-40)."""

GroupKind: TypeAlias = Literal["static", "elastic"]
"""Kind of a partitioned consumer group."""


def check_literal(name: str, value: Any, literal: Any) -> None:
    """Checks the value of an option.

    Args:
        name: The option.
        value: The value that the caller gave.
        literal: Its `Literal` type.

    Raises:
        ValueError: The value is not one of the type's.
    """
    known = get_args(literal)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
