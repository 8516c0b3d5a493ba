"""Base of the dataclasses of `jetarrow.js.api`: conversion between Python values and the server's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from jetarrow.jetstream.models.aliases import Aliases, renamed
from jetarrow.jetstream.models.values import (
    Choices,
    FromServer,
    from_nanoseconds,
    from_rfc3339,
    to_nanoseconds,
    to_rfc3339,
    to_seconds,
)

_B = TypeVar("_B", bound="Base")
_E = TypeVar("_E", bound=Choices)


class Codec:
    """Conversion of one field. As a descriptor it also checks assigned values; otherwise only `from_response` does."""

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
    """A field in seconds that also accepts a timedelta; integer nanoseconds in JSON."""

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
        """Nanoseconds as seconds."""
        return from_nanoseconds(value)

    def dump(self, value: Any) -> Any:
        """Seconds as nanoseconds."""
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
        """Each of them, nanoseconds as seconds."""
        return [from_nanoseconds(item) for item in value]

    def dump(self, value: Any) -> Any:
        """Each of them, seconds as nanoseconds."""
        return [to_nanoseconds(item) for item in value]


class Texts(Codec):
    """A list of strings that also accepts one string."""

    def __get__(self, obj: object | None, owner: type | None = None) -> list[str] | None:
        value: list[str] | None = None if obj is None else obj.__dict__[self.name]
        return value

    def __set__(self, obj: object, value: list[str] | str | None) -> None:
        obj.__dict__[self.name] = [value] if isinstance(value, str) else value

    def load(self, value: Any) -> Any:
        """The list as it is."""
        return value

    def dump(self, value: Any) -> Any:
        """The list as it is."""
        return value


class Choice(Codec, Generic[_E]):
    """A field of an enum that also accepts its strings."""

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
        """The member, or the server's text if this version does not have such a member."""
        try:
            return self._enum(value)
        except ValueError:
            return FromServer(value)

    def dump(self, value: Any) -> Any:
        """The member's text."""
        return value.value if isinstance(value, Enum) else str(value)


class Moment(Codec):
    """A point in time: a datetime in Python, RFC 3339 in JSON. Strings keep their nanoseconds."""

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
        """RFC 3339 text as a datetime."""
        return from_rfc3339(value)

    def dump(self, value: Any) -> Any:
        """A datetime as RFC 3339 text."""
        return to_rfc3339(value)


class TimeText(Codec):
    """A point in time that is text in Python too, as in nats-py; accepts a datetime."""

    def __get__(self, obj: object | None, owner: type | None = None) -> str | None:
        value: str | None = None if obj is None else obj.__dict__[self.name]
        return value

    def __set__(self, obj: object, value: datetime | str | None) -> None:
        obj.__dict__[self.name] = None if value is None else to_rfc3339(value)

    def load(self, value: Any) -> Any:
        """The text as it is."""
        return value

    def dump(self, value: Any) -> Any:
        """The text as it is."""
        return value


class Nested(Codec):
    """A dataclass in a field, or a list or dict of dataclasses."""

    def __init__(self, kind: type[Base]) -> None:
        self._kind = kind

    def load(self, value: Any) -> Any:
        """The object, or a list of them."""
        if isinstance(value, list):
            return [self._kind.from_response(item) for item in value]
        return self._kind.from_response(value)

    def dump(self, value: Any) -> Any:
        """The object, or a list or dict of objects, as JSON."""
        return _plain(value)


class NestedDict(Nested):
    """A dict of name to dataclass."""

    def load(self, value: Any) -> Any:
        """A dict of name to object."""
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

    Fields that this version does not have are kept, and `as_dict` includes them: a configuration that is read, changed
    and written does not lose the settings of a newer server.
    """

    _codecs: ClassVar[dict[str, Codec]] = {}
    # Fields with another name in JSON.
    _wire: ClassVar[dict[str, str]] = {}
    # Other names of fields, see `aliased`.
    _aliases: ClassVar[Aliases] = {}

    @classmethod
    def from_response(cls: type[_B], resp: Mapping[str, Any]) -> _B:
        """Parse an object of a server's response.

        Args:
            resp: The decoded JSON, which is not changed. Unknown fields are kept for `as_dict`.

        Returns:
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

        Args:
            **params: The fields to change.

        Returns:
            A new instance; this one is not changed.
        """
        params = renamed(self._aliases, params)
        new: _B = replace(self, **params)  # type: ignore[type-var]
        new.__dict__["_extra"] = dict(self.__dict__.get("_extra", {}))
        raw = {name: text for name, text in self.__dict__.get("_raw", {}).items() if name not in params}
        new.__dict__["_raw"] = {
            **raw,
            **{k: v for k, v in new.__dict__.get("_raw", {}).items() if k in params},
        }
        return new

    def as_dict(self) -> dict[str, object]:
        """Convert the object to JSON of the server's API.

        Returns:
            A dict with durations in nanoseconds and times as RFC 3339 text, without fields that are None.
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
        """A time field as RFC 3339 text with all digits, which a datetime cuts to microseconds."""
        value = getattr(self, name)
        if value is None:
            return None
        raw = self.__dict__.get("_raw", {}).get(name)
        if isinstance(raw, str) and from_rfc3339(raw) == value:
            return raw
        return to_rfc3339(value)
