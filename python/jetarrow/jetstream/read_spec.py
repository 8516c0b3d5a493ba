"""The validated options of one read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypedDict, cast

from jetarrow.core.arguments import check_whole, texts
from jetarrow.jetstream.json_rules import JsonRules, json_rules
from jetarrow.jetstream.literals import (
    BINARY_FORMATS,
    DecodeMode,
    OnDataLoss,
    OnRollback,
    PayloadFormat,
    TimestampNumbers,
    TimestampUnit,
    check_literal,
)
from jetarrow.jetstream.models.values import moment
from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.registry import SchemaRegistry, payload_schema
from jetarrow.jetstream.schema import arrow_schema

DEFAULT_FETCH_BYTES = 16 * 1024 * 1024
# nats-server disconnects a client as a slow consumer once 64 MiB are pending for it (max_pending); half of that is
# left to the connection's other subscriptions.
MOST_FETCH_BYTES = 32 * 1024 * 1024

# Largest batch, if the caller gives no limits.
BATCH_ROWS = 65_536
BATCH_BYTES = 16 * 1024 * 1024


class ReadOptions(TypedDict):
    """The options of the native `read`, with defaults resolved.

    Attributes:
        start_seq: First sequence; None for the first message.
        end_seq: Sequence after the last one; None for the last message at opening.
        start_time: Instead of `start_seq`: the first message at or after it, in RFC 3339.
        end_time: Instead of `end_seq`, exclusive too.
        subjects: Subject filters; empty for all.
        follow: Continue with new messages, without end.
        columns: Columns of the batches; None for the default ones.
        batch_rows: Maximum rows of a batch.
        batch_bytes: Maximum bytes of a batch.
        fetch_bytes: Maximum bytes requested from the server at once.
        microseconds: Timestamps have microseconds, not nanoseconds.
        warn_on_loss: A loss is an item of the reader, not an error.
        direct: Use direct gets instead of a consumer. None: only if a consumer would remove messages.
        mode: "PERMISSIVE", "DROPMALFORMED" or "FAILFAST": handling of malformed payloads.
        rules: Rules of the JSON decoder.
        binary_headers: The values of headers are bytes, not texts.
        latest: Only the last message of each subject before the end.
        markers: With `latest`: also deletion markers.
        bucket: Subject prefix of a key-value bucket. The columns are those of its entries.
        flatten: The fields of `schema` are top-level columns.
        limit: Maximum rows; None for all.
        format: "arrow": with `schema`, every payload is an Arrow stream with these columns. "avro", "protobuf":
            `schema` is as `payload_schema` returns it.
        grow: Start with a small batch, and double it up to `batch_rows` and `batch_bytes`.
        outage: Maximum seconds without a server after opening; None for 60.
        marks: Sequence and nanoseconds of messages received before, to compare with the stream.
        on_rollback: Action if the stream was rolled back: "fail", "continue" or "earliest".
    """

    start_seq: int | None
    end_seq: int | None
    start_time: str | None
    end_time: str | None
    subjects: Sequence[str]
    columns: Sequence[str] | None
    mode: DecodeMode
    rules: JsonRules
    binary_headers: bool
    format: PayloadFormat
    flatten: bool
    limit: int | None
    batch_rows: int
    batch_bytes: int
    grow: bool
    fetch_bytes: int
    direct: bool | None
    follow: bool
    microseconds: bool
    warn_on_loss: bool
    on_rollback: OnRollback
    latest: bool
    markers: bool
    bucket: str | None
    outage: float | None
    marks: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """The options of `js.read`, `js.latest` and the reads of stores and sinks; documented at `js.read`.

    Times are stored as RFC 3339 text, so that a span such as "1h" is resolved once. A schema is stored as an Arrow
    schema or as "infer".

    Attributes:
        rules: Rules of the JSON decoder, instead of `time_zone` and `timestamp_numbers`.
        binary_headers: The values of headers are bytes, not texts.
        latest: Only the last message of each subject.
        deleted: With `latest`: also subjects whose last message is a deletion marker.
        bucket: Subject prefix of a key-value bucket; the columns are those of its entries.
        grow: Start with small batches. Default: if `batch_rows` is not given.
        outage: Seconds for which no server may answer once the read is open. Default: 60.
        marks: Sequences and times of messages seen before, which are compared with the stream.

    Raises:
        ValueError: An option has an invalid value.
        TypeError: An option has a wrong type.
        UnsupportedError: The schema is text or a dict, and pyarrow is not installed.
    """

    stream: str
    start_seq: int | None = None
    end_seq: int | None = None
    start_time: datetime | timedelta | str | None = None
    end_time: datetime | timedelta | str | None = None
    subjects: str | Sequence[str] | None = None
    columns: Sequence[str] | None = None
    schema: object | None = None
    mode: DecodeMode = "PERMISSIVE"
    format: PayloadFormat = "json"
    registry: SchemaRegistry | None = None
    flatten: bool = False
    limit: int | None = None
    batch_rows: int | None = None
    batch_bytes: int = BATCH_BYTES
    fetch_bytes: int = DEFAULT_FETCH_BYTES
    direct: bool | None = None
    follow: bool = False
    timestamp_unit: TimestampUnit = "ns"
    time_zone: str = "UTC"
    timestamp_numbers: TimestampNumbers | None = None
    rules: JsonRules | None = None
    binary_headers: bool = False
    on_data_loss: OnDataLoss = "error"
    on_rollback: OnRollback = "fail"
    progress: Progress | bool | None = None
    latest: bool = False
    deleted: bool = True
    bucket: str | None = None
    grow: bool | None = None
    outage: float | None = None
    marks: Sequence[tuple[int, int]] = ()

    def __post_init__(self) -> None:
        """Validates and normalizes the options."""
        check_literal("timestamp_unit", self.timestamp_unit, TimestampUnit)
        check_literal("on_data_loss", self.on_data_loss, OnDataLoss)
        check_literal("on_rollback", self.on_rollback, OnRollback)
        check_whole(start_seq=self.start_seq, end_seq=self.end_seq, limit=self.limit, fetch_bytes=self.fetch_bytes)
        for name, seq in (("start_seq", self.start_seq), ("end_seq", self.end_seq)):
            if seq is not None and seq < 0:
                raise ValueError(f"{name} must be 0 or more, not {seq}")
        for name, count in (("fetch_bytes", self.fetch_bytes), ("limit", self.limit)):
            if count is not None and count < 1:
                raise ValueError(f"{name} must be 1 or more, not {count}")
        # `mode` is validated by the native core.
        check_literal("format", self.format, PayloadFormat)
        if self.format == "arrow" and self.schema is None:
            self._set("schema", "infer")
        if self.flatten and self.schema is None and self.registry is None:
            raise ValueError("flatten=True makes columns of the fields of value: give schema= as well")
        if self.start_time is not None:
            self._set("start_time", moment(self.start_time))
        if self.end_time is not None:
            self._set("end_time", moment(self.end_time))
        self._set("subjects", texts("subjects", self.subjects))
        if self.rules is None:
            units = self.schema if self.format == "json" else None
            self._set("rules", json_rules(units, self.time_zone, self.timestamp_numbers))
        if self.format in BINARY_FORMATS:
            self._set("schema", payload_schema(self.format, self.schema, self.registry))
        elif not self.infers_schema:
            self._set("schema", arrow_schema(self.schema))

    def _set(self, name: str, value: object) -> None:
        # A frozen dataclass refuses plain assignment in __post_init__ too.
        object.__setattr__(self, name, value)

    @property
    def infers_schema(self) -> bool:
        """Whether the schema is read from the stream's messages when the reader is opened."""
        if self.format in BINARY_FORMATS:
            return self.schema is None
        return isinstance(self.schema, str) and self.schema == "infer"

    def native_options(self) -> ReadOptions:
        """The options of the native `read`."""
        return {
            "start_seq": self.start_seq,
            "end_seq": self.end_seq,
            "start_time": cast("str | None", self.start_time),
            "end_time": cast("str | None", self.end_time),
            "subjects": cast("Sequence[str]", self.subjects),
            "columns": self.columns,
            "mode": self.mode,
            "rules": cast("JsonRules", self.rules),
            "binary_headers": self.binary_headers,
            "format": self.format,
            "flatten": self.flatten,
            "limit": self.limit,
            "batch_rows": BATCH_ROWS if self.batch_rows is None else self.batch_rows,
            "batch_bytes": self.batch_bytes,
            "grow": self.batch_rows is None if self.grow is None else self.grow,
            "fetch_bytes": min(self.fetch_bytes, MOST_FETCH_BYTES),
            "direct": self.direct,
            "follow": self.follow,
            "microseconds": self.timestamp_unit == "us",
            "warn_on_loss": self.on_data_loss == "warn",
            "on_rollback": self.on_rollback,
            "latest": self.latest,
            "markers": self.deleted,
            "bucket": self.bucket,
            "outage": self.outage,
            "marks": list(self.marks),
        }
