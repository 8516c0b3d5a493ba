"""TLS-AUTH: certificates, names, credentials and permissions that are wrong, and a server that has no TLS."""

from __future__ import annotations

from typing import Any

from .cells import cells
from .figures import Figure

FULL: dict[str, Any] = {"times": 1}
SHORT: dict[str, Any] = {"times": 1}
PATHS = ["tests/connect/test_tls.py", "tests/connect/test_auth.py", "tests/connect/test_permissions.py"]


async def measure(times: int) -> list[Figure]:
    return await cells(PATHS, 14, times)
