"""Conversion between the server's JSON and the dataclasses of this package, by the annotations of their fields."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, Union, get_args, get_origin, get_type_hints

_R = TypeVar("_R", bound="Response")
_Decoder = Callable[[Any, bool], Any]
# By dataclass, once it was converted.
_PLANS: dict[type[Response], _Plan] = {}
# Values that are the same in JSON.
_SCALARS = frozenset({str, int, bool, float})


class _Field(NamedTuple):
    """A field of a dataclass.

    Attributes:
        name: Its name in Python.
        key: Its name in JSON.
        is_required: A response must have it.
        has_default: The dataclass has a default.
        decode: Converts a value of JSON, given `strict`; None if the value stays as it is.
        nested: The dataclass of its value or items.
        is_list: Its value is a list.
    """

    name: str
    key: str
    is_required: bool
    has_default: bool
    decode: _Decoder | None
    nested: type[Response] | None
    is_list: bool


class _Plan(NamedTuple):
    """The fields of a dataclass, by their keys, and the keys and names that need attention."""

    fields: tuple[_Field, ...]
    by_key: dict[str, _Field]
    required: tuple[str, ...]
    without_default: tuple[str, ...]


class Response:
    """Base of the dataclasses that the server sends.

    `timedelta` is integer nanoseconds in JSON, `datetime` is RFC 3339 text, dataclasses are objects.
    """

    # Names in JSON, where they differ from the fields.
    _keys: ClassVar[Mapping[str, str]] = {}
    # The server's value for "no limit", by field; None in Python.
    _unlimited: ClassVar[Mapping[str, int]] = {}
    # Keys of a response that are not fields of its object.
    _envelope: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def from_response(cls, data: Mapping[str, Any], *, strict: bool = False) -> Self:
        """Decodes an object of a response.

        Args:
            data: The decoded JSON; it is not changed.
            strict: Raises for keys that are not fields. Default: False, which ignores them.

        Raises:
            KeyError: A required key is missing.
            ValueError: `strict`, and a key is unknown.
        """
        return decode(cls, data, strict)


class Request(Response):
    """Base of the dataclasses that are also sent to the server."""

    # Values that the server assumes if the key is missing, by field; not sent.
    _implied: ClassVar[Mapping[str, str]] = {}

    def to_request(self) -> dict[str, Any]:
        """Returns the JSON object of a request, without the fields that are None."""
        result = {}
        implied, unlimited = self._implied, self._unlimited
        for field in _plan(type(self)).fields:
            name = field.name
            value = getattr(self, name)
            if value is None and name in unlimited:
                value = unlimited[name]
            if value is not None and not (name in implied and implied[name] == value):
                result[field.key] = encode(value)
        return result


def decode(cls: type[_R], data: Mapping[str, Any], strict: bool) -> _R:
    """Decodes an object of a response, see `Response.from_response`."""
    plan, unlimited = _plan(cls), cls._unlimited
    for key in plan.required:
        if key not in data:
            raise KeyError(key)
    values = dict.fromkeys(plan.without_default)
    unknown = []
    for key, value in data.items():
        field = plan.by_key.get(key)
        if field is None:
            unknown.append(key)
        elif value is None or (field.name in unlimited and value == unlimited[field.name]):
            values[field.name] = None
        else:
            values[field.name] = value if field.decode is None else field.decode(value, strict)
    if strict and (unknown := [key for key in unknown if key not in cls._envelope]):
        raise ValueError(f"{cls.__name__}.from_response() has unconsumed fields: {unknown}")
    return cls(**values)


def encode(value: Any) -> Any:
    """Converts a value to JSON: durations to nanoseconds, times to RFC 3339 text, dataclasses to objects."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Request):
        return value.to_request()
    if isinstance(value, timedelta):
        return to_nanoseconds(value)
    if isinstance(value, datetime):
        return to_rfc3339(value)
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    return value


def construct(cls: type[_R], values: Mapping[str, Any]) -> _R:
    """Makes a dataclass of keyword arguments, and of dicts in them the dataclasses of the fields."""
    result = dict(values)
    for field in _plan(cls).fields:
        value = result.get(field.name)
        if field.nested is None or value is None:
            continue
        if field.is_list:
            result[field.name] = [_constructed(field.nested, item) for item in value]
        else:
            result[field.name] = _constructed(field.nested, value)
    return cls(**result)


def _constructed(cls: type[Response], value: Any) -> Any:
    return construct(cls, value) if isinstance(value, dict) else value


def from_nanoseconds(value: int) -> timedelta:
    """Converts nanoseconds to a duration, rounded to microseconds."""
    return timedelta(microseconds=value / 1000)


def to_nanoseconds(value: timedelta) -> int:
    """Converts a duration to nanoseconds, without the rounding of a float."""
    return value // timedelta(microseconds=1) * 1000


def from_rfc3339(text: str) -> datetime:
    """Converts the server's time, of which the digits after microseconds are dropped."""
    return datetime.fromisoformat(text)


def to_rfc3339(value: datetime) -> str:
    """Converts a time to text in UTC; one without a time zone is local time."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _plan(cls: type[Response]) -> _Plan:
    if cls not in _PLANS:
        hints = get_type_hints(cls)
        # Every subclass is a dataclass.
        found = tuple(_field(cls, field, hints[field.name]) for field in fields(cls))  # type: ignore[arg-type]
        _PLANS[cls] = _Plan(
            fields=found,
            by_key={field.key: field for field in found},
            required=tuple(field.key for field in found if field.is_required),
            without_default=tuple(field.name for field in found if not (field.is_required or field.has_default)),
        )
    return _PLANS[cls]


def _field(cls: type[Response], field: Field[Any], hint: Any) -> _Field:
    hint, is_optional = _without_none(hint)
    has_default = field.default is not MISSING
    is_required = not (has_default or is_optional)
    is_list = get_origin(hint) is list
    kind = get_args(hint)[-1] if get_origin(hint) in (list, dict) else hint
    nested = kind if isinstance(kind, type) and issubclass(kind, Response) else None
    decoder = _decoder(hint, nested, is_required)
    return _Field(field.name, cls._keys.get(field.name, field.name), is_required, has_default, decoder, nested, is_list)


def _without_none(hint: Any) -> tuple[Any, bool]:
    """Returns the class of a field, Any if there are several, and whether it may be None."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    rest = [argument for argument in get_args(hint) if argument is not types.NoneType]
    return rest[0] if len(rest) == 1 else Any, len(rest) < len(get_args(hint))


def _decoder(hint: Any, nested: type[Response] | None, is_required: bool) -> _Decoder | None:
    if hint is timedelta:
        return lambda value, strict: from_nanoseconds(value)
    if hint is datetime:
        return lambda value, strict: from_rfc3339(value) if value or is_required else None
    if nested is None:
        return None
    origin = get_origin(hint)

    def decode_nested(value: Any, strict: bool) -> Any:
        # The server sends an empty object for an option that is not set.
        if not value and not is_required:
            return None
        if origin is list:
            return [nested.from_response(item, strict=strict) for item in value]
        if origin is dict:
            return {key: nested.from_response(item, strict=strict) for key, item in value.items()}
        return nested.from_response(value, strict=strict)

    return decode_nested
