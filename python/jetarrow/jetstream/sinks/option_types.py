"""Options of the sinks, as typed dictionaries: see `jetarrow.core.option_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from jetarrow.jetstream.arrow import ArrowSchema
    from jetarrow.jetstream.literals import OnDataLoss, OnRollback, TimestampUnit
    from jetarrow.jetstream.progress import Progress


class _SinkOptions(TypedDict, total=False):
    """Options of both sinks."""

    schema: ArrowSchema | Mapping[str, Any] | str | None
    """Decodes JSON payloads, as `js.read`; default none."""
    flatten: bool
    """The fields of `value` are columns of their own; default True."""
    subjects: str | Sequence[str] | None
    """Filters, one or several that do not overlap; default all."""
    start_seq: int | None
    """First sequence, at the first start; default the first there is."""
    start_time: datetime | timedelta | str | None
    """Instead of a sequence: the first message at or after this time."""
    rows: int
    """Most rows of a commit; default 1,000,000."""
    seconds: float
    """A commit waits no longer for more rows; default 60."""
    partition_by: str | Sequence[str] | None
    """Columns whose values are folders; `date` and `hour` are made of the timestamp; default none."""
    compression: str
    """Of the Parquet files; default "zstd"."""
    follow: bool
    """Goes on for ever with what comes; default False."""
    durable: str | None
    """A durable consumer that is acknowledged after each commit; default none."""
    on_data_loss: OnDataLoss
    """What is gone raises `DataLossError` with "error" (default); "warn" goes on with what is left."""
    on_rollback: OnRollback
    """Where the server went back behind the position: "fail" (default), "continue" or "earliest"."""
    progress: Progress | bool | None
    """Called with (sequences done, in all or None); True shows a bar on a terminal. Default none."""


class ParquetOptions(_SinkOptions, total=False):
    """Options of `js.to_parquet`."""

    timestamp_unit: TimestampUnit
    """Unit of the timestamps: "ns" (default), or "us"."""
    filesystem: Any
    """A `pyarrow.fs.FileSystem`; default that of the path."""


class DeltaOptions(_SinkOptions, total=False):
    """Options of `js.to_delta`."""

    storage_options: Mapping[str, str] | None
    """deltalake's; default none."""
    app_id: str | None
    """Name of the sink in the table's log; default made of the stream's name."""
