"""What a bucket is, and what a read of an object gives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jetarrow.jetstream import models


@dataclass
class ObjectResult:
    """An object that was read. Public as `ObjectStore.ObjectResult`.

    Attributes:
        info: What is said about it; of a link, about the object that it leads to.
        data: Its bytes; `b""` where they were written elsewhere.
    """

    info: models.ObjectInfo
    data: bytes | None = b""


@dataclass(frozen=True)
class OrphanedChunks:
    """Chunks that no object refers to, as `ObjectStore.clean` finds them.

    Attributes:
        nuid: The id of the version that they are of: the last token of their subject.
        name: The deleted object that had them; None if the put was never completed, or the object was replaced.
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
        stream_info: All that the server says about the bucket's stream.
        bucket: The bucket's name.
    """

    stream_info: models.StreamInfo
    bucket: str

    @property
    def description(self) -> str | None:
        """The text for people."""
        return self.stream_info.config.description

    @property
    def ttl(self) -> float | None:
        """Seconds that an object lives; 0 or None is for ever."""
        return self.stream_info.config.max_age

    @property
    def storage_type(self) -> models.StorageType | None:
        """Where it is kept."""
        return self.stream_info.config.storage

    @property
    def replicas(self) -> int | None:
        """How many servers keep it."""
        return self.stream_info.config.num_replicas

    @property
    def sealed(self) -> bool:
        """Whether nothing can be changed any more."""
        return bool(self.stream_info.config.sealed)

    @property
    def size(self) -> int:
        """Bytes of the whole bucket, what is said about the objects counted."""
        return self.stream_info.state.bytes

    @property
    def compression(self) -> bool:
        """Whether the server compresses what it stores."""
        return self.stream_info.config.compression not in (None, models.StoreCompression.NONE)

    @property
    def metadata(self) -> dict[str, str]:
        """What was said about the bucket when it was created; what the server adds begins with `_nats.`."""
        return dict(self.stream_info.config.metadata or {})
