"""Checks of arguments; the error text names the argument."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from numbers import Real
from typing import Any, TypeVar

# Seconds that stand for no timeout: ten years.
FOREVER = 10 * 365 * 86400.0

_C = TypeVar("_C", bound=Callable[..., Any])


def _raise_type_error(name: str, wanted: str, value: object) -> None:
    raise TypeError(f"{name} must be {wanted}, not {type(value).__name__}")


def seconds(name: str, value: float | None) -> float | None:
    """Returns the value if it is a number of seconds or None.

    Raises:
        TypeError: The value has another type.
    """
    if value is not None and not isinstance(value, Real):
        _raise_type_error(name, "a number of seconds, or None", value)
    return value


def duration(name: str, value: float | timedelta | None) -> float | None:
    """Returns the seconds of a number or a timedelta, or None.

    Raises:
        TypeError: The value has another type.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    # The native core accepts every object with `__float__`, for example numpy numbers.
    if value is not None and not hasattr(value, "__float__"):
        _raise_type_error(name, "a number of seconds, a timedelta, or None", value)
    return value


def whole(name: str, value: int | None) -> int | None:
    """Returns the value if it is a whole number (any object with `__index__`) or None.

    Raises:
        TypeError: The value has another type.
    """
    if value is not None and not hasattr(value, "__index__"):
        _raise_type_error(name, "a whole number", value)
    return value


def check_whole(**numbers: int | None) -> None:
    """Checks that each argument is a whole number or None.

    Raises:
        TypeError: One argument has another type.
    """
    for name, value in numbers.items():
        whole(name, value)


def text(name: str, value: str) -> str:
    """Returns the value if it is a str.

    Raises:
        TypeError: The value has another type.
    """
    if not isinstance(value, str):
        _raise_type_error(name, "str", value)
    return value


def texts(name: str, value: Any) -> list[str]:
    """Returns one str or several as a list; None is an empty list.

    Raises:
        TypeError: The value has another type.
    """
    if isinstance(value, str):
        return [value]
    if value is not None and not hasattr(value, "__iter__"):
        _raise_type_error(name, "str, or several", value)
    return [text(f"{name}[{number}]", item) for number, item in enumerate(value or ())]


def function(name: str, value: _C | None) -> _C | None:
    """Returns the value if it is callable or None.

    Raises:
        TypeError: The value has another type.
    """
    if value is not None and not callable(value):
        _raise_type_error(name, "a function", value)
    return value


# Default servers of `connect`. A separate object: `is` distinguishes it from the same text passed by a caller.
DEFAULT_SERVERS = "".join(("nats://", "localhost:4222"))
