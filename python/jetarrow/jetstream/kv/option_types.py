"""Options of the verbs on key-value buckets, as typed dictionaries: see `jetarrow.core.option_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from datetime import timedelta

    from jetarrow.jetstream.literals import DecodeMode, TimestampNumbers, TimestampUnit
    from jetarrow.jetstream.models import Placement, RePublish, StorageType, StoreCompression, StreamSource
    from jetarrow.jetstream.progress import Progress


class KeyValueOptions(TypedDict, total=False):
    """The fields of `KeyValueConfig`, as keywords; they override those of `config`."""

    bucket: str
    """Its name: letters, digits, `-` and `_`."""
    description: str | None
    """Description; default none."""
    max_value_size: int | None
    """Maximum size of a value in bytes; default unlimited."""
    history: int
    """Number of revisions kept of each key, 1 to 64; default 1."""
    ttl: float | timedelta | None
    """Maximum age of a value in seconds; default unlimited."""
    max_bytes: int | None
    """Maximum size of the bucket in bytes; default unlimited."""
    storage: StorageType | str | None
    """Storage of the stream; default files."""
    replicas: int
    """Number of replicas; default 1."""
    placement: Placement | None
    """Placement of the replicas; default any server."""
    republish: RePublish | None
    """Republishing of stored messages; default none."""
    direct: bool | None
    """Whether any replica may answer reads (direct get); default True."""
    limit_marker_ttl: float | timedelta | None
    """Maximum age in seconds of the marker of an expired key; default no markers."""
    compression: StoreCompression | str | bool | None
    """True (or "s2") compresses the files; default False."""
    metadata: dict[str, str] | None
    """Application-defined texts by name; default none."""
    mirror: StreamSource | None
    """The bucket that this one mirrors; default none."""
    sources: list[StreamSource] | None
    """Buckets that this one aggregates; default none."""


class BucketReadOptions(TypedDict, total=False):
    """Options of `kv.read`."""

    mode: DecodeMode
    """Handling of values that do not fit the schema: "PERMISSIVE" (default), "DROPMALFORMED" or "FAILFAST"."""
    batch_rows: int | None
    """Maximum number of rows of a batch; default 65,536, and fewer in the first batches."""
    batch_bytes: int
    """Size in bytes of the values at which a batch ends; default 16 MiB."""
    timestamp_unit: TimestampUnit
    """Unit of the timestamps: "ns" (default), or "us" for readers without nanoseconds."""
    time_zone: str
    """Zone of JSON texts without an offset, an IANA name or an offset; default "UTC"."""
    timestamp_numbers: TimestampNumbers | None
    """Unit of numbers in timestamp fields: "seconds", "millis", "micros", "nanos", or "error"; default None,
    the unit of an Arrow schema's field, else "error"."""
    progress: Progress | bool | None
    """Called with (sequences read, total sequences); True shows a progress bar on a terminal. Default none."""
