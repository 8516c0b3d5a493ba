"""What the dataclasses of ``jetarrow.js.api`` share: the way between Python values and the server's JSON."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from typing import Any, ClassVar, Generic, TypeVar

_NANOSECOND = 10**9
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_DATACLASSES = replace.__code__.co_filename

_B = TypeVar("_B", bound="Base")
_E = TypeVar("_E", bound="Choices")


class Choices(StrEnum):
    """A string enum that takes its values and names in any case, and whose errors list what is valid."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        if isinstance(value, str):
            wanted = value.strip().lower()
            for member in cls:
                if wanted in (member.value.lower(), member.name.lower()):
                    return member
        valid = ", ".join(repr(member.value) for member in cls)
        raise ValueError(f"nats: {value!r} is not a valid {cls.__name__}; valid are {valid}")


class Seconds(float):
    """Seconds known to be seconds, however many; ``to_seconds`` takes other large numbers as nanoseconds."""


class FromServer(str):
    """A choice that only a newer server knows; kept as it is, so that it can be sent back."""


def _user_level() -> int:
    """The ``stacklevel`` of the first caller outside this package, for warnings raised in ``to_seconds``."""
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

    Parameters
    ----------
    value:
        Seconds, or a timedelta. A number of 1e9 or more is taken as nanoseconds, with a warning.
    name:
        The field, for messages.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    TypeError
        It is neither a number nor a timedelta.
    ValueError
        It is not finite.
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
        f"{name}={value!r} is taken as nanoseconds, that is {seconds:g} s, and not as {value:g} s"
        f" ({value / 31_557_600:.0f} years); give seconds or a timedelta",
        UserWarning,
        stacklevel=_user_level(),
    )
    return seconds


def to_nanoseconds(seconds: float | None) -> int:
    """Seconds as whole nanoseconds; None is 0, which the server reads as "not set"."""
    if seconds is None:
        return 0
    if seconds == int(seconds):
        return int(seconds) * _NANOSECOND
    from decimal import Decimal  # here, as it is rarely needed

    # By way of the digits that are shown: a float product is off in the last digits of long durations.
    return round(Decimal(repr(float(seconds))) * _NANOSECOND)


def from_nanoseconds(value: int) -> float:
    """The server's nanoseconds as seconds."""
    seconds = value / _NANOSECOND
    return seconds if seconds < _NANOSECOND else Seconds(seconds)


def to_rfc3339(value: datetime | str) -> str:
    """Write a moment as the server wants it: UTC, ``Z``, and as many digits of a second as there are.

    Parameters
    ----------
    value:
        A datetime, or a string in RFC 3339 or ISO 8601. Without an offset it means local time.

    Returns
    -------
    str
        For example ``2024-05-01T10:00:00.123456789Z``.

    Raises
    ------
    ValueError
        The string is not a moment.
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


def from_rfc3339(text: str) -> datetime:
    """Read a server's time as an aware UTC datetime, cut to microseconds."""
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
    """Text before, digits of, and text after the fraction of a second; datetime would cut it at six."""
    head, dot, rest = text.strip().partition(".")
    if not dot:
        return head, "", ""
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return head, digits, rest[len(digits) :]


class Codec:
    """How one field travels. As a descriptor it also checks what is set; else only ``from_response`` does."""

    name = ""

    def __set_name__(self, owner: type[Base], name: str) -> None:
        self.name = name
        owner._codecs = {**owner._codecs, name: self}

    def load(self, value: Any) -> Any:
        """From the server's JSON."""
        raise NotImplementedError

    def dump(self, value: Any) -> Any:
        """To the server's JSON."""
        raise NotImplementedError


class Duration(Codec):
    """A field in seconds that also takes a timedelta; integer nanoseconds on the wire."""

    def __init__(self, default: float | None = None) -> None:
        self._default = default

    def __get__(self, obj: object | None, owner: type | None = None) -> float | None:
        if obj is None:
            return self._default
        value: float | None = obj.__dict__[self.name]
        return value

    def __set__(self, obj: object, value: float | timedelta | None) -> None:
        obj.__dict__[self.name] = None if value is None else to_seconds(value, self.name)

    def load(self, value: Any) -> Any:
        return from_nanoseconds(value)

    def dump(self, value: Any) -> Any:
        return to_nanoseconds(value)


class Durations(Codec):
    """A list of durations."""

    def __get__(self, obj: object | None, owner: type | None = None) -> list[float] | None:
        value: list[float] | None = None if obj is None else obj.__dict__[self.name]
        return value

    # Any: a list of float and one of timedelta would each need a union of its own, as lists are invariant.
    def __set__(self, obj: object, value: Any) -> None:
        obj.__dict__[self.name] = None if value is None else [to_seconds(item, self.name) for item in value]

    def load(self, value: Any) -> Any:
        return [from_nanoseconds(item) for item in value]

    def dump(self, value: Any) -> Any:
        return [to_nanoseconds(item) for item in value]


class Choice(Codec, Generic[_E]):
    """A field of an enum that also takes its strings."""

    def __init__(self, enum: type[_E], default: _E | None = None) -> None:
        self._enum = enum
        self._default = default

    def __get__(self, obj: object | None, owner: type | None = None) -> _E | None:
        if obj is None:
            return self._default
        value: _E | None = obj.__dict__[self.name]
        return value

    def __set__(self, obj: object, value: _E | str | None) -> None:
        if value is not None and not isinstance(value, FromServer):
            value = self._enum(value)
        obj.__dict__[self.name] = value

    def load(self, value: Any) -> Any:
        try:
            return self._enum(value)
        except ValueError:
            return FromServer(value)

    def dump(self, value: Any) -> Any:
        return value.value if isinstance(value, Enum) else str(value)


class Moment(Codec):
    """A point in time: a datetime in Python, RFC 3339 on the wire. Strings keep their nanoseconds."""

    def __get__(self, obj: object | None, owner: type | None = None) -> datetime | None:
        value: datetime | None = None if obj is None else obj.__dict__[self.name]
        return value

    def __set__(self, obj: object, value: datetime | str | None) -> None:
        raw = obj.__dict__.setdefault("_raw", {})
        raw.pop(self.name, None)
        if isinstance(value, str):
            raw[self.name] = to_rfc3339(value)
            value = from_rfc3339(raw[self.name])
        elif not (value is None or isinstance(value, datetime)):
            raise TypeError(f"nats: {self.name} must be a datetime or an RFC 3339 string, not {value!r}")
        obj.__dict__[self.name] = value

    def load(self, value: Any) -> Any:
        return from_rfc3339(value)

    def dump(self, value: Any) -> Any:
        return to_rfc3339(value)


class TimeText(Codec):
    """A point in time that stays text in Python too, as nats-py has it; also takes a datetime."""

    def __get__(self, obj: object | None, owner: type | None = None) -> str | None:
        value: str | None = None if obj is None else obj.__dict__[self.name]
        return value

    def __set__(self, obj: object, value: datetime | str | None) -> None:
        obj.__dict__[self.name] = None if value is None else to_rfc3339(value)

    def load(self, value: Any) -> Any:
        return value

    def dump(self, value: Any) -> Any:
        return value


class Nested(Codec):
    """A dataclass in a field, or a list or a dict of them."""

    def __init__(self, kind: type[Base]) -> None:
        self._kind = kind

    def load(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._kind.from_response(item) for item in value]
        return self._kind.from_response(value)

    def dump(self, value: Any) -> Any:
        return _plain(value)


class NestedDict(Nested):
    """A dict of name to dataclass."""

    def load(self, value: Any) -> Any:
        return {key: self._kind.from_response(item) for key, item in value.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Base):
        return value.as_dict()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


class Base:
    """The base of the JetStream API's dataclasses.

    What a server sends and this version does not know is kept, and ``as_dict`` gives it back: a configuration
    that is read, changed and written does not lose the settings of a newer server.
    """

    _codecs: ClassVar[dict[str, Codec]] = {}
    # Fields whose name on the wire is another one.
    _wire: ClassVar[dict[str, str]] = {}

    @classmethod
    def from_response(cls: type[_B], resp: Mapping[str, Any]) -> _B:
        """Read an object out of a server's answer.

        Parameters
        ----------
        resp:
            The decoded JSON; it is left as it is. Fields unknown here are kept aside for ``as_dict``.

        Returns
        -------
        An instance of the class.
        """
        rest, params, raw = dict(resp), {}, {}
        for field in fields(cls):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = rest.pop(cls._wire.get(field.name, field.name), None)
            if value is None:
                value = rest.pop(field.name, None)
            if value is None:
                continue
            codec = cls._codecs.get(field.name)
            if codec is not None:
                if isinstance(codec, Moment):
                    raw[field.name] = value
                value = codec.load(value)
            params[field.name] = value
        obj = cls(**params)
        obj.__dict__["_extra"] = rest
        obj.__dict__["_raw"] = raw
        return obj

    def evolve(self: _B, **params: Any) -> _B:
        """Copy the object with some fields changed.

        Parameters
        ----------
        params:
            The fields to change.

        Returns
        -------
        A new instance; this one stays as it is.
        """
        new: _B = replace(self, **params)  # type: ignore[type-var]
        new.__dict__["_extra"] = dict(self.__dict__.get("_extra", {}))
        raw = {name: text for name, text in self.__dict__.get("_raw", {}).items() if name not in params}
        new.__dict__["_raw"] = {
            **raw,
            **{k: v for k, v in new.__dict__.get("_raw", {}).items() if k in params},
        }
        return new

    def as_dict(self) -> dict[str, object]:
        """Convert the object to what the server's API takes.

        Returns
        -------
        dict
            Ready for JSON: durations in nanoseconds, times as RFC 3339 text, nothing that is None.
        """
        result: dict[str, object] = dict(self.__dict__.get("_extra", {}))
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is None:
                continue
            codec = self._codecs.get(field.name)
            if isinstance(codec, Moment):
                value = self._raw_time(field.name)
            else:
                value = _plain(value) if codec is None else codec.dump(value)
            result[self._wire.get(field.name, field.name)] = value
        return result

    def _raw_time(self, name: str) -> str | None:
        """A time field as RFC 3339 text with all its digits, though datetime holds only microseconds."""
        value = getattr(self, name)
        if value is None:
            return None
        raw = self.__dict__.get("_raw", {}).get(name)
        if isinstance(raw, str) and from_rfc3339(raw) == value:
            return raw
        return to_rfc3339(value)
