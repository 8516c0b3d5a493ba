"""Helpers of the key-value tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import nats.js.errors


async def initial(watcher: Any) -> list[Any]:
    """Returns the entries before None."""
    entries = []
    while (entry := await watcher.updates()) is not None:
        entries.append(entry)
    return entries


async def initial_of_nats_py(watcher: Any, count: int) -> list[Any]:
    """Returns at least `count` entries, and those before None, of a watcher of nats-py.

    Its None comes first if the server has sent all entries before it answers the request for the consumer's state, and
    none has arrived by then.
    """
    entries = await initial(watcher)
    while len(entries) < count:
        entries.append(await watcher.updates())
    return entries


async def of_nats_py(call: Callable[[], Awaitable[list[Any]]]) -> list[Any]:
    """Returns the result of `keys` or `history` of nats-py, which find nothing if None comes first (see above)."""
    for _ in range(9):
        try:
            return await call()
        except nats.js.errors.NoKeysError:
            pass
    return await call()
