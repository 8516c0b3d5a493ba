"""The part of a table that a query needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream.sinks.state import Gap, State

if TYPE_CHECKING:
    import pyarrow

# Sequence after the last possible one.
_END = 1 << 63


@dataclass(frozen=True)
class Query:
    """Bounds of the rows that a query needs, and its columns. None has no bound.

    Attributes:
        columns: Names of the needed columns.
        first: First sequence.
        end: Sequence after the last one.
        since: First time in nanoseconds.
        until: Time after the last one in nanoseconds.
        subjects: Subject filters that do not overlap.
        limit: Maximum number of rows; None for all.
    """

    columns: tuple[str, ...]
    first: int | None = None
    end: int | None = None
    since: int | None = None
    until: int | None = None
    subjects: frozenset[str] | None = None
    limit: int | None = None

    def after(self, seq: int) -> Query:
        """Return the query without the rows up to a sequence."""
        return replace(self, first=max(seq + 1, self.first or 0))

    def ranges(self, state: State) -> list[Gap]:
        """Return the ranges of sequences that the archive does not have: its gaps, and those after its position.

        Args:
            state: Position of the archive.
        """
        low, high = self.first or 0, _END if self.end is None else self.end
        if self.until is not None and state.marks and self.until <= state.marks[0][1]:
            # All later messages were stored after the newest one of the archive.
            high = min(high, state.marks[0][0])
        missing = [*state.gaps, (state.last_seq + 1, _END - 1)]
        cut = [(max(first, low), min(last, high - 1)) for first, last in missing]
        return [one for one in cut if one[0] <= one[1]]


def pattern_of(filters: Iterable[str]) -> str:
    """Return a regular expression for subjects that match one of the filters.

    Args:
        filters: Subject filters.
    """
    tokens = {"*": r"[^.]+", ">": r".+"}
    return (
        "^("
        + "|".join(r"\.".join(tokens.get(one, re.escape(one)) for one in each.split(".")) for each in filters)
        + ")$"
    )


def condition_of(filters: Iterable[str]) -> Any:
    """Return the condition that a subject matches one of the filters, as an expression of pyarrow."""
    import pyarrow.compute as pc

    return pc.match_substring_regex(pc.field("subject"), pattern_of(filters))


def columns_by_name(schema: pyarrow.Schema, names: Iterable[str]) -> list[pyarrow.Field]:
    """Return fields in the order of the schema."""
    wanted = set(names)
    return [field for field in schema if field.name in wanted]


def rfc3339(nanos: int) -> str:
    """Return a time in nanoseconds since 1970 as text."""
    seconds, fraction = divmod(nanos, 1_000_000_000)
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"
