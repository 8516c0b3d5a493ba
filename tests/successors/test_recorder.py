"""The comparison of records sees types and values, and masks only values that differ between two runs."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from typing import Any

import jetarrow.errors
import pytest

from .recorder import Recorder, without_additions
from .test_scenarios import differing


class Color(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    port: int | None = 4222
    _hidden: int = 0


def record(value: Any) -> Any:
    return Recorder("S123").record(value)


DIFFERENT: list[tuple[Any, Any]] = [
    (1, True),
    (1, 1.0),
    ("a", b"a"),
    (["a"], ("a",)),
    (None, ""),
    (Color.RED, "red"),
    (Point(1), Point(2)),
    (Point(1), Point(1, None)),
    (Point(1), {"x": 1}),
    (ValueError("a"), TypeError("a")),
    (ConnectionError(), ConnectionRefusedError()),
    (datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
    (datetime.timedelta(1), datetime.timedelta(2)),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_records_of_different_values_differ(one: Any, other: Any) -> None:
    assert differing({"key": record(one)}, {"key": record(other)}).keys() == {"key"}
    assert not differing({"key": record(one)}, {"key": record(one)})


def test_missing_and_additional_keys_differ() -> None:
    assert differing({"a": 1, "b": 2}, {"b": 2, "c": 3}).keys() == {"a", "c"}


def test_volatile_values_are_masked() -> None:
    assert record("$KV.S123.a") == "$KV.<name>.a"
    assert record("_INBOX.abc123.7") == "<inbox>"
    assert record("nats://127.0.0.1:40123") == "nats://127.0.0.1:<port>"
    assert record(Point(1, 5)) == {"type": "Point", "fields": {"x": 1, "port": "<int>"}}


def test_own_errors_of_jetarrow_are_recorded_as_the_built_in_class_above_them() -> None:
    assert record(jetarrow.errors.TimeoutError("x"))["error"] == "TimeoutError"
    assert record(jetarrow.errors.BadSubjectError("x")) == {"error": "BadSubjectError", "bases": []}


def test_only_additional_fields_of_objects_are_left_out() -> None:
    reference = {"type": "T", "fields": {"a": 1, "b": [{"type": "U", "fields": {}}]}}
    ours = {"type": "T", "fields": {"a": 1, "b": [{"type": "U", "fields": {"more": 1}}], "c": 2}}
    assert without_additions(ours, reference) == reference
    assert without_additions({"a": 1, "b": 2}, {"a": 1}) == {"a": 1, "b": 2}
