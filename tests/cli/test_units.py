"""Sizes, durations and times as users type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import typer
from jetarrow.cli import units


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("4096", 4096),
        ("64MiB", 64 << 20),
        ("1.5GB", 1_500_000_000),
        ("10k", 10_240),
        ("2 KB", 2000),
        ("1T", 1 << 40),
    ],
)
def test_size(text: str, count: int) -> None:
    assert units.size(text) == count


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1h30m", 5400), ("250ms", 0.25), ("2d", 172_800), ("7", 7)]
)
def test_span(text: str, seconds: float) -> None:
    assert units.span(text) == seconds


def test_moment() -> None:
    assert units.moment("2026-11-21T10:00Z") == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert units.moment("2026-11-21T10:00") == datetime(2026, 11, 21, 10).astimezone()
    assert units.moment("2026-11-21") == datetime(2026, 11, 21).astimezone()
    assert timedelta(minutes=59) < datetime.now(UTC) - units.moment("1h") < timedelta(minutes=61)
    assert timedelta(minutes=59) < units.future("1h") - datetime.now(UTC) < timedelta(minutes=61)


@pytest.mark.parametrize("parse", [units.size, units.span, units.moment, units.future])
@pytest.mark.parametrize("text", ["", "x", "1y", "1h2", "-", "1 h x"])
def test_what_is_none_is_refused(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(typer.BadParameter):
        parse(text)


def test_shown() -> None:
    assert [units.show_size(one) for one in (-1, 0, 1023, 1536, 5 << 30)] == [
        "unlimited",
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 GiB",
    ]
    assert [units.show_span(one) for one in (0, 0.25, 59.94, 5400, 90_061)] == ["", "250ms", "59.9s", "1h 30m", "1d 1h"]
