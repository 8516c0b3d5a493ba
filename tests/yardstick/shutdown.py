"""SHUTDOWN: what was published before drain, close or the end of the program is sent."""

from __future__ import annotations

from typing import Any

from .cells import cells
from .figures import Figure

FULL: dict[str, Any] = {"times": 8}
SHORT: dict[str, Any] = {"times": 1}
PATHS = ["tests/test_exit.py"]


async def measure(times: int) -> list[Figure]:
    return await cells(PATHS, 8, times)
