"""Bounds of sequences, times and subjects in predicates of polars.

A predicate is parsed from the JSON that polars serializes it to. An unknown expression has no bounds: the bounds then
include more rows than the predicate, and polars' own filter removes them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

# Maximum number of subject filters sent to the server.
MAX_SUBJECTS = 500
_NANOS = pl.Datetime("ns", "UTC")
_MIRRORED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq", "Eq": "Eq"}


@dataclass(frozen=True)
class Bounds:
    """Half-open ranges of sequence and time (nanoseconds), and subject filters; None has no bound."""

    first: int | None = None
    end: int | None = None
    since: int | None = None
    until: int | None = None
    subjects: frozenset[str] | None = None

    def __and__(self, other: Bounds) -> Bounds:
        subjects = self.subjects if other.subjects is None else other.subjects
        if self.subjects is not None and other.subjects is not None:
            subjects = _common(self.subjects, other.subjects)
        return Bounds(
            _of(max, self.first, other.first),
            _of(min, self.end, other.end),
            _of(max, self.since, other.since),
            _of(min, self.until, other.until),
            subjects,
        )

    def __or__(self, other: Bounds) -> Bounds:
        if self.empty or other.empty:
            return other if self.empty else self

        def both(choose: Callable[[Iterable[int]], int], one: int | None, two: int | None) -> int | None:
            return None if one is None or two is None else choose((one, two))

        subjects = None
        if self.subjects is not None and other.subjects is not None:
            subjects = _joined(self.subjects | other.subjects)
        return Bounds(
            both(min, self.first, other.first),
            both(max, self.end, other.end),
            both(min, self.since, other.since),
            both(max, self.until, other.until),
            subjects,
        )

    @property
    def empty(self) -> bool:
        """Whether the bounds exclude every message."""
        ranges = ((self.first, self.end), (self.since, self.until))
        closed = any(start is not None and end is not None and start >= end for start, end in ranges)
        return closed or self.subjects == frozenset() or (self.end is not None and self.end <= 1)


ALL = Bounds()
NONE = Bounds(subjects=frozenset())


def _of(choose: Callable[[Iterable[int]], int], *bounds: int | None) -> int | None:
    given = [bound for bound in bounds if bound is not None]
    return choose(given) if given else None


def covers(filter: str, subject: str) -> bool:
    """Whether a filter matches a subject, or all subjects that another filter matches."""
    wanted, found = filter.split("."), subject.split(".")
    for number, token in enumerate(wanted):
        if token == ">":
            return len(found) > number
        if number >= len(found) or (token not in ("*", found[number])) or (token == "*" and found[number] == ">"):
            return False
    return len(wanted) == len(found)


def _joined(filters: frozenset[str]) -> frozenset[str] | None:
    """Removes filters that others include, because the server rejects overlapping filters; None if too many remain."""
    wild = [filter for filter in filters if filter.endswith(">") or "*" in filter]
    kept = frozenset(one for one in filters if not any(other != one and covers(other, one) for other in wild))
    return kept if len(kept) <= MAX_SUBJECTS else None


def _overlap(one: str, two: str) -> bool:
    """Whether both filters match a common subject."""
    left, right = one.split("."), two.split(".")
    for a, b in zip(left, right, strict=False):
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return len(left) == len(right)


def _common(one: frozenset[str], two: frozenset[str]) -> frozenset[str]:
    """Filters for the subjects that both sets match; they may match more subjects of `two`."""
    kept: set[str] = set()
    for filter in one:
        others = {other for other in two if _overlap(filter, other)}
        kept |= {filter} if any(covers(other, filter) for other in others) else others
    joined = _joined(frozenset(kept))
    return two if joined is None else joined


def bounds(predicate: pl.Expr, columns: Iterable[str] = ("seq", "timestamp", "subject")) -> Bounds:
    """Returns the bounds of a predicate; all rows that it selects are within them.

    Args:
        predicate: A predicate on the columns of a scan.
        columns: The columns of message metadata.
    """
    try:
        return _of_tree(json.loads(predicate.meta.serialize(format="json")), frozenset(columns))
    except Exception:  # the format is internal to polars: a later version may change it
        return ALL


def _of_tree(tree: Any, columns: frozenset[str]) -> Bounds:
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return _of_tree(left, columns) & _of_tree(right, columns)
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return _of_tree(left, columns) | _of_tree(right, columns)
        case {"BinaryExpr": {"left": {"Column": name}, "op": op, "right": {"Literal": _} as value}} if name in columns:
            return _compared(name, op, value)
        case {"BinaryExpr": {"left": {"Literal": _} as value, "op": op, "right": {"Column": name}}} if name in columns:
            return _compared(name, _MIRRORED.get(op, ""), value)
        case {"Function": {"input": [{"Column": name}, *values], "function": function}} if name in columns:
            return _called(name, function, values)
    return ALL


def _called(name: str, function: Any, values: list[Any]) -> Bounds:
    match function, values:
        case {"Boolean": {"IsBetween": {"closed": closed}}}, [low, high]:
            above = "GtEq" if closed in ("Both", "Left") else "Gt"
            below = "LtEq" if closed in ("Both", "Right") else "Lt"
            return _compared(name, above, low) & _compared(name, below, high)
        case {"Boolean": {"IsIn": _}}, [{"Literal": _} as value]:
            return _among(name, _value(value))
        case {"StringExpr": "StartsWith"}, [{"Literal": _} as value] if name == "subject":
            return _begins_with(_value(value))
    return ALL


def _value(literal: Any) -> Any:
    """The value of a literal: text, whole number, nanoseconds of a time, or a list of them."""
    literal = pl.Expr.deserialize(io.StringIO(json.dumps(literal)), format="json")
    series = pl.select(literal.alias("value")).to_series()
    if isinstance(series.dtype, pl.List):
        series = series.explode()
        return [value for value in _plain(series).to_list() if value is not None]
    return _plain(series).item()


def _plain(series: pl.Series) -> pl.Series:
    return series.cast(_NANOS).dt.epoch("ns") if isinstance(series.dtype, pl.Datetime) else series


def _is(name: str, value: Any) -> Bounds:
    if name == "subject" and isinstance(value, str):
        return Bounds(subjects=frozenset([value])) if _is_subject(value) else ALL
    if name == "subject" or not isinstance(value, int) or isinstance(value, bool):
        return ALL
    return Bounds(first=value, end=value + 1) if name == "seq" else Bounds(since=value, until=value + 1)


def _among(name: str, values: list[Any]) -> Bounds:
    if not values:
        return NONE
    if name == "subject":
        return Bounds(subjects=_joined(frozenset(values))) if all(map(_is_subject, values)) else ALL
    low, high = _is(name, min(values)), _is(name, max(values))
    # Not `|`: it drops a bound that excludes every message, although values between the bounds may exist.
    return Bounds(first=low.first, end=high.end, since=low.since, until=high.until)


def _compared(name: str, op: str, literal: Any) -> Bounds:
    value = _value(literal)
    if op == "Eq":
        return _is(name, value)
    if name == "subject" or not isinstance(value, int) or isinstance(value, bool):
        return ALL
    low = {"Gt": value + 1, "GtEq": value}.get(op)
    high = {"Lt": value, "LtEq": value + 1}.get(op)
    return Bounds(first=low, end=high) if name == "seq" else Bounds(since=low, until=high)


def _is_subject(text: str) -> bool:
    tokens = text.split(".")
    return all(tokens) and not set(tokens) & {"*", ">"} and not any(c.isspace() or c < " " for c in text)


def _begins_with(prefix: Any) -> Bounds:
    """The bounds of a subject prefix, in whole tokens: `orders.eu.n` becomes the filter `orders.eu.>`."""
    tokens, _, _ = str(prefix).rpartition(".")
    return Bounds(subjects=frozenset([f"{tokens}.>"])) if tokens and _is_subject(tokens) else ALL


def within(found: Bounds, filters: Iterable[str]) -> Bounds:
    """Intersects bounds with the filters of the scan.

    Args:
        found: The bounds of a predicate.
        filters: The filters of the scan; empty matches all subjects.
    """
    own = frozenset(filters)
    return found & Bounds(subjects=own) if own else found
