"""Scopes of a module and the bindings of their names, as Python resolves them."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

# A name is bound to a dotted name of an import; to the value of an expression; to its elements, in a loop; to what it
# enters, in a `with`; to an object of an annotation; to a function or class of the module; or to something else.
How = Literal["import", "value", "element", "entered", "annotation", "definition", "other"]
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Binding:
    """One binding of a name.

    Attributes:
        how: Kind of the binding.
        node: The expression, annotation or definition; for imports the statement.
        path: Dotted name of an import.
        scope: Scope in which the expression is evaluated.
    """

    how: How
    node: ast.AST
    scope: Scope
    path: str = ""


@dataclass(eq=False)
class Scope:
    """A module, class, function or comprehension with the names that it binds."""

    node: ast.AST
    parent: Scope | None
    names: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    outside: dict[str, Scope] = field(default_factory=dict)

    def lookup(self, name: str) -> list[Binding]:
        """Return all bindings of a name in the scope that binds it; empty for builtins and unknown names."""
        scope: Scope | None = self.outside.get(name, self)
        first = True
        while scope is not None:
            # Functions do not see the names of the class around them.
            if (first or not isinstance(scope.node, ast.ClassDef)) and name in scope.names:
                return scope.names[name]
            scope, first = scope.parent, False
        return []


class Scopes(ast.NodeVisitor):
    """Scopes of a module, and for each expression and statement the scope in which it is evaluated.

    Args:
        tree: The module.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope(tree, None)
        self.of: dict[ast.AST, Scope] = {}
        # Attributes of `self` by class and name.
        self.attributes: dict[ast.ClassDef, dict[str, list[Binding]]] = defaultdict(lambda: defaultdict(list))
        # The class of each method, by function and name of its first parameter.
        self.methods: dict[ast.AST, tuple[str, ast.ClassDef]] = {}
        self._scope = self.module
        self.visit(tree)
        # Parts without names of their own, such as parameters.
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                self.of.setdefault(child, self.of[node])

    def visit(self, node: ast.AST) -> None:
        """Record the scope of a node, and visit its children."""
        self.of[node] = self._scope
        super().visit(node)

    def _within(self, scope: Scope, nodes: list[ast.AST]) -> None:
        before, self._scope = self._scope, scope
        for node in nodes:
            self.visit(node)
        self._scope = before

    def _bind(self, name: str, how: How, node: ast.AST, path: str = "") -> None:
        home = self._scope.outside.get(name, self._scope)
        home.names[name].append(Binding(how, node, self._scope, path))

    def _target(self, target: ast.expr, how: How, node: ast.AST) -> None:
        """Bind the names of an assignment target; those of tuples to something unknown."""
        if isinstance(target, ast.Name):
            scope = self._scope
            # A walrus in a comprehension binds in the scope around it.
            while isinstance(node, ast.NamedExpr) and isinstance(scope.node, COMPREHENSIONS) and scope.parent:
                scope = scope.parent
            home = scope.outside.get(target.id, scope)
            value = node.value if isinstance(node, ast.NamedExpr) else node
            home.names[target.id].append(Binding(how, value, self._scope))
        elif isinstance(target, ast.Attribute):
            self._attribute(target, how, node)
        elif isinstance(target, ast.Starred):
            self._target(target.value, "other", node)
        elif isinstance(target, ast.Tuple | ast.List):
            for one in target.elts:
                self._target(one, "other", node)

    def _attribute(self, target: ast.Attribute, how: How, node: ast.AST) -> None:
        found = self.class_of_self(target.value, self._scope)
        if found is not None:
            self.attributes[found][target.attr].append(Binding(how, node, self._scope))

    def class_of_self(self, node: ast.AST, scope: Scope) -> ast.ClassDef | None:
        """Return the class whose object an expression is, if it is the first parameter of a method.

        Args:
            node: The expression.
            scope: Its scope.
        """
        if not isinstance(node, ast.Name):
            return None
        at: Scope | None = scope
        while at is not None:
            if node.id in at.names and not isinstance(at.node, ast.ClassDef):
                name, found = self.methods.get(at.node, ("", None))
                return found if name == node.id and len(at.names[name]) == 1 else None
            at = at.parent
        return None

    def visit_Import(self, node: ast.Import) -> None:
        """Bind the first name of each module, or its alias."""
        for alias in node.names:
            first = alias.name.partition(".")[0]
            self._bind(alias.asname or first, "import", node, alias.name if alias.asname else first)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Bind the imported names; those of relative imports are unknown."""
        for alias in node.names:
            path = f"{node.module}.{alias.name}"
            self._bind(alias.asname or alias.name, "other" if node.level else "import", node, path)

    def _function(self, node: Function) -> None:
        arguments = node.args
        outer = [*arguments.defaults, *(one for one in arguments.kw_defaults if one is not None)]
        if not isinstance(node, ast.Lambda):
            outer += node.decorator_list
        for one in outer:
            self.visit(one)
        scope = Scope(node, self._scope)
        for one in getattr(node, "type_params", ()):
            scope.names[one.name].append(Binding("other", one, self._scope))
            self._within(scope, [one])
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        if isinstance(self._scope.node, ast.ClassDef) and every and not isinstance(node, ast.Lambda):
            names = {one.id for one in node.decorator_list if isinstance(one, ast.Name)}
            if not names & {"staticmethod", "classmethod"}:
                self.methods[node] = every[0].arg, self._scope.node
        for parameter in every:
            known = parameter.annotation
            how: How = "annotation" if known else "other"
            scope.names[parameter.arg].append(Binding(how, known or parameter, self._scope))
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                scope.names[rest.arg].append(Binding("other", rest, self._scope))
        if isinstance(node, ast.Lambda):
            self._within(scope, [node.body])
        else:
            self._within(scope, list(node.body))

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._bind(node.name, "definition", node)
        for annotation in (one.annotation for one in ast.walk(node.args) if isinstance(one, ast.arg)):
            if annotation is not None:
                self.visit(annotation)
        if node.returns is not None:
            self.visit(node.returns)
        self._function(node)

    visit_FunctionDef = _definition
    visit_AsyncFunctionDef = _definition
    visit_Lambda = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Bind the name of a class, and visit its body in a scope of its own."""
        self._bind(node.name, "definition", node)
        for one in [*node.decorator_list, *node.bases, *node.keywords]:
            self.visit(one)
        self._within(Scope(node, self._scope), list(node.body))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        self.visit(node.generators[0].iter)
        scope = Scope(node, self._scope)
        before, self._scope = self._scope, scope
        for number, part in enumerate(node.generators):
            self._target(part.target, "element", part.iter)
            for one in [part.target, *([part.iter] if number else []), *part.ifs]:
                self.visit(one)
        inner = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for one in inner:
            self.visit(one)
        self._scope = before

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _outside(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            home: Scope | None = self.module if isinstance(node, ast.Global) else self._scope.parent
            while isinstance(node, ast.Nonlocal) and home is not None and name not in home.names:
                home = home.parent
            self._scope.outside[name] = home or self.module

    visit_Global = _outside
    visit_Nonlocal = _outside

    def visit_Assign(self, node: ast.Assign) -> None:
        """Bind the targets to the value."""
        for target in node.targets:
            self._target(target, "value", node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Bind the target to an object of the annotation."""
        self._target(node.target, "annotation", node.annotation)
        if isinstance(self._scope.node, ast.ClassDef) and isinstance(node.target, ast.Name):
            self.attributes[self._scope.node][node.target.id].append(
                Binding("annotation", node.annotation, self._scope)
            )
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Bind the target to something unknown."""
        self._target(node.target, "other", node)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """Bind the target to the value."""
        self._target(node.target, "value", node)
        self.generic_visit(node)

    def _loop(self, node: ast.For | ast.AsyncFor) -> None:
        self._target(node.target, "element", node.iter)
        self.generic_visit(node)

    visit_For = _loop
    visit_AsyncFor = _loop

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self._target(item.optional_vars, "entered", item.context_expr)
        self.generic_visit(node)

    visit_With = _with
    visit_AsyncWith = _with

    def visit_Delete(self, node: ast.Delete) -> None:
        """Bind the names to something unknown."""
        for target in node.targets:
            self._target(target, "other", node)
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """Bind the name of the exception to something unknown."""
        if node.name:
            self._bind(node.name, "other", node)
        self.generic_visit(node)

    def _capture(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self._bind(node.name, "other", node)
        self.generic_visit(node)

    visit_MatchAs = _capture
    visit_MatchStar = _capture

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        """Bind the rest of a mapping to something unknown."""
        if node.rest:
            self._bind(node.rest, "other", node)
        self.generic_visit(node)
