"""Prints the public surface of the successors of nats-py, or of ours, as JSON.

python -m tests.successors.surface ROOT MODULE …   ROOT is `nats` or `jetarrow.nats`
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import json
import pkgutil
import sys
import typing
from types import ModuleType
from typing import Any

PARTS = ("client", "jetstream", "key_value")
PLAIN = (str, bytes, int, float, bool, type(None), tuple, frozenset)
SPECIAL = ("__init__", "__aiter__", "__anext__", "__aenter__", "__aexit__", "__eq__", "__str__")
# Names that are imported for annotations.
IMPORTED = ("TYPE_CHECKING", "annotations", "logger")


def modules(root: str) -> list[str]:
    """Return the public modules below the root, by their path without it."""
    found = []
    for part in PARTS:
        package = importlib.import_module(f"{root}.{part}")
        below = pkgutil.walk_packages(package.__path__, f"{root}.{part}.")
        found += [part, *(module.name.removeprefix(f"{root}.") for module in below if "._" not in module.name)]
    return sorted(found)


def value_of(value: Any) -> str:
    """Return the text of a default or constant; an object without a stable text is its type's name."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name} = {value.value!r}"
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, PLAIN) or type(value).__module__ in ("datetime", "re"):
        return repr(value)
    return type(value).__name__


def signature_of(function: Any) -> list[list[str]]:
    """Return name, kind and default of each parameter."""
    empty = inspect.Parameter.empty
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [[p.name, p.kind.name, "" if p.default is empty else value_of(p.default)] for p in parameters]


def function_of(function: Any) -> dict[str, Any]:
    return {
        "kind": "coroutine function" if inspect.iscoroutinefunction(function) else "function",
        "signature": signature_of(function),
    }


def member_of(cls: type, name: str) -> dict[str, Any]:
    value = inspect.getattr_static(cls, name)
    if isinstance(value, classmethod | staticmethod):
        return {"binding": type(value).__name__, **function_of(value.__func__)}
    if inspect.isfunction(value):
        return function_of(value)
    if isinstance(value, property) or inspect.isdatadescriptor(value):
        return {"kind": "attribute"}
    return {"kind": "value", "value": value_of(value)}


def fields_of(cls: Any) -> list[list[str]]:
    """Return name, default and keyword-only of the public fields of a dataclass, or the keys of a TypedDict."""
    if typing.is_typeddict(cls):
        return [[name, "", str(name in cls.__required_keys__)] for name in sorted(cls.__annotations__)]
    if not dataclasses.is_dataclass(cls):
        return []
    found = []
    for field in dataclasses.fields(cls):
        factory = field.default_factory
        made = "" if factory is dataclasses.MISSING else value_of(factory())
        default = made if field.default is dataclasses.MISSING else value_of(field.default)
        if not field.name.startswith("_"):
            found.append([field.name, default, str(bool(field.kw_only))])
    return found


def class_of(cls: type) -> dict[str, Any]:
    """Return bases, constructor, fields and public members of a class."""
    bases = [base.__name__ for base in cls.__mro__[1:] if base.__name__ not in ("object", "Generic", "Protocol")]
    own = [base for base in cls.__mro__ if "nats" in base.__module__.split(".")]
    names = {name for base in own for name in vars(base) if not name.startswith("_") or name in SPECIAL}
    constants = [field[0] for field in fields_of(cls)]
    members = {name: member_of(cls, name) for name in sorted(names) if name not in constants}
    return {"kind": "class", "bases": bases, "fields": fields_of(cls), "members": members}


def is_alias(value: Any) -> bool:
    return bool(typing.get_args(value))


def thing_of(value: Any) -> dict[str, Any]:
    if is_alias(value):
        return {"kind": "alias"}
    if isinstance(value, type):
        return class_of(value)
    if inspect.isfunction(value):
        return function_of(value)
    return {"kind": "value", "value": value_of(value)}


def is_public(module: ModuleType, name: str, root: str) -> bool:
    """Whether `__all__` has the name, the module defines it, or it is an exception that `except` clauses may name."""
    if name in getattr(module, "__all__", ()):
        return True
    value = getattr(module, name)
    if name.startswith("_") or name in IMPORTED or isinstance(value, ModuleType | typing.TypeVar):
        return False
    if isinstance(value, type) and issubclass(value, Exception):
        return value.__module__.startswith(f"{root}.")
    return is_alias(value) or getattr(value, "__module__", module.__name__) == module.__name__


def surface(root: str, names: list[str]) -> dict[str, Any]:
    """Return the public things of each module that exists, by name."""
    found: dict[str, Any] = {}
    for path in names:
        try:
            module = importlib.import_module(f"{root}.{path}")
        except ModuleNotFoundError as error:
            if error.name is None or not f"{root}.{path}".startswith(error.name):
                raise
            continue
        found[path] = {name: thing_of(getattr(module, name)) for name in dir(module) if is_public(module, name, root)}
        if "__version__" in found[path]:
            found[path]["__version__"] = {"kind": "value"}
    return found


def main(root: str, *names: str) -> None:
    print(json.dumps(surface(root, list(names) or modules(root))))


if __name__ == "__main__":
    main(*sys.argv[1:])
