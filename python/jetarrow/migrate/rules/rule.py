"""Rules: a documented difference, and the syntax by which it is recognised."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from jetarrow.migrate.imports import Imports
from jetarrow.migrate.inference import Inference, Instance, Member, Ref


@dataclass(frozen=True)
class Module:
    """A module that rules look at.

    Attributes:
        names: Meanings of its expressions.
        imports: The packages that it imports.
    """

    names: Inference
    imports: Imports

    def is_path(self, node: ast.AST | None, *paths: str) -> bool:
        """Return whether an expression means one of these dotted names."""
        found = self.names.of(node)
        return isinstance(found, Ref) and found.path in paths

    def is_object(self, node: ast.AST | None, *classes: str) -> bool:
        """Return whether an expression is an object of one of these classes."""
        found = self.names.of(node)
        return isinstance(found, Instance) and not found.awaits and found.name in classes

    def calls(self, node: ast.Call, owners: str, methods: str) -> bool:
        """Return whether a call is one of these methods of an object of one of these classes.

        Args:
            node: The call.
            owners: Classes, separated with spaces.
            methods: Methods, separated with spaces.
        """
        found = self.names.of(node.func)
        return isinstance(found, Member) and found.owner in owners.split() and found.name in methods.split()

    def calls_unique(self, node: ast.Call, methods: str) -> bool:
        """Return whether a call is one of these methods of an object that is unknown, or an object of nats-py.

        Only for names that no other package has, in combination with the keywords that the rule requires. An unknown
        object is nats-py's only if the module imports no similar client.
        """
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in methods.split():
            return False
        found = self.names.of(node.func)
        if isinstance(found, Member):
            return True
        return found is None and self.imports.nats and not self.imports.others

    def creates(self, node: ast.Call, classes: str) -> bool:
        """Return whether a call creates an object of one of these classes of nats-py."""
        found = self.names.of(node.func)
        if not isinstance(found, Ref):
            return False
        module, _, name = found.path.rpartition(".")
        return (module == "nats" or module.startswith("nats.")) and name in classes.split()


# A node, and its use with the effect.
Found = tuple[ast.AST, str]
Check = Callable[[Any, Module], Iterable[Found]]


@dataclass(frozen=True)
class Rule:
    """A documented difference that source shows.

    Attributes:
        name: Name of the rule.
        anchor: Heading of MIGRATION.md with its row.
        remedy: The change to make.
        node: Kind of syntax that it looks at.
        check: Function that yields what was found at a node.
    """

    name: str
    anchor: str
    remedy: str
    node: type[ast.AST] | tuple[type[ast.AST], ...]
    check: Check


RULES: list[Rule] = []


def rule(
    name: str, *, anchor: str, remedy: str, node: type[ast.AST] | tuple[type[ast.AST], ...] = ast.Call
) -> Callable[[Check], Check]:
    """Register a function as a rule.

    Args:
        name: Name of the rule.
        anchor: Heading of MIGRATION.md.
        remedy: The change to make, as an imperative.
        node: Kind of syntax that it looks at.
    """

    def register(check: Check) -> Check:
        RULES.append(Rule(name, anchor, remedy, node, check))
        return check

    return register


def keyword(node: ast.Call, name: str) -> ast.keyword | None:
    """Return a keyword argument of a call, if it is given."""
    return next((one for one in node.keywords if one.arg == name), None)


def argument(node: ast.Call, name: str, place: int) -> ast.expr | None:
    """Return an argument of a call by its keyword or its place, if it is given and no `*` comes before it."""
    if (found := keyword(node, name)) is not None:
        return found.value
    before = node.args[: place + 1]
    if len(before) <= place or any(isinstance(one, ast.Starred) for one in before):
        return None
    return before[place]


def is_complete(node: ast.Call) -> bool:
    """Return whether all arguments of a call are visible: there is no `*` and no `**`."""
    return not any(isinstance(one, ast.Starred) for one in node.args) and all(one.arg for one in node.keywords)


def text_of(node: ast.AST | None) -> str | None:
    """Return the text of a constant."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def is_none(node: ast.AST | None) -> bool:
    """Return whether an expression is None."""
    return isinstance(node, ast.Constant) and node.value is None


def is_identity(node: ast.Compare) -> bool:
    """Return whether a comparison is one `is` or `is not`."""
    return len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot)
