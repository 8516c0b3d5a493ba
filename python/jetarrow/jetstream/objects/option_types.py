"""Options of the verbs on object stores, as typed dictionaries: see `jetarrow.core.option_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from datetime import timedelta

    from jetarrow.jetstream.models import Placement, StorageType


class ObjectStoreOptions(TypedDict, total=False):
    """The fields of `ObjectStoreConfig` except its name, as keywords; they override those of `config`."""

    description: str | None
    """Description; default none."""
    ttl: float | timedelta | None
    """Maximum age of an object in seconds; default unlimited."""
    max_bytes: int | None
    """Maximum size of the bucket in bytes; default unlimited."""
    storage: StorageType | str | None
    """Storage of the stream; default files."""
    replicas: int
    """Number of replicas; default 1."""
    placement: Placement | None
    """Placement of the replicas; default any server."""
    compression: bool | None
    """Whether the server compresses its files; default False."""
    metadata: dict[str, str] | None
    """Application-defined texts by name; default none."""
