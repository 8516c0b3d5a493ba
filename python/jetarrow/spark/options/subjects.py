"""Subject filters: checked, and evaluated in Arrow where the server would be slower."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .texts import invalid, items

_VALID = "a comma list of subjects such as orders.eu.*, orders.us.> that do not overlap"


def subject_filters(text: str | None) -> tuple[str, ...]:
    """Return the filters of option `subjects`; none is all.

    Raises:
        ValueError: One is not valid, or two match the same subjects: the server refuses those, and rows would come
            twice.
    """
    filters = tuple(items(text or ""))
    for subject in filters:
        tokens = subject.split(".")
        if not all(tokens) or re.search(r"\s", subject) or ">" in tokens[:-1]:
            raise invalid("subjects", f"{subject!r} is not a subject", _VALID)
    for one, other in combinations(filters, 2):
        if _overlap(one, other):
            raise invalid("subjects", f"{one!r} and {other!r} overlap", _VALID)
    return filters


def covers(subject: str, other: str) -> bool:
    """Whether filter `subject` matches everything that `other`, which may have wildcards, matches."""
    for mine, theirs in zip_longest(subject.split("."), other.split(".")):
        if mine == ">":
            return theirs is not None
        if theirs == ">" or mine is None or theirs is None or (mine not in ("*", theirs)):
            return False
    return True


def _overlap(one: str, other: str) -> bool:
    for a, b in zip_longest(one.split("."), other.split(".")):
        if a is None or b is None:
            return False
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return True


def matcher(filters: Sequence[str]) -> Any:
    """Make a function from an Arrow array of subjects to one of booleans: which of them match a filter.

    Args:
        filters: At least one.
    """
    if not any(token in ("*", ">") for subject in filters for token in subject.split(".")):
        exact = pa.array(filters, pa.string())
        return lambda subjects: pc.is_in(subjects, value_set=exact)
    any_of = "|".join(map(_pattern, filters))
    return lambda subjects: pc.match_substring_regex(subjects, f"^(?:{any_of})$")


def _pattern(subject: str) -> str:
    wild = {"*": r"[^.]+", ">": r"(?s:.+)"}
    return r"\.".join(wild.get(token) or re.escape(token) for token in subject.split("."))
