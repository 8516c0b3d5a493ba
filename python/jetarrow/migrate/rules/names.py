"""Rules of names that jetarrow does not have, beside those in `missing`: private names, ignored keywords."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jetarrow.migrate.imports import NAMES
from jetarrow.migrate.inference import Instance, Ref
from jetarrow.migrate.nats_types import CLASSES, is_nats
from jetarrow.migrate.rules.rule import Found, Module, rule

_CLASSES = frozenset(CLASSES.values())


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


@rule("private", anchor=NAMES, node=(ast.Attribute, ast.ImportFrom), remedy="use public names")
def private(node: ast.Attribute | ast.ImportFrom, module: Module) -> Iterator[Found]:
    """A private name of nats-py."""
    if isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if not node.level and is_nats(node.module or "") and _is_private(alias.name):
                yield alias, f"{node.module}.{alias.name} is a private name of nats-py"
    elif _is_private(node.attr):
        owner = module.names.of(node.value)
        if isinstance(owner, Instance) and not owner.awaits and owner.name in _CLASSES:
            yield node, f"{owner.name}.{node.attr} is a private name of nats-py"
        elif isinstance(owner, Ref) and is_nats(owner.path):
            yield node, f"{owner.path}.{node.attr} is a private name of nats-py"


@rule("keywords-of-keys", anchor=NAMES, remedy="remove it")
def keywords_of_keys(node: ast.Call, module: Module) -> Iterator[Found]:
    """Keywords that nats-py ignores."""
    if module.calls(node, "KeyValue", "keys"):
        for one in node.keywords:
            if one.arg is not None and one.arg != "filters":
                yield one.value, f"keys({one.arg}=) raises TypeError; nats-py ignores unknown keywords"
