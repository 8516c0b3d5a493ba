"""Conversion between Python values and the server's JSON: durations, times, enums, names."""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from jetarrow import _jetarrow
from jetarrow.core.arguments import text as checked_text

_NANOSECOND = 10**9
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_DATACLASSES = replace.__code__.co_filename


class Choices(StrEnum):
    """A string enum that accepts its values and names in any case, and whose errors list the valid values."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        if isinstance(value, str):
            wanted = value.strip().lower()
            for member in cls:
                if wanted in (member.value.lower(), member.name.lower()):
                    return member
        valid = ", ".join(repr(member.value) for member in cls)
        raise ValueError(f"nats: {cls._refusal(value)}; valid are {valid}")

    @classmethod
    def _refusal(cls, value: object) -> str:
        return f"{value!r} is not a valid {cls.__name__}"


class Seconds(float):
    """A number that is in seconds, however large; `to_seconds` treats other large numbers as nanoseconds."""


class FromServer(str):
    """A value of an enum that only a newer server has; kept unchanged, so that it can be sent back."""


def user_level() -> int:
    """The `stacklevel` of the first caller outside this package, for warnings."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        # "<string>" is the __init__ that dataclasses generate.
        if name != "<string>" and not name.startswith(_PACKAGE + os.sep) and name != _DATACLASSES:
            break
        frame = frame.f_back
        level += 1
    return level


def to_seconds(value: float | timedelta, name: str) -> float:
    """Read a duration that a caller gave.

    Args:
        value: Seconds, or a timedelta. A number of 1e9 or more is interpreted as nanoseconds, with a warning.
        name: The field, for messages.

    Returns:
        Seconds.

    Raises:
        TypeError: It is neither a number nor a timedelta.
        ValueError: It is not finite.
    """
    if isinstance(value, timedelta):
        return Seconds(value.total_seconds())
    if isinstance(value, Seconds):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"nats: {name} must be seconds (a number) or a timedelta, not {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"nats: {name} must be a finite number of seconds, not {value!r}")
    if value < _NANOSECOND:
        return value
    seconds = Seconds(value / _NANOSECOND)
    warnings.warn(
        f"{name}={value!r} is interpreted as nanoseconds, that is {seconds:g} s, not as {value:g} s"
        f" ({value / 31_557_600:.0f} years); pass seconds or a timedelta",
        UserWarning,
        stacklevel=user_level(),
    )
    return seconds


def to_nanoseconds(seconds: float | None) -> int:
    """Seconds as whole nanoseconds; None is 0, which the server reads as "not set"."""
    if seconds is None:
        return 0
    if seconds == int(seconds):
        return int(seconds) * _NANOSECOND
    from decimal import Decimal  # imported here, because it is rarely needed

    # From the decimal digits: the product of floats is inexact in the last digits of long durations.
    return round(Decimal(repr(float(seconds))) * _NANOSECOND)


def from_nanoseconds(value: int) -> float:
    """The server's nanoseconds as seconds."""
    seconds = value / _NANOSECOND
    return seconds if seconds < _NANOSECOND else Seconds(seconds)


def to_rfc3339(value: datetime | str) -> str:
    """Format a time for the server: UTC, `Z`, and all digits of the second.

    Args:
        value: A datetime, or a string in RFC 3339 or ISO 8601. Without an offset it is local time.

    Returns:
        Text such as `2024-05-01T10:00:00.123456789Z`.

    Raises:
        ValueError: The string is not a time.
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    head, fraction, tail = _split_fraction(value)
    try:
        moment = datetime.fromisoformat(head + tail).astimezone(UTC)
    except ValueError:
        raise ValueError(f"nats: {value!r} is not a time; write it as 2024-05-01T10:00:00Z") from None
    text = moment.replace(tzinfo=None).isoformat()
    return f"{text}.{fraction[:9]}Z" if fraction else f"{text}Z"


_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def moment(value: datetime | timedelta | str) -> str:
    """As `to_rfc3339`; a timedelta, or a span such as `1h` or `1d12h`, counts back from this machine's clock.

    Args:
        value: A datetime, a timedelta, a span, or a string in RFC 3339 or ISO 8601.

    Raises:
        ValueError: The string is neither a time nor a span.
    """
    if isinstance(value, str):
        parts = _SPAN.findall(value.strip())
        if not parts or "".join(map("".join, parts)) != value.strip():
            return to_rfc3339(value)
        value = timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
    return to_rfc3339(datetime.now(UTC) - value if isinstance(value, timedelta) else value)


def from_rfc3339(text: str) -> datetime:
    """Parse a server's time as an aware UTC datetime, cut to microseconds."""
    head, fraction, tail = _split_fraction(text)
    moment = datetime.fromisoformat(head + tail)
    micros = int(fraction[:6].ljust(6, "0")) if fraction else 0
    return moment.astimezone(UTC).replace(microsecond=micros)


def epoch_ns(text: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 text."""
    head, fraction, tail = _split_fraction(text)
    since = datetime.fromisoformat(head + tail).astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * _NANOSECOND + int(fraction[:9].ljust(9, "0") or 0)


def _split_fraction(text: str) -> tuple[str, str, str]:
    """Splits a time at the fraction of its second, which a datetime would cut to six digits."""
    head, dot, rest = text.strip().partition(".")
    if not dot:
        return head, "", ""
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return head, digits, rest[len(digits) :]


def checked_name(what: str, name: str | None) -> str:
    """Checks a name, which becomes one token of an API subject, and returns it.

    Args:
        what: "stream", "consumer" or "domain", for the error.
        name: The name.

    Raises:
        TypeError: It is not a str.
        ValueError: It is empty, or has white space, dots, wildcards or path separators, which the server rejects.
    """
    name = checked_text(f"the {what}'s name", name or "")
    _jetarrow.check_name(what, name)
    return name
