"""What the tests of buckets have in common."""

from __future__ import annotations

from typing import Any


async def initial(watcher: Any) -> list[Any]:
    """The entries before None."""
    entries = []
    while (entry := await watcher.updates()) is not None:
        entries.append(entry)
    return entries
