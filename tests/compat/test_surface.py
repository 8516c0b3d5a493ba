"""Every public module, name, member, signature and value of nats-py exists in jetarrow under the same path.

The tests inspect the installed nats-py. Intended omissions are in `LEFT_OUT`, with the reason.
"""

from __future__ import annotations

import ast
import dataclasses
import dis
import enum
import functools
import importlib
import inspect
import pkgutil
import textwrap
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import nats
import pytest

from .left_out import LEFT_OUT, left_out

ABSENT = object()
PLAIN = (str, bytes, bytearray, int, float, bool, type(None), tuple)
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def load(path: str) -> ModuleType | None:
    """Import a module, or return None if it does not exist."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name is None or not path.startswith(error.name):
                raise
            return None


def nats_modules() -> list[str]:
    return ["nats", *sorted(found.name for found in pkgutil.walk_packages(nats.__path__, "nats."))]


def tree_of(thing: Any) -> Any:
    """Return the syntax tree of a module or class; None for native ones."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError):
        return None


def public_names(module: ModuleType) -> Iterator[str]:
    """Yield the public names that a module defines or imports from other modules of nats-py."""
    for node in tree_of(module).body:
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "nats"):
            names = [alias.asname or alias.name for alias in node.names]
        yield from (name for name in names if not name.startswith("_") and hasattr(module, name))


@functools.cache
def assigned(cls: type) -> frozenset[str]:
    """Return the public names that the methods of a class of nats-py, or of its bases, assign to `self`."""
    bases = [base for base in cls.__mro__ if base.__module__.split(".")[0] == "nats"]
    found = {name for base in bases for name in inspect.get_annotations(base)}
    for node in (node for base in bases for node in ast.walk(tree_of(base))):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {t.attr for t in targets if isinstance(t, ast.Attribute) and getattr(t.value, "id", "") == "self"}
    return frozenset(name for name in found if not name.startswith("_"))


@functools.cache
def stored(cls: type) -> frozenset[str]:
    """Return the instance attributes of a class of jetarrow: annotations, and names that its methods assign."""
    found = {name for base in cls.__mro__ for name in inspect.get_annotations(base)}
    functions = [value for base in cls.__mro__ for value in vars(base).values() if inspect.isfunction(value)]
    for function in functions:
        found |= {str(step.argval) for step in dis.get_instructions(function) if step.opname == "STORE_ATTR"}
    return frozenset(found)


def ours_of(cls: type) -> Any:
    """Return the class of jetarrow under the same path, or ABSENT."""
    module = load("jetarrow" + cls.__module__.removeprefix("nats"))
    return functools.reduce(lambda at, name: getattr(at, name, ABSENT), cls.__qualname__.split("."), module)


def same(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, enum.Enum):
        return str(theirs.value) == str(getattr(ours, "value", ours))
    if type(theirs) in (int, float):
        return type(ours) in (int, float) and bool(theirs == ours)
    return type(theirs) is type(ours) and bool(theirs == ours)


def signature_problems(path: str, theirs: Any, ours: Any) -> Iterator[tuple[str, str]]:
    """Yield parameters of nats-py that differ in name, place, kind or default. jetarrow may have more after them."""
    try:
        wanted = [p for p in inspect.signature(theirs).parameters.values() if p.name not in ("self", "cls")]
        have = [p for p in inspect.signature(ours).parameters.values() if p.name not in ("self", "cls")]
    except ValueError:
        yield path, "its signature cannot be read"
        return
    by_name = {p.name: p for p in have}
    rest = next((p for p in have if p.kind is inspect.Parameter.VAR_KEYWORD), None)
    for place, param in enumerate(wanted):
        if param.name.startswith("_") and param.name not in by_name:
            continue
        where = f"{path}({param.name})"
        if param.kind is inspect.Parameter.VAR_KEYWORD:
            if rest is None:
                yield where, "takes no other keywords"
            continue
        if param.kind is inspect.Parameter.VAR_POSITIONAL:
            if not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in have):
                yield where, "takes no more positional arguments"
            continue
        mine = by_name.get(param.name)
        if mine is None:
            yield where, "no such parameter"
        elif param.kind in POSITIONAL and (mine.kind not in POSITIONAL or have.index(mine) != place):
            yield where, f"is not positional number {place + 1}"
        elif param.default is not inspect.Parameter.empty and not same(param.default, mine.default):
            yield where, f"default {mine.default!r}, nats-py's is {param.default!r}"
    known = {p.name for p in wanted}
    for param in have:
        if param.name not in known and param.default is inspect.Parameter.empty and param.kind in (*POSITIONAL, 3):
            yield f"{path}({param.name})", "needed here, not known to nats-py"


def class_problems(path: str, theirs: type, ours: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(ours, type):
        yield path, "is not a class"
        return
    for base in theirs.__mro__[1:]:
        if base.__module__ == "typing":
            continue
        wanted = ours_of(base) if base.__module__.split(".")[0] == "nats" else base
        if wanted is not ABSENT and not issubclass(ours, wanted):
            yield f"{path}:{base.__name__}", "is not one of its bases"
    if issubclass(theirs, enum.Enum):
        for member in theirs:
            mine = getattr(ours, member.name, ABSENT)
            if not same(member, mine):
                yield f"{path}.{member.name}", f"{mine!r}, nats-py's is {member!r}"
        return
    own_init = any("__init__" in base.__dict__ for base in theirs.__mro__ if base.__module__.startswith("nats"))
    if own_init:
        yield from signature_problems(path, theirs, ours)
    for name, value in vars(theirs).items():
        if not name.startswith("_"):
            yield from member_problems(f"{path}.{name}", theirs, ours, name, value)
    for name in assigned(theirs) - set(vars(theirs)):
        if not hasattr(ours, name) and name not in stored(ours):
            yield f"{path}.{name}", "no such attribute"


def member_problems(path: str, theirs: type, ours: type, name: str, value: Any) -> Iterator[tuple[str, str]]:
    mine = inspect.getattr_static(ours, name, ABSENT)
    if mine is ABSENT:
        if name not in stored(ours):
            yield path, "missing"
    elif isinstance(value, type):
        yield from class_problems(path, value, getattr(ours, name))
    elif isinstance(value, property):
        if callable(getattr(ours, name)) and not isinstance(mine, property):
            yield path, "is a method, there a property"
    elif isinstance(value, classmethod | staticmethod) or inspect.isfunction(value):
        if not callable(getattr(ours, name)):
            yield path, "is no method"
            return
        yield from signature_problems(path, getattr(theirs, name), getattr(ours, name))
        there, here = (inspect.iscoroutinefunction(getattr(cls, name)) for cls in (theirs, ours))
        if there != here and inspect.isfunction(getattr(ours, name)):
            yield path, f"is {'not ' if there else ''}async"
    elif dataclasses.is_dataclass(theirs) and name in {field.name for field in dataclasses.fields(theirs)}:
        return  # The constructor's signature covers it.
    elif isinstance(value, PLAIN) and not same(value, getattr(ours, name)):
        yield path, f"{getattr(ours, name)!r}, nats-py's is {value!r}"


def found(module: ModuleType, name: str) -> Any:
    """Return the attribute of a module; ABSENT also if the access raises an ImportError with the reason."""
    try:
        return getattr(module, name, ABSENT)
    except ImportError:
        return ABSENT


def module_problems(path: str) -> Iterator[tuple[str, str]]:
    theirs, ours = load(path), load("jetarrow" + path.removeprefix("nats"))
    assert theirs is not None
    if ours is None:
        yield path, "no such module"
        return
    for name in public_names(theirs):
        value, mine, where = getattr(theirs, name), found(ours, name), f"{path}.{name}"
        if mine is ABSENT:
            yield where, "missing"
        elif isinstance(value, ModuleType):
            continue
        elif getattr(value, "__module__", path) != path and hasattr(value, "__qualname__"):
            home = ours_of(value)
            if home is not ABSENT and home is not mine:
                yield where, f"is not {home}"
        elif isinstance(value, type):
            yield from class_problems(where, value, mine)
        elif inspect.isfunction(value):
            yield from signature_problems(where, value, mine)
            if inspect.iscoroutinefunction(value) != inspect.iscoroutinefunction(mine):
                yield where, "is async in one of the two only"
        elif isinstance(value, PLAIN) and not same(value, mine):
            yield where, f"{mine!r}, nats-py's is {value!r}"


@pytest.mark.parametrize("path", nats_modules())
def test_public_names_of_nats_py_exist(path: str) -> None:
    problems = {where: what for where, what in module_problems(path) if left_out(where) is None}
    text = "\n".join(f"  {where}: {what}" for where, what in sorted(problems.items()))
    assert not problems, f"{len(problems)} differences that LEFT_OUT does not explain:\n{text}"


def test_left_out_has_no_unneeded_entries() -> None:
    found = [where for path in nats_modules() for where, _ in module_problems(path)]
    unneeded = set(LEFT_OUT) - {left_out(where) for where in found}
    assert not unneeded, f"no longer needed in LEFT_OUT: {sorted(unneeded)}"


def test_left_out_entries_have_reasons() -> None:
    assert LEFT_OUT
    short = [path for path, reason in LEFT_OUT.items() if len(reason.split()) < 4]
    assert not short, f"these need a reason: {short}"


def test_introspection_finds_names_of_nats_py() -> None:
    # If introspection found nothing, the tests above would pass.
    modules = nats_modules()
    wanted = {"errors", "nuid", "aio.client", "aio.msg", "aio.subscription", "aio.errors", "js.api", "js.errors"}
    wanted |= {"js.client", "js.manager", "js.kv", "js.object_store", "micro"}
    assert {f"nats.{name}" for name in wanted} <= set(modules)
    names = [f"{path}.{name}" for path in modules for name in public_names(importlib.import_module(path))]
    assert len(names) > 300
    assert {"nats.aio.client.Client", "nats.aio.client.Msg", "nats.js.api.Header", "nats.connect"} <= set(names)
    assert "nats.aio.client.asyncio" not in names
    assert {"stats", "options"} <= assigned(nats.NATS)


def test_the_comparison_finds_differences() -> None:
    def theirs(a: int, b: str = "x", *, c: float = 1.0) -> None: ...

    def good(a: int, b: str = "x", more: int = 0, *, c: float = 1.0, **rest: object) -> None: ...

    def bad(b: str = "y", a: int = 1, *, needed: int) -> None: ...

    assert list(signature_problems("f", theirs, good)) == []
    assert {where for where, _ in signature_problems("f", theirs, bad)} == {"f(a)", "f(b)", "f(c)", "f(needed)"}
