"""CTRL-C + CANCEL: Ctrl-C in every blocking call with the server frozen, and fetches that are cancelled."""

from __future__ import annotations

from typing import Any

from .cells import cells
from .figures import Figure

FULL: dict[str, Any] = {"times": 5}
SHORT: dict[str, Any] = {"times": 1}
PATHS = ["tests/survive/test_block.py", "tests/survive/test_fetch.py::test_200_cancelled_fetches"]


async def measure(times: int) -> list[Figure]:
    return await cells(PATHS, 50, times)
