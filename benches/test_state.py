"""The state of a stream as a table: the last of 10 messages of 100,000 subjects; one subject of 1,000 in polars."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
import wire
from harness import Group, Run
from test_read import reading

NATIVE = "jetarrow._jetarrow"
AS_MANY = "jetarrow read of as many rows"
ALL_OF_IT = "jetarrow read, polars unique(keep last)"
HERE = "jetarrow scan, filtered by polars"
# Rates are rows of the answer a second; of the scan, messages of the stream.
STATE = Group("latest, 1 of 10 messages, 110 B", "core", AS_MANY, ALL_OF_IT, count=100_000)
SCAN = Group("polars scan, 1 of 1,000 subjects", "core", peer=HERE, count=300_000)
MESSAGES = 10
SUBJECTS = 1_000

# Names of filled streams by server, number of subjects and of messages. Every round reads the same streams.
_filled: dict[tuple[str, int, int], str] = {}


def filled(run: Run, subjects: int, count: int) -> str:
    """Return the name of a stream with `count` messages, spread evenly over `subjects` subjects."""
    import jetarrow.sync

    key = (run.url, subjects, count)
    if key not in _filled:
        name = f"S{uuid.uuid4().hex[:8]}"
        with jetarrow.sync.connect(run.url) as nc:
            js = nc.jetstream()
            js.add_stream(name=name, subjects=[f"{name}.>"])
            topics = [f"{name}.{number}" for number in range(subjects)]
            payloads = [reading(number) for number in range(count)]
            js.publish_batch((topics * (count // subjects + 1))[:count], payloads).raise_for_errors()
        _filled[key] = name
    return _filled[key]


def taken(run: Run, read: Callable[[Any, str], Any]) -> int:
    """Return the number of rows from one read of the stream."""
    import jetarrow.sync

    name = filled(run, run.count, run.count * MESSAGES)
    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        with run.clock():
            rows = read(js, name)
    return int(rows)


@STATE.row(AS_MANY, needs=NATIVE)
def read_as_many(run: Run) -> int:
    return taken(run, lambda js, name: js.read(name, limit=run.count).read_all().num_rows)


@STATE.row("jetarrow latest", needs=NATIVE)
def latest(run: Run) -> int:
    return taken(run, lambda js, name: js.latest(name).read_all().num_rows)


@STATE.row("jetarrow latest(as_of_seq=), a third of the stream", needs=NATIVE)
def latest_as_of(run: Run) -> int:
    return taken(run, lambda js, name: js.latest(name, as_of_seq=run.count * 3).read_all().num_rows)


@STATE.row(ALL_OF_IT, needs="polars")
def read_all_unique(run: Run) -> int:
    return taken(run, lambda js, name: js.read(name).to_polars().unique("subject", keep="last").height)


def scanned(run: Run, wanted: Callable[[str], Any]) -> int:
    import jetarrow.polars
    import polars

    name = filled(run, SUBJECTS, run.count)
    frame = jetarrow.polars.scan(run.url, name, schema={"id": int, "temperature": float})
    with run.clock():
        found = frame.filter(wanted(f"{name}.7")).select(polars.col("temperature").mean(), polars.len()).collect()
    there = len(range(7, run.count, SUBJECTS))
    if found["len"].item() != there:
        raise wire.WireError(f"{found['len'].item()} messages of {there}")
    return run.count


@SCAN.row("jetarrow scan", needs="polars")
def scan(run: Run) -> int:
    import polars

    return scanned(run, lambda subject: polars.col("subject") == subject)


@SCAN.row(HERE, needs="polars")
def scan_filtered_here(run: Run) -> int:
    """Scan with a filter that is not pushed down to the server."""
    import polars

    return scanned(run, lambda subject: polars.col("subject").str.slice(0) == subject)


@pytest.mark.parametrize("name", STATE.rows)
def test_state(name: str, record: Callable[[Group, str], None]) -> None:
    record(STATE, name)


@pytest.mark.parametrize("name", SCAN.rows)
def test_scan(name: str, record: Callable[[Group, str], None]) -> None:
    record(SCAN, name)
