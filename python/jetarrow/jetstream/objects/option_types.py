"""Options of the verbs on object stores, as typed dictionaries: see `jetarrow.core.option_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from datetime import timedelta

    from jetarrow.jetstream.models import Placement, StorageType


class ObjectStoreOptions(TypedDict, total=False):
    """The fields of `ObjectStoreConfig` but its name, as keywords; they win over the configuration beside them."""

    description: str | None
    """A text for people; default none."""
    ttl: float | timedelta | None
    """Seconds that an object lives; default for ever."""
    max_bytes: int | None
    """Most bytes of the whole; default no limit."""
    storage: StorageType | str | None
    """Where it is kept; default in files."""
    replicas: int
    """How many servers keep it; default 1."""
    placement: Placement | None
    """Which servers may keep it; default any."""
    compression: bool | None
    """Whether the server compresses what it keeps in files; default no."""
    metadata: dict[str, str] | None
    """Texts by name, for your own use; default none."""
