"""Result of a read, and state of a bucket."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jetarrow.jetstream import models


@dataclass
class ObjectResult:
    """An object that was read. Public as `ObjectStore.ObjectResult`.

    Attributes:
        info: Metadata of the object; for a link, metadata of its target.
        data: The data; `b""` if it was written to a file.
    """

    info: models.ObjectInfo
    data: bytes | None = b""


@dataclass(frozen=True)
class OrphanedChunks:
    """Chunks that no object refers to, found by `ObjectStore.clean`.

    Attributes:
        nuid: Id of their version: the last token of their subject.
        name: The deleted object of these chunks; None if the put was not completed, or the object was replaced.
        chunks: Number of chunks.
        bytes: Payload bytes of the chunks.
        newest: When the server stored the newest one.
    """

    nuid: str
    name: str | None
    chunks: int
    bytes: int
    newest: datetime


@dataclass(frozen=True)
class ObjectStoreStatus:
    """State and configuration of a bucket. Public as `ObjectStore.ObjectStoreStatus`.

    Attributes:
        stream_info: State and configuration of the bucket's stream.
        bucket: The bucket's name.
    """

    stream_info: models.StreamInfo
    bucket: str

    @property
    def description(self) -> str | None:
        """Description of the bucket."""
        return self.stream_info.config.description

    @property
    def ttl(self) -> float | None:
        """Maximum age of an object in seconds; 0 or None is unlimited."""
        return self.stream_info.config.max_age

    @property
    def storage_type(self) -> models.StorageType | None:
        """Storage of the stream."""
        return self.stream_info.config.storage

    @property
    def replicas(self) -> int | None:
        """Number of replicas."""
        return self.stream_info.config.num_replicas

    @property
    def sealed(self) -> bool:
        """Whether the bucket is sealed, so that it cannot be changed."""
        return bool(self.stream_info.config.sealed)

    @property
    def size(self) -> int:
        """Size of the bucket in bytes, including metadata."""
        return self.stream_info.state.bytes

    @property
    def compression(self) -> bool:
        """Whether the server compresses the stream."""
        return self.stream_info.config.compression not in (None, models.StoreCompression.NONE)

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the bucket's configuration; keys set by the server begin with `_nats.`."""
        return dict(self.stream_info.config.metadata or {})
