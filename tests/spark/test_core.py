"""Spark reaches into jetarrow in one module, and knows no path of nats-py."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import jetarrow.spark

FOLDER = Path(jetarrow.spark.__file__).parent
MODULES = {str(path.relative_to(FOLDER)): ast.parse(path.read_text("utf-8")) for path in FOLDER.rglob("*.py")}
WING = ("jetarrow.aio", "jetarrow.js", "jetarrow.errors", "jetarrow.nuid")


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def test_only_core_uses_what_is_private() -> None:
    found = set()
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and is_private(node.attr):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                if not own:
                    found.add(name)
        for module in imported(tree):
            if any(map(is_private, module.split("."))) and not module.startswith("jetarrow.spark._core."):
                found.add(name)
    assert found <= {"_core.py"}
    assert len(MODULES) > 25


def test_no_path_of_nats_py() -> None:
    modules = {module for tree in MODULES.values() for module in imported(tree)}
    assert not [module for module in modules if f"{module}.".startswith(tuple(f"{path}." for path in WING))]
    assert {"jetarrow.core.errors.Error", "jetarrow.jetstream.errors.NotFoundError"} <= modules
