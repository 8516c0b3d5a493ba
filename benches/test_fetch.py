"""Fetching with a pull consumer (AckNone): 300,000 messages of 128 B, 100,000 of 1 KiB, and 20,000 of 16 KiB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import peers
import pytest
import successor_peer
import wire
from harness import Group, Run

NATIVE = "jetarrow._jetarrow"
BATCH = 10_000
FETCH = Group("fetch, 128 B", "read", baseline="raw socket", peer="nats-py fetch(1000)")
MIDDLE = Group("fetch, 1 KiB", "read", baseline="raw socket", size=1 << 10, count=100_000)
LARGE = Group("fetch, 16 KiB", "read", baseline="raw socket", size=16 << 10, count=20_000)


@LARGE.row("raw socket")
@MIDDLE.row("raw socket")
@FETCH.row("raw socket")
def raw_socket(run: Run) -> int:
    wire.pull(run.url, run.stream, run.count, clock=run.clock())
    return run.count


@LARGE.row("jetarrow fetch_batch(10000), async", needs=NATIVE)
@MIDDLE.row("jetarrow fetch_batch(10000), async", needs=NATIVE)
@FETCH.row("jetarrow fetch_batch(10000), async", needs=NATIVE)
async def fetch_batch_async(run: Run) -> int:
    import jetarrow

    nc = await jetarrow.connect(run.url)
    sub = await nc.jetstream().pull_subscribe(run.subject, stream=run.stream, config=consumer())
    rows = size = 0
    with run.clock():
        while rows < run.count:
            batch = (await sub.fetch_batch(min(BATCH, run.count - rows))).to_pyarrow()
            rows += some(batch.num_rows)
            size += data_bytes(batch)
    await nc.close()
    run.check_bytes(size)
    return rows


@FETCH.row("jetarrow fetch_batch(10000), sync", needs=NATIVE)
def fetch_batch_sync(run: Run) -> int:
    import jetarrow.sync

    rows = size = 0
    with jetarrow.sync.connect(run.url) as nc:
        sub = nc.jetstream().pull_subscribe(run.subject, stream=run.stream, config=consumer())
        with run.clock():
            while rows < run.count:
                batch = sub.fetch_batch(min(BATCH, run.count - rows)).to_pyarrow()
                rows += some(batch.num_rows)
                size += data_bytes(batch)
    run.check_bytes(size)
    return rows


@FETCH.row("jetarrow fetch(1000), every data read", needs=NATIVE)
async def fetch_messages(run: Run) -> int:
    import jetarrow

    nc = await jetarrow.connect(run.url)
    sub = await nc.jetstream().pull_subscribe(run.subject, stream=run.stream, config=consumer())
    read = size = 0
    with run.clock():
        while read < run.count:
            for message in await sub.fetch(min(peers.NATS_PY_FETCH, run.count - read)):
                size += len(message.data)
                read += 1
    await nc.close()
    run.check_bytes(size)
    return read


@FETCH.row("jetarrow async for, every data read", needs=NATIVE)
async def iterate_messages(run: Run) -> int:
    import jetarrow

    nc = await jetarrow.connect(run.url)
    sub = await nc.jetstream().pull_subscribe(run.subject, stream=run.stream, config=consumer())
    read = size = 0
    with run.clock():
        async for message in sub.messages:
            size += len(message.data)
            read += 1
            if read == run.count:
                break
    await nc.close()
    run.check_bytes(size)
    return read


FETCH.row("nats-py fetch(1000)", count=60_000)(peers.nats_py_fetch)
FETCH.row("nats-jetstream fetch(1000)", count=60_000, command=successor_peer.PYTHON)(successor_peer.fetch)


def consumer() -> Any:
    """Return the same configuration as in the rows of the raw socket and nats-py."""
    from jetarrow.js.api import AckPolicy, ConsumerConfig

    return ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True, inactive_threshold=60.0)


def some(rows: int) -> int:
    """Return `rows`; an empty batch raises an error, because messages are missing."""
    if not rows:
        raise wire.WireError("a fetch came back empty before its timeout or at it")
    return rows


def data_bytes(batch: Any) -> int:
    """Return the bytes in the column `data` of a pyarrow record batch; takes microseconds for 10,000 rows."""
    import pyarrow.compute

    return int(pyarrow.compute.sum(pyarrow.compute.binary_length(batch["data"])).as_py())


@pytest.mark.parametrize("name", FETCH.rows)
def test_fetch(name: str, record: Callable[[Group, str], None]) -> None:
    record(FETCH, name)


@pytest.mark.parametrize("name", LARGE.rows)
def test_fetch_large(name: str, record: Callable[[Group, str], None]) -> None:
    record(LARGE, name)


@pytest.mark.parametrize("name", MIDDLE.rows)
def test_fetch_middle(name: str, record: Callable[[Group, str], None]) -> None:
    record(MIDDLE, name)
