"""Reading a whole stream: 300,000 messages of 128 B from a file store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import peers
import pytest
import wire
from harness import Group, Run

READ = Group("read, 128 B", "read", baseline="raw socket", peer="nats-py fetch(1000)")


@READ.row("raw socket")
def raw_socket(run: Run) -> int:
    wire.pull(run.url, run.stream, run.count, clock=run.clock())
    return run.count  # it has checked the consumer's own count


@READ.row("jetarrow read, async", needs="jetarrow._jetarrow")
async def read_async(run: Run) -> int:
    import jetarrow

    nc = await jetarrow.connect(run.url)
    js = nc.jetstream()
    with run.clock():
        table = await js.read(run.stream).read_all()
    await nc.close()
    run.check_bytes(data_bytes(table))
    return int(table.num_rows)


@READ.row("jetarrow read, sync", needs="jetarrow._jetarrow")
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


def data_bytes(table: Any) -> int:
    """Of the column `data` of a pyarrow Table."""
    import pyarrow.compute

    return int(pyarrow.compute.sum(pyarrow.compute.binary_length(table["data"])).as_py())


@pytest.mark.parametrize("name", READ.rows)
def test_read(name: str, record: Callable[[Group, str], None]) -> None:
    record(READ, name)
