"""Keyword options of `nc.system()` and its verbs as typed dictionaries. No module imports this one at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence


class SystemOptions(TypedDict, total=False):
    """Options of `nc.system`."""

    timeout: float
    """Maximum seconds of a request; default 5."""
    stall: float
    """Maximum seconds between two answers of servers; default 0.5."""


class ServerFilters(TypedDict, total=False):
    """The servers that a request is sent to; default all."""

    server: str | None
    """Name or id of one server."""
    cluster: str | None
    """Servers of this cluster."""
    domain: str | None
    """Servers of this JetStream domain."""
    tags: str | Sequence[str] | None
    """Servers that have all of these tags."""
