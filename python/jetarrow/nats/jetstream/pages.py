"""Lists that the server sends in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any


async def pages(request: Callable[[int], Awaitable[Mapping[str, Any]]], key: str) -> AsyncIterator[Any]:
    """Iterates over a list that the server sends in pages.

    Args:
        request: Requests the page at an offset.
        key: The list's key in a response; null is an empty list.
    """
    offset = 0
    while True:
        response = await request(offset)
        items = response.get(key) or ()
        for item in items:
            yield item
        offset += len(items)
        if not items or offset >= response["total"]:
            return
