"""Subject filters: their coverage, and their evaluation in Arrow if that is faster than on the server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def covers(subject: str, other: str) -> bool:
    """Return whether a filter matches everything that another one matches.

    Args:
        subject: The filter.
        other: The other filter, which may have wildcards too.
    """
    for mine, theirs in zip_longest(subject.split("."), other.split(".")):
        if mine == ">":
            return theirs is not None
        if theirs == ">" or mine is None or theirs is None or (mine not in ("*", theirs)):
            return False
    return True


def matcher(filters: Sequence[str]) -> Any:
    """Return a function that maps an Arrow array of subjects to an array of whether they match a filter.

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
