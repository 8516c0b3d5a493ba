"""Words of the protocol that programs look for, and why the rest of nats-py's protocol code is not here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# What the server says before it ends a connection, or refuses a subject; in lower case.
STALE_CONNECTION = "stale connection"
AUTHORIZATION_VIOLATION = "authorization violation"
PERMISSIONS_ERR = "permissions violation"

# The header Status of a message without a sender: nobody listens; a sign of life of a consumer.
NO_RESPONDERS_STATUS = "503"
CTRL_STATUS = "100"


def missing_names(module: str, why: str) -> Callable[[str], Any]:
    """A module's `__getattr__` for what nats-py has there.

    Args:
        module: The module's name.
        why: Why it is not there.
    """

    def missing(name: str) -> Any:
        if name.startswith("__"):
            # Python itself asks for those.
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise ImportError(f"cannot import {name!r} from {module!r}: {why}", name=module)

    return missing
