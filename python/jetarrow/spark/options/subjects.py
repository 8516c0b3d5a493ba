"""Subject filters of option `subjects`."""

from __future__ import annotations

import re
from itertools import combinations, zip_longest

from .option_texts import invalid, items

_VALID = "a comma list of subjects such as orders.eu.*, orders.us.> that do not overlap"


def subject_filters(text: str | None) -> tuple[str, ...]:
    """Return the filters of a comma list; an empty tuple selects all subjects.

    Args:
        text: The value of the option; None if it is not set.

    Raises:
        ValueError: A filter is not valid, or two of them overlap, which the server rejects, and which would duplicate
            rows.
    """
    filters = tuple(items(text or ""))
    for subject in filters:
        if not is_filter(subject):
            raise invalid("subjects", f"{subject!r} is not a subject", _VALID)
    for one, other in combinations(filters, 2):
        if _overlap(one, other):
            raise invalid("subjects", f"{one!r} and {other!r} overlap", _VALID)
    return filters


def is_filter(text: str) -> bool:
    """Return whether a text is a subject, with or without wildcards."""
    tokens = text.split(".")
    return all(tokens) and not re.search(r"\s", text) and ">" not in tokens[:-1]


def _overlap(one: str, other: str) -> bool:
    for a, b in zip_longest(one.split("."), other.split(".")):
        if a is None or b is None:
            return False
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return True
