"""SECRETS: canaries in every credential, looked for in everything that is shown, logged or pickled."""

from __future__ import annotations

from typing import Any

from .cells import cells
from .figures import Figure

FULL: dict[str, Any] = {"times": 1}
SHORT: dict[str, Any] = {"times": 1}
PATHS = ["tests/test_secrets.py", "tests/spark/test_secrets.py"]


async def measure(times: int) -> list[Figure]:
    return await cells(PATHS, 6, times)
