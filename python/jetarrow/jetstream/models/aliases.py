"""Fields under other clients' names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

_T = TypeVar("_T")


class Short(NamedTuple):
    """A short form of a field: the name of the field, and the conversions to and from its value."""

    name: str
    make: Callable[[Any], Any]
    read: Callable[[Any], Any]


Aliases = Mapping[str, str | Short]


def renamed(aliases: Aliases, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters under the names of the fields.

    Raises:
        TypeError: A field is given under two names.
    """
    result: dict[str, Any] = {}
    for given, value in params.items():
        alias = aliases.get(given, given)
        name = _name(alias)
        if name in result:
            both = sorted(other for other in params if _name(aliases.get(other, other)) == name)
            raise TypeError(f"{' and '.join(both)} are names of one field: pass one of them")
        result[name] = alias.make(value) if isinstance(alias, Short) and value is not None else value
    return result


def aliased(**aliases: str | Short) -> Callable[[type[_T]], type[_T]]:
    """Adds other names for fields of a dataclass: in the constructor, in `evolve`, and as attributes.

    Args:
        **aliases: Other name to name.
    """

    def decorate(cls: type[_T]) -> type[_T]:
        init: Any = cls.__init__

        @functools.wraps(init)
        def with_aliases(self: Any, *args: Any, **params: Any) -> None:
            init(self, *args, **renamed(aliases, params))

        changed: Any = cls
        changed.__init__ = with_aliases
        changed._aliases = aliases
        for other, alias in aliases.items():
            setattr(cls, other, _property(alias))
        return cls

    return decorate


def _name(alias: str | Short) -> str:
    return alias if isinstance(alias, str) else alias.name


def _property(alias: str | Short) -> property:
    name = _name(alias)
    short = alias if isinstance(alias, Short) else None

    def get(self: object) -> Any:
        value = getattr(self, name)
        return value if short is None or value is None else short.read(value)

    def put(self: object, value: Any) -> None:
        setattr(self, name, value if short is None or value is None else short.make(value))

    return property(get, put, doc=f"{'The same as' if short is None else 'Short for'} `{name}`.")
