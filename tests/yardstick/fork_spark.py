"""FORK-SPARK: clients in a forked process, and Spark workers that are killed while they read."""

from __future__ import annotations

from typing import Any

from .cells import cells
from .figures import Figure

FULL: dict[str, Any] = {"times": 1}
SHORT: dict[str, Any] = {"times": 1}
PATHS = [
    "tests/test_connect.py",
    "tests/test_nuid.py",
    "tests/test_server_end.py",
    "tests/spark/test_connection.py",
    "tests/spark/test_survive_read.py",
]


async def measure(times: int) -> list[Figure]:
    return await cells(PATHS, 20, times)
