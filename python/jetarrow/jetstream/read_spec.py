"""The validated options of one read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from jetarrow.core.arguments import check_whole, texts
from jetarrow.jetstream.literals import (
    DecodeMode,
    OnDataLoss,
    OnRollback,
    PayloadFormat,
    TimestampUnit,
    check_literal,
)
from jetarrow.jetstream.models.values import moment
from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.schema import arrow_schema

DEFAULT_FETCH_BYTES = 16 * 1024 * 1024
# nats-server disconnects a client as a slow consumer once 64 MiB are pending for it (max_pending); half of that is
# left to the connection's other subscriptions.
MOST_FETCH_BYTES = 32 * 1024 * 1024

# Largest batch, if the caller gives no limits.
BATCH_ROWS = 65_536
BATCH_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """The options of `js.read`, `js.latest` and the reads of stores and sinks; documented at `js.read`.

    Times are stored as RFC 3339 text, so that a span such as "1h" is resolved once. A schema is stored as an Arrow
    schema or as "infer".

    Attributes:
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
    flatten: bool = False
    limit: int | None = None
    batch_rows: int | None = None
    batch_bytes: int = BATCH_BYTES
    fetch_bytes: int = DEFAULT_FETCH_BYTES
    direct: bool | None = None
    follow: bool = False
    timestamp_unit: TimestampUnit = "ns"
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
        if self.flatten and self.schema is None:
            raise ValueError("flatten=True makes columns of the fields of value: give schema= as well")
        if self.start_time is not None:
            self._set("start_time", moment(self.start_time))
        if self.end_time is not None:
            self._set("end_time", moment(self.end_time))
        self._set("subjects", texts("subjects", self.subjects))
        if not self.infers_schema:
            self._set("schema", arrow_schema(self.schema))

    def _set(self, name: str, value: object) -> None:
        # A frozen dataclass refuses plain assignment in __post_init__ too.
        object.__setattr__(self, name, value)

    @property
    def infers_schema(self) -> bool:
        """Whether the schema is read from the stream's messages when the reader is opened."""
        return isinstance(self.schema, str) and self.schema == "infer"

    def native_options(self) -> Mapping[str, Any]:
        """The keywords of the native `read`, except `schema` and `timeout`."""
        return {
            "start_seq": self.start_seq,
            "end_seq": self.end_seq,
            "start_time": self.start_time,
            "end_time": self.end_time,
            "subjects": self.subjects,
            "columns": self.columns,
            "mode": self.mode,
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
