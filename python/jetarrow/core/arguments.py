"""Arguments that are checked by hand, so that the error names them."""

from __future__ import annotations

from numbers import Real

# Seconds; a wait without end is a very long one.
FOREVER = 10 * 365 * 86400.0


def seconds(name: str, value: float | None) -> float | None:
    """The value, if it is a number of seconds, or None.

    Raises:
        TypeError: It is something else.
    """
    if value is not None and not isinstance(value, Real):
        raise TypeError(f"{name} must be a number of seconds, or None, not {type(value).__name__}")
    return value


# The servers of `connect` where none are given: made here, so that `is` tells it from the same text of a caller.
DEFAULT_SERVERS = "".join(("nats://", "localhost:4222"))
