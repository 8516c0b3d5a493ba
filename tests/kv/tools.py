"""Helpers of the key-value tests."""

from __future__ import annotations

from typing import Any


async def initial(watcher: Any) -> list[Any]:
    """Returns the entries before None."""
    entries = []
    while (entry := await watcher.updates()) is not None:
        entries.append(entry)
    return entries
