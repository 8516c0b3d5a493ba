"""Values that the source shows: numbers, and times without a zone."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from jetarrow.migrate.rules.rule import Module, keyword

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
# Calculations that are nested more deeply refer to themselves, or are not written by hand.
_DEPTH = 20
# Powers beyond it are no durations, and take long to compute.
_LARGEST_POWER = 30
_LARGEST_BASE = 1e9
# Number of positional arguments of datetime() with a zone.
_WITH_ZONE = 8


def number(node: ast.AST | None, module: Module, depth: int = 0) -> float | None:
    """Return the value of a number, or of a calculation with numbers; None if the source does not show it.

    Args:
        node: The expression.
        module: Its module.
        depth: Number of expressions around it.
    """
    found = module.names.single(node) if depth < _DEPTH else None
    match found:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int(value) | float(value)):
            return value
        case ast.BinOp(left=left, op=op, right=right):
            first, second = number(left, module, depth + 1), number(right, module, depth + 1)
            if first is None or second is None:
                return None
            try:
                if isinstance(op, ast.Pow):
                    return (
                        float(first**second) if abs(second) <= _LARGEST_POWER and abs(first) <= _LARGEST_BASE else None
                    )
                return float(_OPERATIONS[type(op)](first, second)) if type(op) in _OPERATIONS else None
            except (ArithmeticError, ValueError, TypeError):
                return None
    return None


def is_naive_time(node: ast.AST | None, module: Module, depth: int = 0) -> bool:
    """Return whether an expression is a `datetime` without a zone.

    Args:
        node: The expression.
        module: Its module.
        depth: Number of expressions around it.
    """
    found = module.names.single(node) if depth < _DEPTH else None
    match found:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub()):
            return is_naive_time(left, module, depth + 1)
        case ast.Call():
            if module.is_path(found.func, "datetime.datetime.utcnow"):
                return True
            if module.is_path(found.func, "datetime.datetime.now"):
                return not found.args and not found.keywords
            if module.is_path(found.func, "datetime.datetime"):
                visible = all(one.arg for one in found.keywords) and not any(
                    isinstance(one, ast.Starred) for one in found.args
                )
                return visible and keyword(found, "tzinfo") is None and len(found.args) < _WITH_ZONE
    return False
