"""Options of the verbs on key-value buckets, as typed dictionaries: see `jetarrow.core.option_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from datetime import timedelta

    from jetarrow.jetstream.literals import DecodeMode, TimestampUnit
    from jetarrow.jetstream.models import Placement, RePublish, StorageType, StoreCompression, StreamSource
    from jetarrow.jetstream.progress import Progress


class KeyValueOptions(TypedDict, total=False):
    """The fields of `KeyValueConfig`, as keywords; they win over the configuration that is given with them."""

    bucket: str
    """Its name: letters, digits, `-` and `_`."""
    description: str | None
    """A text for people; default none."""
    max_value_size: int | None
    """Most bytes of one value; default no limit."""
    history: int
    """Revisions kept per key, 1 to 64; default 1."""
    ttl: float | timedelta | None
    """Seconds that a value lives; default for ever."""
    max_bytes: int | None
    """Most bytes of the whole; default no limit."""
    storage: StorageType | str | None
    """Where it is kept; default in files."""
    replicas: int
    """How many servers keep it; default 1."""
    placement: Placement | None
    """Which servers may keep it; default any."""
    republish: RePublish | None
    """What to publish again; default nothing."""
    direct: bool | None
    """Whether any replica may answer reads; default True."""
    limit_marker_ttl: float | timedelta | None
    """Seconds that a marker stays where a key expired; default no markers."""
    compression: StoreCompression | str | bool | None
    """True (or "s2") compresses what is kept in files; default no."""
    metadata: dict[str, str] | None
    """Texts by name, for your own use; default none."""
    mirror: StreamSource | None
    """The bucket that this one copies; default none."""
    sources: list[StreamSource] | None
    """Buckets that this one gathers; default none."""


class BucketReadOptions(TypedDict, total=False):
    """Options of `kv.read`."""

    mode: DecodeMode
    """What happens to values that do not fit the schema: "PERMISSIVE" (default), "DROPMALFORMED" or "FAILFAST"."""
    batch_rows: int | None
    """Most rows of a batch; default 65536, and fewer in the first ones."""
    batch_bytes: int
    """A batch is cut when its values have this number of bytes; default 16 MiB."""
    timestamp_unit: TimestampUnit
    """Unit of the timestamps: "ns" (default), or "us" for readers that know no nanoseconds."""
    progress: Progress | bool | None
    """Called with (sequences done, in all); True shows a bar on a terminal. Default none."""
