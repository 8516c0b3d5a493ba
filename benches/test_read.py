"""Reading a whole stream: 300,000 messages of 128 B from a file store, and of JSON into typed columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import natscli
import peers
import pytest
import wire
from harness import Group, Run

NATIVE = "jetarrow._jetarrow"


def reading(index: int) -> bytes:
    """Seven fields, 110 B, as a sensor has them."""
    fields = {
        "id": 1_000_000 + index,
        "device": f"sensor-{index % 1000:04d}",
        "ok": index % 7 != 0,
        "temperature": round(20 + index % 1000 / 100, 2),
        "count": index % 997,
        "site": "north",
        "at": f"2026-11-21T12:{index // 60 % 60:02d}:{index % 60:02d}Z",
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def fill_with_json(url: str, subject: str, count: int) -> None:
    import jetarrow.sync

    with jetarrow.sync.connect(url) as nc:
        nc.jetstream().publish_batch(subject, [reading(i) for i in range(count)]).raise_for_errors()


NATS_BENCH = "nats bench js consume"
READ = Group(
    "read, 128 B",
    "read",
    baseline="raw socket",
    peer="nats-py fetch(1000)",
    beside={"of nats bench": NATS_BENCH},
)
JSON = Group(
    "read JSON", "read", "raw socket", "jetarrow read without schema", size=len(reading(0)), fill=fill_with_json
)


@JSON.row("raw socket")
@READ.row("raw socket")
def raw_socket(run: Run) -> int:
    wire.pull(run.url, run.stream, run.count, clock=run.clock())
    return run.count  # it has checked the consumer's own count


@READ.row("jetarrow read, async", needs=NATIVE)
async def read_async(run: Run) -> int:
    table = await read_all(run)
    run.check_bytes(data_bytes(table))
    return int(table.num_rows)


@READ.row("jetarrow read, sync", needs=NATIVE)
def read_sync(run: Run) -> int:
    import jetarrow.sync

    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        with run.clock():
            table = js.read(run.stream).read_all()
    run.check_bytes(data_bytes(table))
    return int(table.num_rows)


READ.row("nats-py fetch(1000)", count=60_000)(peers.nats_py_fetch)
READ.row("natsrpy fetch(10000)", count=150_000)(peers.natsrpy_fetch)
READ.row(NATS_BENCH, command=natscli.COMMAND)(natscli.consume)


@JSON.row("jetarrow read without schema", needs=NATIVE)
async def read_json_bytes(run: Run) -> int:
    return int((await read_all(run)).num_rows)


def seven_fields() -> Any:
    import pyarrow

    fields = {
        "id": pyarrow.int64(),
        "device": pyarrow.string(),
        "ok": pyarrow.bool_(),
        "temperature": pyarrow.float64(),
        "count": pyarrow.int32(),
        "site": pyarrow.string(),
        "at": pyarrow.timestamp("us", "UTC"),
    }
    return pyarrow.schema(fields)


@JSON.row("jetarrow read(schema=), 7 fields", needs=NATIVE)
async def read_json_schema(run: Run) -> int:
    schema = seven_fields()
    table = await read_all(run, schema=schema)
    value = table["value"].combine_chunks()
    if value.null_count or any(value.field(field.name).null_count for field in schema):
        raise wire.WireError("a row was not decoded")
    return int(table.num_rows)


async def read_all(run: Run, **options: Any) -> Any:
    import jetarrow

    nc = await jetarrow.connect(run.url)
    js = nc.jetstream()
    with run.clock():
        table = await js.read(run.stream, **options).read_all()
    await nc.close()
    return table


def data_bytes(table: Any) -> int:
    """Return the bytes in the column `data` of a pyarrow table."""
    import pyarrow.compute

    return int(pyarrow.compute.sum(pyarrow.compute.binary_length(table["data"])).as_py())


@pytest.mark.parametrize("name", READ.rows)
def test_read(name: str, record: Callable[[Group, str], None]) -> None:
    record(READ, name)


@pytest.mark.parametrize("name", JSON.rows)
def test_read_json(name: str, record: Callable[[Group, str], None]) -> None:
    record(JSON, name)
