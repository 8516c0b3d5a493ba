"""Arguments that are checked by hand, so that the error names them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from numbers import Real
from typing import Any, TypeVar

# Seconds; a wait without end is a very long one.
FOREVER = 10 * 365 * 86400.0

_C = TypeVar("_C", bound=Callable[..., Any])


def _refuse(name: str, wanted: str, value: object) -> None:
    raise TypeError(f"{name} must be {wanted}, not {type(value).__name__}")


def seconds(name: str, value: float | None) -> float | None:
    """The value, if it is a number of seconds, or None.

    Raises:
        TypeError: It is something else.
    """
    if value is not None and not isinstance(value, Real):
        _refuse(name, "a number of seconds, or None", value)
    return value


def duration(name: str, value: float | timedelta | None) -> float | None:
    """The seconds of a number or of a timedelta, or None.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    # As the native core takes numbers: also those of other libraries.
    if value is not None and not hasattr(value, "__float__"):
        _refuse(name, "a number of seconds, a timedelta, or None", value)
    return value


def whole(name: str, value: int | None) -> int | None:
    """The value, if it is a whole number (of any library), or None.

    Raises:
        TypeError: It is something else.
    """
    if value is not None and not hasattr(value, "__index__"):
        _refuse(name, "a whole number", value)
    return value


def check_whole(**numbers: int | None) -> None:
    """Refuses what is neither a whole number nor None, by name.

    Raises:
        TypeError: One of them is something else.
    """
    for name, value in numbers.items():
        whole(name, value)


def text(name: str, value: str) -> str:
    """The value, if it is a str.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(value, str):
        _refuse(name, "str", value)
    return value


def texts(name: str, value: Any) -> list[str]:
    """A str, or several, as a list; None is an empty one.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(value, str):
        return [value]
    if value is not None and not hasattr(value, "__iter__"):
        _refuse(name, "str, or several", value)
    return [text(f"{name}[{number}]", item) for number, item in enumerate(value or ())]


def function(name: str, value: _C | None) -> _C | None:
    """The value, if it can be called, or None.

    Raises:
        TypeError: It is something else.
    """
    if value is not None and not callable(value):
        _refuse(name, "a function", value)
    return value


# The servers of `connect` where none are given: made here, so that `is` tells it from the same text of a caller.
DEFAULT_SERVERS = "".join(("nats://", "localhost:4222"))
