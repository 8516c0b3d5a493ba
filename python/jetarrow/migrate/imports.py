"""Findings of imports: modules of nats-py, of its successors and of frameworks on it, and what to write instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from jetarrow.migrate import nats_types
from jetarrow.migrate.finding import Kind
from jetarrow.migrate.inference import Inference, Ref
from jetarrow.migrate.missing import MISSING, of_successors

IMPORTS, FRAMEWORKS, NAMES = "imports", "frameworks-on-nats-py", "names-that-jetarrow-does-not-have"
SUCCESSORS_ANCHOR = "successors-of-nats-py"
# Modules of frameworks that import nats-py themselves. MIGRATION.md names their tests.
_FRAMEWORKS = ("faststream.nats", "taskiq_nats")
# Functions whose first argument is the name of a module, or of an object in a module.
_BY_NAME = ("importlib.import_module", "builtins.__import__", "unittest.mock.patch", "mock.patch")


class Hit(NamedTuple):
    """A finding without its place in a file."""

    node: ast.AST
    kind: Kind
    rule: str
    what: str
    remedy: str
    anchor: str


@dataclass(frozen=True)
class Imports:
    """The packages that a module imports.

    Attributes:
        nats: Whether nats-py is imported.
        others: Whether jetarrow, natsrpy or a successor of nats-py is imported: an unknown object can be theirs.
        as_nats: Whether `jetarrow.as_nats` is imported.
    """

    nats: bool
    others: bool
    as_nats: bool


def _paths(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_of(tree: ast.Module) -> Imports:
    """Return the packages that a module imports, in all of its scopes."""
    paths = list(_paths(tree))
    as_nats = any(path == "jetarrow.as_nats" for path in paths)
    others = [path for path in paths if path.partition(".")[0] in ("jetarrow", "natsrpy")]
    return Imports(
        nats=any(map(nats_types.is_nats, paths)),
        others=any(path != "jetarrow.as_nats" for path in others) or any(map(nats_types.is_successor, paths)),
        as_nats=as_nats,
    )


def renamed(path: str) -> str:
    """Return the name of a module or object of nats-py, or of a successor, in jetarrow."""
    return f"jetarrow.{path}" if nats_types.is_successor(path) else "jetarrow" + path.removeprefix("nats")


def find(names: Inference, *, as_nats: bool) -> Iterator[Hit]:
    """Yield the findings of imports.

    Args:
        names: The module.
        as_nats: Whether the program imports `jetarrow.as_nats`, so that only missing names need attention.
    """
    for node in ast.walk(names.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module(alias, as_nats)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield from _from(node, node.module, as_nats)
        elif isinstance(node, ast.Call) and not as_nats:
            yield from _by_name(node, names)


def _import(node: ast.AST, what: str, remedy: str) -> Hit:
    return Hit(node, Kind.IMPORT, "import", what, remedy, IMPORTS)


def missing(node: ast.AST, path: str) -> Hit:
    """Return the finding of a name that jetarrow does not have.

    Args:
        node: The import or use.
        path: The name, in `MISSING` or of a successor.
    """
    remedy = of_successors(path)
    anchor = NAMES if remedy is None else SUCCESSORS_ANCHOR
    return Hit(node, Kind.MISSING, "missing", f"jetarrow has no {path}", remedy or MISSING[path], anchor)


def _framework(node: ast.AST, path: str) -> Iterator[Hit]:
    if any(path == name or path.startswith(f"{name}.") for name in _FRAMEWORKS):
        remedy = "let the program begin with `import jetarrow.as_nats`, and leave its imports"
        yield Hit(node, Kind.IMPORT, "framework", f"{path} uses nats-py", remedy, FRAMEWORKS)


def _unknown(node: ast.AST, path: str) -> Iterator[Hit]:
    """Yield a finding if a module of `nats` is neither nats-py's nor a successor's."""
    known = path == "nats" or ".".join(path.split(".")[:2]) in nats_types.MODULES
    if not known:
        yield Hit(node, Kind.MISSING, "module", f"jetarrow has no module for {path}", "remove the import", NAMES)


def _module(alias: ast.alias, as_nats: bool) -> Iterator[Hit]:
    path = alias.name
    if not as_nats:
        yield from _framework(alias, path)
    if not nats_types.is_nats(path) and not nats_types.is_successor(path):
        return
    say = partial(_import, alias, f"imports {path}")
    if nats_types.is_successor(path):
        if of_successors(path) is not None:
            yield missing(alias, path)
            return
        if as_nats:
            return
        if alias.asname:
            yield say(f"write `import {renamed(path)} as {alias.asname}`")
        else:
            yield say(f"write `import {renamed(path)}` and `from jetarrow import nats`")
        return
    unknown = list(_unknown(alias, path))
    yield from unknown
    if as_nats or unknown:
        return
    if path == "nats" or alias.asname:
        yield say(f"write `import {renamed(path)} as {alias.asname or 'nats'}`")
    else:
        yield say(f"write `import {renamed(path)}` and `import jetarrow as nats`")


def _from(node: ast.ImportFrom, module: str, as_nats: bool) -> Iterator[Hit]:
    if not as_nats:
        yield from _framework(node, module)
    if not nats_types.is_nats(module) and not nats_types.is_successor(module):
        return
    groups: dict[str, list[str]] = {}
    for alias in node.names:
        path = f"{module}.{alias.name}"
        if path in MISSING or of_successors(path) is not None:
            yield missing(alias, path)
            continue
        if nats_types.is_other(path):
            continue
        home = path if module == "nats" and nats_types.is_successor(path) else module
        unknown = [] if nats_types.is_successor(path) else list(_unknown(alias, home))
        yield from unknown
        if not unknown:
            target = "jetarrow.nats" if home != module else renamed(module)
            groups.setdefault(target, []).append(f"{alias.name} as {alias.asname}" if alias.asname else alias.name)
    for target, imported in groups.items():
        if not as_nats:
            yield _import(node, f"imports {module}", f"write `from {target} import {', '.join(imported)}`")


def _by_name(node: ast.Call, names: Inference) -> Iterator[Hit]:
    """Yield a finding for a call that names a module of nats-py in a text, such as `import_module("nats.aio")`."""
    called = names.of(node.func)
    if not isinstance(called, Ref) or called.path not in _BY_NAME or not node.args:
        return
    match node.args[0]:
        case ast.Constant(value=str(text)) if nats_types.is_nats(text) or nats_types.is_successor(text):
            yield _import(node.args[0], f"names {text} in a text", f"write {renamed(text)!r}")
