"""Tables in and out: seven fields of 110 B as JSON, and 10,000 rows a message as Arrow."""

from __future__ import annotations

import datetime
import io
import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
import wire
from harness import Group, Run
from test_read import reading

NATIVE = "jetarrow._jetarrow"
READY = "jetarrow publish_batch of ready payloads"
NDJSON = "polars write_ndjson"
JSON = Group("publish_table, JSON, 7 fields", "publish", READY, READY)
ENCODE = Group("JSON of a table, 7 fields", "core", peer=NDJSON)
# Rates are rows of the table a second.
ARROW_IN = Group("publish_table, Arrow, 7 fields", "core", count=1_000_000)
ARROW_OUT = Group("read, Arrow, 7 fields", "core", count=1_000_000)


@lru_cache(maxsize=4)
def table(count: int) -> Any:
    """Return the fields of `reading` as columns."""
    import pyarrow as pa

    begin = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
    numbers = range(count)
    columns = {
        "id": pa.array([1_000_000 + n for n in numbers]),
        "device": pa.array([f"sensor-{n % 1000:04d}" for n in numbers]),
        "ok": pa.array([n % 7 != 0 for n in numbers]),
        "temperature": pa.array([round(20 + n % 1000 / 100, 2) for n in numbers]),
        "count": pa.array([n % 997 for n in numbers], pa.int32()),
        "site": pa.array(["north"] * count),
        "at": pa.array([begin + datetime.timedelta(seconds=n % 3600) for n in numbers], pa.timestamp("us", "UTC")),
    }
    return pa.table(columns)


@JSON.row(READY, needs=NATIVE)
def publish_ready(run: Run) -> int:
    import jetarrow.sync

    payloads = [reading(number) for number in range(run.count)]
    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        with run.clock():
            return int(js.publish_batch(run.subject, payloads).stored)


@JSON.row("jetarrow publish_table", needs=NATIVE)
def publish_table(run: Run) -> int:
    import jetarrow.sync

    rows = table(run.count)
    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        with run.clock():
            return int(js.publish_table(rows, run.subject).stored)


@ENCODE.row("jetarrow, as publish_table", needs=NATIVE)
def encode(run: Run) -> int:
    import pyarrow as pa
    from jetarrow._jetarrow import TableMessages

    rows = table(run.count)
    with run.clock():
        messages = TableMessages(rows, columns=None, subject="a", msg_id=None, nulls=False)
        return sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(messages))


@ENCODE.row(NDJSON, needs="polars")
def write_ndjson(run: Run) -> int:
    import polars

    frame, out = polars.DataFrame(table(run.count)), io.BytesIO()
    with run.clock():
        frame.write_ndjson(out)
    return out.getvalue().count(b"\n")


def arrow_messages(run: Run, compression: Any) -> int:
    """Publishes the table to a stream of its own, which is deleted."""
    import jetarrow.sync

    rows, name = table(run.count), f"A{uuid.uuid4().hex[:8]}"
    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        js.add_stream(name=name, subjects=[f"{name}.>"])
        with run.clock():
            js.publish_table(rows, f"{name}.a", format="arrow", compression=compression).raise_for_errors()
        found = js.read(name, format="arrow", schema={"id": int}).read_all().num_rows
        js.delete_stream(name)
    return int(found)


@ARROW_IN.row("jetarrow publish_table, zstd", needs=NATIVE)
def arrow_zstd(run: Run) -> int:
    return arrow_messages(run, "zstd")


@ARROW_IN.row("jetarrow publish_table, lz4", needs=NATIVE)
def arrow_lz4(run: Run) -> int:
    return arrow_messages(run, "lz4")


@ARROW_IN.row("jetarrow publish_table, uncompressed", needs=NATIVE)
def arrow_plain(run: Run) -> int:
    return arrow_messages(run, None)


# The streams that were filled, by server, rows and compression.
_filled: dict[tuple[str, int, str | None], str] = {}


def arrow_rows(run: Run, compression: Any) -> int:
    import jetarrow.sync

    key = (run.url, run.count, compression)
    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        if key not in _filled:
            name = f"A{uuid.uuid4().hex[:8]}"
            js.add_stream(name=name, subjects=[f"{name}.>"])
            rows = table(run.count)
            js.publish_table(rows, f"{name}.a", format="arrow", compression=compression).raise_for_errors()
            _filled[key] = name
        rows = 0
        with run.clock(), js.read(_filled[key], format="arrow", mode="FAILFAST") as reader:
            for batch in reader:
                rows += len(batch)
    if rows != run.count:
        raise wire.WireError(f"{rows} rows of {run.count}")
    return rows


@ARROW_OUT.row("jetarrow read, zstd", needs=NATIVE)
def read_zstd(run: Run) -> int:
    return arrow_rows(run, "zstd")


@ARROW_OUT.row("jetarrow read, lz4", needs=NATIVE)
def read_lz4(run: Run) -> int:
    return arrow_rows(run, "lz4")


@ARROW_OUT.row("jetarrow read, uncompressed", needs=NATIVE)
def read_plain(run: Run) -> int:
    return arrow_rows(run, None)


@pytest.mark.parametrize("name", JSON.rows)
def test_publish_table(name: str, record: Callable[[Group, str], None]) -> None:
    record(JSON, name)


@pytest.mark.parametrize("name", ENCODE.rows)
def test_encode(name: str, record: Callable[[Group, str], None]) -> None:
    record(ENCODE, name)


@pytest.mark.parametrize("name", ARROW_IN.rows)
def test_arrow_in(name: str, record: Callable[[Group, str], None]) -> None:
    record(ARROW_IN, name)


@pytest.mark.parametrize("name", ARROW_OUT.rows)
def test_arrow_out(name: str, record: Callable[[Group, str], None]) -> None:
    record(ARROW_OUT, name)
