"""Restriction of a read by filters that Spark pushes down. Spark evaluates all of them again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyspark

from jetarrow.spark.options.option_texts import invalid
from jetarrow.spark.options.subjects import is_filter

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

# In 4.1.4, 4.2.1 and 4.3.0 the DataFrame keeps the plan with the filters, and its other queries use it too.
_SOUND_SINCE = (5, 0)
_TICK = timedelta(microseconds=1)
_MOST_SUBJECTS = 50


@dataclass(frozen=True)
class Restriction:
    """Restriction of a read by filters. None is no limit.

    Attributes:
        first: First sequence.
        end: The sequence to stop before.
        since: Begin: the first message at or after this time (RFC 3339).
        until: End, exclusive: the first message at or after this time (RFC 3339).
        streams: Names of streams.
        subjects: Subject filters.
    """

    first: int | None = None
    end: int | None = None
    since: str | None = None
    until: str | None = None
    streams: frozenset[str] | None = None
    subjects: tuple[str, ...] | None = None


def check_sound(version: str = pyspark.__version__) -> None:
    """Reject `pushdown=true` in versions of Spark with wrong results.

    Args:
        version: Version of Spark. Default: the installed one.

    Raises:
        ValueError: This Spark keeps pushed filters on the DataFrame.
    """
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < _SOUND_SINCE:
        raise invalid(
            "pushdown",
            f"Spark {version} keeps the filters of one query for the next of the same DataFrame: df.filter(...).count()"
            " and then df.count() would count the same few rows",
            "false (default); restrict the read by stream, subjects, startingOffsets, startingTimestamp",
        )


def restriction_of(filters: Iterable[Filter]) -> Restriction:
    """Return the restriction by all given filters.

    Args:
        filters: The filters; those without a restriction are evaluated by Spark only.
    """
    # Imported here, because Spark 4.0 has no filters.
    from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

    low, high, since, until = 1, 2**63 - 1, _EARLIEST_TIME, _LATEST_TIME
    streams: frozenset[str] | None = None
    subjects: tuple[str, ...] | None = None
    for one in filters:
        column = _column(one)
        value: Any = getattr(one, "value", None)
        values: list[Any] = list(value) if isinstance(one, In) else [value]
        if column == "seq" and values and all(isinstance(item, int) for item in values):
            if isinstance(one, EqualTo | GreaterThanOrEqual | In):
                low = max(low, min(values))
            if isinstance(one, EqualTo | LessThanOrEqual | In):
                high = min(high, max(values) + 1)
            low = max(low, value + 1) if isinstance(one, GreaterThan) else low
            high = min(high, value) if isinstance(one, LessThan) else high
        elif column == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
            # The column has microseconds.
            if isinstance(one, EqualTo | GreaterThanOrEqual | GreaterThan):
                since = max(since, value + (_TICK if isinstance(one, GreaterThan) else timedelta()))
            if isinstance(one, EqualTo | LessThanOrEqual | LessThan):
                until = min(until, value + (timedelta() if isinstance(one, LessThan) else _TICK))
        elif column == "stream" and isinstance(one, EqualTo | In):
            named = frozenset(map(str, values))
            streams = named if streams is None else streams & named
        elif column == "subject" and subjects is None:
            subjects = _subjects(one, values)
    return Restriction(
        first=low if low > 1 else None,
        end=high if high < 2**63 - 1 else None,
        since=_text(since) if since > _EARLIEST_TIME else None,
        until=_text(until) if until < _LATEST_TIME else None,
        streams=streams,
        subjects=subjects,
    )


_EARLIEST_TIME, _LATEST_TIME = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


def _column(one: Filter) -> str | None:
    path: Any = getattr(one, "attribute", ())
    return path[0] if len(path) == 1 else None


def _subjects(one: Filter, values: list[Any]) -> tuple[str, ...] | None:
    from pyspark.sql.datasource import EqualTo, In, StringStartsWith

    if not all(isinstance(item, str) and not set(item) & set("*>") for item in values):
        return None
    if isinstance(one, EqualTo | In):
        found = tuple(sorted(set(values)))
        return found if len(found) <= _MOST_SUBJECTS and all(map(is_filter, found)) else None
    if isinstance(one, StringStartsWith) and "." in values[0]:
        whole = values[0].rpartition(".")[0]  # the complete tokens
        return (f"{whole}.>",) if is_filter(whole) else None
    return None


def _text(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
