"""Operations, entries, configuration and status of buckets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Literal

from .keys import KV_DEL, KV_OP, KV_PURGE, MARKER_REASON

if TYPE_CHECKING:
    from ..client.message import Headers
    from ..jetstream.stream import Placement, Republish, StreamInfo, StreamSource


class KeyValueOp(Enum):
    """The operation that stored an entry."""

    PUT = "PUT"
    DELETE = "DEL"
    PURGE = "PURGE"


_OPERATIONS = {KV_DEL: KeyValueOp.DELETE, KV_PURGE: KeyValueOp.PURGE}
# Markers that the server stores if the bucket has `limit_marker_ttl`.
_REASONS = {"MaxAge": KeyValueOp.PURGE, "Purge": KeyValueOp.PURGE, "Remove": KeyValueOp.DELETE}


def operation_of(headers: Headers | None) -> KeyValueOp:
    """Return the operation that a message's headers name."""
    if not headers:
        return KeyValueOp.PUT
    if name := headers.get(KV_OP):
        return _OPERATIONS.get(name, KeyValueOp.PUT)
    return _REASONS.get(headers.get(MARKER_REASON) or "", KeyValueOp.PUT)


@dataclass
class KeyValueEntry:
    """One revision of a key.

    Attributes:
        bucket: Name of the bucket.
        key: The key.
        value: The value; empty for a deletion.
        revision: Sequence number in the bucket's stream.
        created: Time at which the server stored it.
        delta: Number of entries that follow in the same watch or history; 0 for `get`.
        operation: Whether it is a value or a deletion.
    """

    bucket: str
    key: str
    value: bytes
    revision: int
    created: datetime
    delta: int
    operation: KeyValueOp


@dataclass
class KeyValueConfig:
    """Configuration of a bucket.

    Attributes:
        bucket: Name of the bucket.
        description: A short text. Default: none.
        max_value_size: Maximum bytes of a value. Default: no limit.
        history: Revisions that are kept of each key, 1 to 64. Default: 1.
        ttl: Age at which values are removed. Default: never.
        max_bytes: Maximum bytes of the bucket. Default: no limit.
        storage: "file" or "memory". Default: "file".
        replicas: Number of replicas. Default: 1.
        compression: Whether values are compressed on disk. Default: False.
        placement: Cluster and tags of the servers. Default: the server selects them.
        republish: Subjects under which stored values are published again. Default: none.
        mirror: The bucket whose keys this one has; writes go to that bucket. Default: none.
        sources: Buckets whose keys are copied into this one. Default: none.
        limit_marker_ttl: Age at which the markers of removed values are removed, more than 1 s. It enables the TTL of
            keys. Default: no markers.
        metadata: Further texts by name. Default: none.
    """

    bucket: str
    description: str | None = None
    max_value_size: int | None = None
    history: int = 1
    ttl: timedelta | None = None
    max_bytes: int | None = None
    storage: Literal["file", "memory"] | None = None
    replicas: int = 1
    compression: bool = False
    placement: Placement | None = None
    republish: Republish | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] | None = None
    limit_marker_ttl: timedelta | None = None
    metadata: dict[str, str] | None = None


@dataclass
class KeyValueStatus:
    """State of a bucket.

    Attributes:
        bucket: Name of the bucket.
        values: Number of stored entries, with earlier revisions and deletions.
        history: Revisions that are kept of each key.
        ttl: Age at which values are removed, or None.
        bytes: Stored bytes.
        backing_store: "JetStream".
        compressed: Whether values are compressed on disk.
        limit_marker_ttl: Age at which the markers of removed values are removed, or None.
        metadata: Further texts by name, or None.
        stream_info: Information about the bucket's stream.
    """

    bucket: str
    values: int
    history: int
    ttl: timedelta | None
    bytes: int
    backing_store: str
    compressed: bool
    limit_marker_ttl: timedelta | None
    metadata: dict[str, str] | None
    stream_info: StreamInfo


def status_of(bucket: str, info: StreamInfo) -> KeyValueStatus:
    """Return a bucket's status from its stream's information."""
    config = info.config
    return KeyValueStatus(
        bucket=bucket,
        values=info.state.messages,
        history=config.max_msgs_per_subject or 1,
        ttl=config.max_age,
        bytes=info.state.bytes,
        backing_store="JetStream",
        compressed=config.compression == "s2",
        limit_marker_ttl=config.subject_delete_marker_ttl,
        metadata=config.metadata,
        stream_info=info,
    )
