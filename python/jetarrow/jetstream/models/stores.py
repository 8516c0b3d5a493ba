"""Buckets of the key-value and object stores. Public as `jetarrow.js.api`."""

# ruff: noqa: RUF009  # Choice, Duration and the like are descriptors, not shared mutable defaults

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from jetarrow.core.suggestions import suggests_fields
from jetarrow.jetstream.models.base import Base, Choice, Codec, Duration, Nested
from jetarrow.jetstream.models.streams import Placement, RePublish, StorageType, StoreCompression, StreamSource


@suggests_fields
@dataclass
class KeyValueConfig(Base):
    """Configuration of a key-value bucket.

    Attributes:
        bucket: Its name: letters, digits, `-` and `_`.
        description: A description for people. Default: none.
        max_value_size: Most bytes of one value. Default: no limit.
        max_bytes: Most bytes of the bucket. Default: no limit.
        history: Revisions kept per key, 1 to 64. Default: 1.
        ttl: Seconds (or a timedelta) after which a value expires. Default: no expiry.
        storage: Storage of the bucket. Default: in files.
        replicas: Number of replicas. Default: 1.
        placement: Servers that may store it. Default: any.
        republish: Subjects on which stored messages are published again. Default: none.
        direct: Whether any replica may answer reads. Default: the server decides.
        limit_marker_ttl: Seconds that a marker is kept after a key expired; needs server 2.11. Default: no markers.
        compression: True (or `"s2"`) compresses files. Default: no.
        metadata: Key-value pairs for the application. Default: none.
        mirror: Name of the bucket that this one mirrors; reads use the mirror, writes the original. Default: none.
        sources: Names of the buckets that this one copies from. Default: none.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "placement": Nested(Placement),
        "republish": Nested(RePublish),
        "mirror": Nested(StreamSource),
        "sources": Nested(StreamSource),
    }

    bucket: str
    description: str | None = None
    max_value_size: int | None = None
    history: int = 1
    ttl: Duration = Duration()
    max_bytes: int | None = None
    storage: Choice[StorageType] = Choice(StorageType)
    replicas: int = 1
    placement: Placement | None = None
    republish: RePublish | None = None
    direct: bool | None = None
    limit_marker_ttl: Duration = Duration()
    compression: StoreCompression | str | bool | None = None
    metadata: dict[str, str] | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] | None = None

    def as_dict(self) -> dict[str, object]:
        """Convert to a dict, without `limit_marker_ttl`, which is a setting of the stream."""
        result = super().as_dict()
        result.setdefault("ttl", 0)
        result.pop("limit_marker_ttl", None)
        return result


@suggests_fields
@dataclass
class ObjectStoreConfig(Base):
    """Configuration of an object store's bucket.

    Attributes:
        bucket: Its name: letters, digits, `-` and `_`.
        description: A description for people. Default: none.
        ttl: Seconds (or a timedelta) after which an object expires. Default: no expiry.
        max_bytes: Most bytes of the bucket. Default: no limit.
        storage: Storage of the bucket. Default: in files.
        replicas: Number of replicas. Default: 1.
        placement: Servers that may store it. Default: any.
        compression: Whether the server compresses what it stores. Default: False.
        metadata: Key-value pairs for the application. Default: none.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"placement": Nested(Placement)}

    bucket: str | None = None
    description: str | None = None
    ttl: Duration = Duration()
    max_bytes: int | None = None
    storage: Choice[StorageType] = Choice(StorageType)
    replicas: int = 1
    placement: Placement | None = None
    compression: bool | None = None
    metadata: dict[str, str] | None = None

    def as_dict(self) -> dict[str, object]:
        """Convert to a dict; see `Base.as_dict`."""
        result = super().as_dict()
        result.setdefault("ttl", 0)
        return result


@dataclass
class ObjectLink(Base):
    """A link to an object of another bucket, or (`name` None) to the whole bucket."""

    bucket: str
    name: str | None = None


@dataclass
class ObjectMetaOptions(Base):
    """The target of a link, and the most bytes per chunk (default 128 KiB)."""

    _codecs: ClassVar[dict[str, Codec]] = {"link": Nested(ObjectLink)}

    link: ObjectLink | None = None
    max_chunk_size: int | None = None


@suggests_fields
@dataclass
class ObjectMeta(Base):
    """Metadata of an object to put.

    Attributes:
        name: Its name. Default: the name that is passed to `put`.
        description: A description for people. Default: none.
        headers: Name to value, or to a list of values; they are stored, and read, as lists. Default: none.
        options: The size of its chunks. Default: 128 KiB.
        metadata: Key-value pairs for the application. Default: none.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"options": Nested(ObjectMetaOptions)}

    name: str | None = None
    description: str | None = None
    headers: dict[str, Any] | None = None
    options: ObjectMetaOptions | None = None
    metadata: dict[str, str] | None = None


@dataclass
class ObjectInfo(Base):
    """Metadata and state of a stored object.

    Attributes:
        name: Its name.
        bucket: Its bucket.
        nuid: The id of this version.
        size: Its size in bytes.
        chunks: Number of chunks that it is stored in.
        digest: `SHA-256=` with the checksum.
        mtime: Time at which the server stored it, as RFC 3339 text.
        deleted: Whether it has been deleted. Default: False.
        description: As in `ObjectMeta`.
        headers: As in `ObjectMeta`.
        options: As in `ObjectMeta`; for a link, its target.
        metadata: As in `ObjectMeta`.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"options": Nested(ObjectMetaOptions)}

    name: str
    bucket: str
    nuid: str
    size: int | None = None
    mtime: str | None = None
    chunks: int | None = None
    digest: str | None = None
    deleted: bool | None = False
    description: str | None = None
    headers: dict[str, Any] | None = None
    options: ObjectMetaOptions | None = None
    metadata: dict[str, str] | None = None

    @property
    def meta(self) -> ObjectMeta:
        """The metadata that was passed to `put`."""
        return ObjectMeta(self.name, self.description, self.headers, self.options, self.metadata)

    def is_link(self) -> bool:
        """Whether it is a link to another object or bucket."""
        return self.options is not None and self.options.link is not None
