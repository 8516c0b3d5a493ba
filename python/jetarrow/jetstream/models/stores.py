"""Buckets of the key-value and object stores. Public as `jetarrow.js.api`."""

# ruff: noqa: RUF009  # Choice, Duration and the like are descriptors, not shared mutable defaults

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from jetarrow.jetstream.models.base import Base, Choice, Codec, Duration, Nested
from jetarrow.jetstream.models.streams import Placement, RePublish, StorageType, StoreCompression, StreamSource


@dataclass
class KeyValueConfig(Base):
    """How a key-value bucket works.

    Attributes:
        bucket: Its name: letters, digits, `-` and `_`.
        description: A text for people. Default: none.
        max_value_size: Most bytes of one value. Default: no limit.
        max_bytes: Most bytes of the whole. Default: no limit.
        history: Revisions kept per key, 1 to 64. Default: 1.
        ttl: Seconds (or a timedelta) that a value lives. Default: for ever.
        storage: Where it is kept. Default: in files.
        replicas: How many servers keep it. Default: 1.
        placement: Which servers may keep it. Default: any.
        republish: What to publish again. Default: nothing.
        direct: Whether any replica may answer reads. Default: the server's choice.
        limit_marker_ttl: Seconds that a marker stays where a key expired; needs server 2.11. Default: no markers.
        compression: True (or `"s2"`) compresses what is kept in files. Default: no.
        metadata: Texts by name, for your own use. Default: none.
        mirror: The bucket that this one copies, by its name; it is read here, and written there. Default: none.
        sources: Buckets that this one gathers, by their names. Default: none.
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
        """Convert to a dict; `limit_marker_ttl` is left out, since it is a setting of the stream."""
        result = super().as_dict()
        result.setdefault("ttl", 0)
        result.pop("limit_marker_ttl", None)
        return result


@dataclass
class ObjectStoreConfig(Base):
    """How an object store's bucket works.

    Attributes:
        bucket: Its name: letters, digits, `-` and `_`.
        description: A text for people. Default: none.
        ttl: Seconds (or a timedelta) that an object lives. Default: for ever.
        max_bytes: Most bytes of the whole. Default: no limit.
        storage: Where it is kept. Default: in files.
        replicas: How many servers keep it. Default: 1.
        placement: Which servers may keep it. Default: any.
        compression: Whether the server compresses what it stores. Default: False.
        metadata: Texts by name, for your own use. Default: none.
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
    """What an object links to, and the most bytes per chunk (default 128 KiB)."""

    _codecs: ClassVar[dict[str, Codec]] = {"link": Nested(ObjectLink)}

    link: ObjectLink | None = None
    max_chunk_size: int | None = None


@dataclass
class ObjectMeta(Base):
    """What is said about an object when it is put.

    Attributes:
        name: Its name. Default: the one that `put` is given.
        description: A text for people. Default: none.
        headers: Name to value, or to a list of values; they are stored, and read, as lists. Default: none.
        options: The size of its chunks. Default: 128 KiB.
        metadata: Texts by name, for your own use. Default: none.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"options": Nested(ObjectMetaOptions)}

    name: str | None = None
    description: str | None = None
    headers: dict[str, Any] | None = None
    options: ObjectMetaOptions | None = None
    metadata: dict[str, str] | None = None


@dataclass
class ObjectInfo(Base):
    """An object as the store has it.

    Attributes:
        name: Its name.
        bucket: Its bucket.
        nuid: The id of this version.
        size: Its size in bytes.
        chunks: Number of chunks that it is stored in.
        digest: `SHA-256=` with the checksum.
        mtime: When the server stored it, as RFC 3339 text.
        deleted: Whether it has been deleted. Default: False.
        description: As in `ObjectMeta`.
        headers: As in `ObjectMeta`.
        options: As in `ObjectMeta`; of a link, what it leads to.
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
        """The part of it that the user gave."""
        return ObjectMeta(self.name, self.description, self.headers, self.options, self.metadata)

    def is_link(self) -> bool:
        """Whether it is a link to another object or bucket."""
        return self.options is not None and self.options.link is not None
