"""BAD-INPUT: malformed calls and addresses; a typed error each, nothing on the wire, the connection lives."""

from __future__ import annotations

from typing import Any

from .cells import cells
from .figures import Figure

FULL: dict[str, Any] = {"times": 1}
SHORT: dict[str, Any] = {"times": 1}
PATHS = ["tests/compat/test_malformed.py"]


async def measure(times: int) -> list[Figure]:
    return await cells(PATHS, 60, times)
