"""Meaning of expressions: names of modules, and objects of nats-py's classes.

An expression has a meaning only if every binding of its names has the same one. All others are unknown, so that rules
never fire by a guess.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass

from jetarrow.migrate import nats_types
from jetarrow.migrate.scopes import Binding, Scope, Scopes

# Functions that await their first argument and return its result.
_AWAITING = frozenset({"asyncio.wait_for", "asyncio.run", "asyncio.shield"})
_OPTIONAL = frozenset({"typing.Optional", "typing.Annotated", "typing.Final", "typing.ClassVar"})


@dataclass(frozen=True)
class Ref:
    """A module, class, function or value by its dotted name; `builtins.print` for builtins."""

    path: str


@dataclass(frozen=True)
class Instance:
    """An object of a class in `nats_types`; one that still has to be awaited if `awaits`."""

    name: str
    awaits: bool = False


@dataclass(frozen=True)
class Member:
    """A member of an object of a class in `nats_types`."""

    owner: str
    name: str


Meaning = Ref | Instance | Member | None


class Inference:
    """Meanings of the expressions of a module.

    Args:
        tree: The module.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.scopes = Scopes(tree)
        self._running: set[ast.AST] = set()
        self._nodes: dict[ast.AST, Meaning] = {}
        # By the list of bindings: the bindings of one name can refer to each other.
        self._bindings: dict[int, Meaning] = {}
        self._callbacks: dict[ast.AST, str] = {}
        self._find_callbacks()
        # Computed without the callbacks.
        self._nodes.clear()
        self._bindings.clear()

    def of(self, node: ast.AST | None) -> Meaning:
        """Return the meaning of an expression, or None if it is unknown."""
        if node is None or node in self._running:
            return None
        if node in self._nodes:
            return self._nodes[node]
        self._running.add(node)
        try:
            found = self._of(node)
        finally:
            self._running.discard(node)
        if not self._running:
            self._nodes[node] = found
        return found

    def _of(self, node: ast.AST) -> Meaning:
        match node:
            case ast.Name():
                return self._name(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self._call(node)
            case ast.Await():
                inner = self.of(node.value)
                if isinstance(inner, Instance):
                    name = inner.name if inner.awaits else nats_types.AWAITED.get(inner.name)
                    return Instance(name) if name else None
                return None
            case ast.NamedExpr():
                return self.of(node.value)
            case ast.Subscript():
                owner = self.of(node.value)
                element = nats_types.ELEMENTS.get(owner.name) if isinstance(owner, Instance) else None
                return Instance(element) if element and not isinstance(node.slice, ast.Slice) else None
            case ast.IfExp():
                first, second = self.of(node.body), self.of(node.orelse)
                return first if first == second else None
        return None

    def _name(self, node: ast.Name) -> Meaning:
        bindings = self.scopes.of[node].lookup(node.id)
        if bindings:
            return self._common(bindings)
        return Ref(f"builtins.{node.id}") if hasattr(builtins, node.id) else None

    def _common(self, bindings: list[Binding]) -> Meaning:
        """Return the meaning that all bindings share, apart from those to None."""
        key = id(bindings)
        if key not in self._bindings:
            # Unknown while it is computed, in a circle.
            self._bindings[key] = None
            found = {self._bound(one) for one in bindings if not _is_none(one.node)}
            self._bindings[key] = found.pop() if len(found) == 1 else None
        return self._bindings[key]

    def _bound(self, one: Binding) -> Meaning:
        match one.how:
            case "import":
                return Ref(one.path)
            case "value":
                return self.of(one.node)
            case "annotation":
                return self.annotated(one.node)
            case "element":
                owner = self.of(one.node)
                element = nats_types.ELEMENTS.get(owner.name) if isinstance(owner, Instance) else None
                return Instance(element) if element else None
            case "entered":
                owner = self.of(one.node)
                return owner if isinstance(owner, Instance) and owner.name in nats_types.ENTERED else None
        return Instance(self._callbacks[one.node]) if one.node in self._callbacks else None

    def annotated(self, node: ast.AST) -> Meaning:
        """Return the object that an annotation describes: of a class, optional, or quoted."""
        match node:
            case ast.Constant(value=str(text)):
                try:
                    quoted = ast.parse(text, mode="eval").body
                except SyntaxError:
                    return None
                for inner in ast.walk(quoted):
                    self.scopes.of[inner] = self.scopes.of.get(node, self.scopes.module)
                return self.annotated(quoted)
            case ast.BinOp(op=ast.BitOr()):
                sides = [one for one in (node.left, node.right) if not _is_none(one)]
                return self.annotated(sides[0]) if len(sides) == 1 else None
            case ast.Subscript():
                outer = self.of(node.value)
                if not isinstance(outer, Ref) or outer.path not in _OPTIONAL:
                    return None
                inner = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
                return self.annotated(inner)
        found = self.of(node)
        name = nats_types.class_of(found.path) if isinstance(found, Ref) else None
        return Instance(name) if name else None

    def _attribute(self, node: ast.Attribute) -> Meaning:
        if (cls := self.scopes.class_of_self(node.value, self.scopes.of[node])) is not None:
            return self._common(self._attributes(cls, node.attr))
        owner = self.of(node.value)
        if isinstance(owner, Ref):
            return Ref(f"{owner.path}.{node.attr}")
        if isinstance(owner, Instance) and not owner.awaits:
            result = nats_types.ATTRIBUTES.get(owner.name, {}).get(node.attr)
            return Instance(result) if result else Member(owner.name, node.attr)
        return None

    def _attributes(self, cls: ast.ClassDef, name: str) -> list[Binding]:
        """Return the bindings of an attribute in a class, or else in its bases of the same module."""
        waiting, seen = [cls], set()
        while waiting:
            one = waiting.pop(0)
            if one in seen:
                continue
            seen.add(one)
            if found := self.scopes.attributes[one].get(name):
                return found  # the list itself, whose identity is a key
            for base in one.bases:
                bound = self.scopes.module.lookup(base.id) if isinstance(base, ast.Name) else []
                waiting += [only.node for only in bound[:2] if len(bound) == 1 and isinstance(only.node, ast.ClassDef)]
        return []

    def _call(self, node: ast.Call) -> Meaning:
        called = self.of(node.func)
        if isinstance(called, Ref):
            if called.path in nats_types.FUNCTIONS:
                return Instance(nats_types.FUNCTIONS[called.path], awaits=True)
            if called.path in _AWAITING and node.args:
                inner = self.of(node.args[0])
                if isinstance(inner, Instance) and inner.awaits:
                    return Instance(inner.name, awaits=called.path != "asyncio.run")
            name = nats_types.class_of(called.path)
            return Instance(name) if name else None
        if isinstance(called, Member):
            if result := nats_types.CALLS.get(called.owner, {}).get(called.name):
                return Instance(result)
            if result := nats_types.AWAITED_CALLS.get(called.owner, {}).get(called.name):
                return Instance(result, awaits=True)
        return self._returned(node)

    def _returned(self, node: ast.Call) -> Meaning:
        """Return the object of a function's return annotation."""
        function = self.function(node.func)
        if function is None or function.returns is None or function.decorator_list:
            return None
        found = self.annotated(function.returns)
        if isinstance(found, Instance) and isinstance(function, ast.AsyncFunctionDef):
            return Instance(found.name, awaits=True)
        return found

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Return the function of this module that a name or a method of `self` means."""
        scope = self.scopes.of[node]
        bindings: list[Binding] = []
        if isinstance(node, ast.Name):
            bindings = scope.lookup(node.id)
        elif isinstance(node, ast.Attribute) and (cls := self.scopes.class_of_self(node.value, scope)):
            methods = [one for one in cls.body if getattr(one, "name", None) == node.attr]
            bindings = [Binding("definition", one, scope) for one in methods]
        if len(bindings) != 1:
            return None
        found = bindings[0].node
        return found if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) else None

    def _find_callbacks(self) -> None:
        """Find functions that are the callback of a subscription: their first parameter is a message."""
        for node in [one for one in ast.walk(self.tree) if isinstance(one, ast.Call)]:
            method = self.of(node.func)
            if not isinstance(method, Member) or method.name not in ("subscribe", "subscribe_bind"):
                continue
            for keyword in node.keywords:
                function = self.function(keyword.value) if keyword.arg == "cb" else None
                if function is not None and not function.decorator_list:
                    names = function.args.posonlyargs + function.args.args
                    first = 1 if function in self.scopes.methods else 0
                    if len(names) > first and names[first].annotation is None:
                        self._callbacks[names[first]] = "Msg"

    def single(self, node: ast.AST | None) -> ast.AST | None:
        """Follow a name that is bound once, to the expression of its value; other expressions are returned unchanged.

        Args:
            node: The expression.
        """
        seen: set[str] = set()
        while isinstance(node, ast.Name) and node.id not in seen:
            seen.add(node.id)
            bindings = self.scopes.of[node].lookup(node.id)
            if len(bindings) != 1 or bindings[0].how != "value":
                break
            node = bindings[0].node
        return node

    def created(self, node: ast.AST) -> ast.AST:
        """Follow a name or an attribute of `self` to the only expression that it is bound to, apart from None.

        Args:
            node: The expression.
        """
        bindings: list[Binding] = []
        scope = self.scopes.of[node]
        if isinstance(node, ast.Name):
            bindings = scope.lookup(node.id)
        elif isinstance(node, ast.Attribute) and (cls := self.scopes.class_of_self(node.value, scope)) is not None:
            bindings = self._attributes(cls, node.attr)
        values = [one for one in bindings if not _is_none(one.node) and one.how != "annotation"]
        return values[0].node if len(values) == 1 and values[0].how == "value" else node

    def scope(self, node: ast.AST) -> Scope:
        """Return the scope of a node."""
        return self.scopes.of[node]


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
