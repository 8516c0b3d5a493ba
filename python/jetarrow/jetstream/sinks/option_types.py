"""Options of the sinks, as typed dictionaries: see `jetarrow.core.option_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from os import PathLike

    from jetarrow.jetstream.arrow import ArrowSchema
    from jetarrow.jetstream.binary_schema import ProtobufSchema
    from jetarrow.jetstream.literals import (
        Evolve,
        OnDataLoss,
        OnRollback,
        RowFormat,
        SinkCompression,
        SinkDeletes,
        SinkMerge,
        TimestampNumbers,
        TimestampUnit,
    )
    from jetarrow.jetstream.progress import Progress
    from jetarrow.jetstream.registry import SchemaRegistry


class _SinkOptions(TypedDict, total=False):
    """Options of all sinks."""

    schema: ArrowSchema | Mapping[str, Any] | str | PathLike[str] | ProtobufSchema | type | None
    """Schema of the payloads, as in `js.read`; default none."""
    format: RowFormat
    """Encoding of payloads: "json" (default), "avro" or "protobuf"."""
    registry: SchemaRegistry | str | None
    """Schema registry whose ids payloads begin with, its URL or a `jetarrow.SchemaRegistry`; default none."""
    flatten: bool
    """Whether the fields of `value` are columns of the table; default True."""
    subjects: str | Sequence[str] | None
    """Subject filters that do not overlap; default all."""
    start_seq: int | None
    """First sequence at the first start; default the stream's first one."""
    start_time: datetime | timedelta | str | None
    """Instead of `start_seq`: the first message at or after this time."""
    rows: int
    """Maximum number of rows per commit; default 1,000,000."""
    seconds: float
    """Maximum wait of a commit for more rows in seconds; default 60."""
    partition_by: str | Sequence[str] | None
    """Partition columns; `date` and `hour` are derived from the timestamp; default none."""
    follow: bool
    """Whether `run` follows the stream; default False."""
    durable: str | None
    """Durable consumer to read from, acknowledged after each commit; default none."""
    time_zone: str
    """Zone of JSON texts without an offset, an IANA name or an offset; default "UTC"."""
    timestamp_numbers: TimestampNumbers | None
    """Unit of numbers in timestamp fields, as in `js.read`; default None."""
    on_data_loss: OnDataLoss
    """Reaction to lost messages: "error" (default) raises `DataLossError`, "warn" continues."""
    on_rollback: OnRollback
    """Reaction to a rollback behind the position: "fail" (default), "continue" or "earliest"."""
    progress: Progress | bool | None
    """Called with (sequences read, total or None); True shows a progress bar on a terminal. Default none."""


class ParquetOptions(_SinkOptions, total=False):
    """Options of `js.to_parquet`."""

    compression: SinkCompression
    """Compression of the Parquet files; default "zstd"."""
    timestamp_unit: TimestampUnit
    """Unit of the timestamps: "ns" (default), or "us"."""
    filesystem: Any
    """File system of the path, a `pyarrow.fs.FileSystem`; default that of its URI."""


class _KeyOptions(_SinkOptions, total=False):
    """Options of the sinks whose tables may have keys."""

    merge: SinkMerge
    """How rows are added: "append" (default) or "upsert", one row for each key."""
    key: str | Sequence[str] | None
    """With "upsert": "subject" or the key columns; default none."""
    deletes: SinkDeletes
    """With "upsert": whether "markers" (default) delete rows, or "none" do."""


class DeltaOptions(_KeyOptions, total=False):
    """Options of `js.to_delta`."""

    compression: SinkCompression
    """Compression of the Parquet files; default "zstd"."""
    storage_options: Mapping[str, str] | None
    """Storage options of deltalake; default none."""
    app_id: str | None
    """Name of the sink in the table's log; default `jetarrow:` and the stream's name."""
    evolve: Evolve
    """Reaction to columns that the table lacks: "fail" (default), or "add" adds them."""


class IcebergOptions(_KeyOptions, total=False):
    """Options of `js.to_iceberg`."""

    catalog: Any
    """Name of a catalog in pyiceberg's configuration, or a catalog; default its default catalog."""
    evolve: Evolve
    """Reaction to columns that the table lacks: "fail" (default), or "add" adds them."""
    properties: Mapping[str, str] | None
    """Table properties of a table that is created; default none."""
    app_id: str | None
    """Name of the sink in the table's properties; default `jetarrow:` and the stream's name."""
