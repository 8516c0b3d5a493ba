"""Protocol constants of nats-py, and the import errors of nats-py's other protocol code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Error texts of the server, in lower case.
STALE_CONNECTION = "stale connection"
AUTHORIZATION_VIOLATION = "authorization violation"
PERMISSIONS_ERR = "permissions violation"

# Values of the header Status: no responders; idle heartbeat or flow control of a consumer.
NO_RESPONDERS_STATUS = "503"
CTRL_STATUS = "100"


def missing_names(module: str, why: str) -> Callable[[str], Any]:
    """Returns a `__getattr__` for a module that lacks names of nats-py; it raises ImportError with the reason.

    Args:
        module: The module's name.
        why: The reason.
    """

    def missing(name: str) -> Any:
        if name.startswith("__"):
            # Python reads these names.
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise ImportError(f"cannot import {name!r} from {module!r}: {why}", name=module)

    return missing
