"""Publishing with acks: 300,000 messages of 128 B into a file store, a fresh stream in each round."""

from __future__ import annotations

from collections.abc import Callable

import natscli
import peers
import pytest
import wire
from harness import Group, Run

NATIVE = "jetarrow._jetarrow"
NATS_BENCH = "nats bench js pub async"
PUBLISH = Group(
    "publish, 128 B",
    "publish",
    baseline="raw socket",
    peer="nats-py publish_async",
    beside={"of nats bench": NATS_BENCH},
)
MODE_FAST = "jetarrow mode=fast"
IDS = Group("publish with message ids, 128 B", "publish", baseline="raw socket with ids")
FAST = Group(
    "publish into a stream with allow_batched, 128 B",
    "publish",
    baseline="raw socket, acked window",
    peer="jetarrow mode=window",
    config={"allow_batched": True, "allow_atomic": True},
    beside={"of mode=fast": MODE_FAST},
)


@PUBLISH.row("raw socket")
def raw_socket(run: Run) -> int:
    wire.publish(run.url, run.subject, run.size, run.count, clock=run.clock())
    return run.count  # it has checked acks and stream itself


@PUBLISH.row("jetarrow publish_batch, async", needs=NATIVE)
async def publish_batch_async(run: Run) -> int:
    return await publish_batch(run, "window")


@PUBLISH.row("jetarrow publish_batch, max_inflight=5,000", needs=NATIVE)
async def publish_batch_fixed(run: Run) -> int:
    return await publish_batch(run, "window", 5_000)


@PUBLISH.row("jetarrow publish_batch, sync", needs=NATIVE)
def publish_batch_sync(run: Run) -> int:
    import jetarrow.sync

    payloads = run.payloads
    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        with run.clock():
            result = js.publish_batch(run.subject, payloads)
        result.raise_for_errors()
    return int(result.count)


@PUBLISH.row("jetarrow publisher", needs=NATIVE)
async def publisher(run: Run) -> int:
    import jetarrow

    payloads = run.payloads
    nc = await jetarrow.connect(run.url)
    js = nc.jetstream()
    with run.clock():
        async with js.publisher(run.subject) as made:
            for payload in payloads:
                await made.publish(payload)
    await nc.close()
    return made.stats.stored


@PUBLISH.row("jetarrow publisher, sync", needs=NATIVE)
def publisher_sync(run: Run) -> int:
    import jetarrow.sync

    payloads = run.payloads
    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        with run.clock(), js.publisher(run.subject) as made:
            for payload in payloads:
                made.publish(payload)
    return made.stats.stored


@PUBLISH.row("jetarrow publish_async", needs=NATIVE)
async def publish_async(run: Run) -> int:
    """Every ack is looked at, as in the row of nats-py: a future that failed raises."""
    import jetarrow

    payloads = run.payloads
    nc = await jetarrow.connect(run.url)
    js = nc.jetstream()
    with run.clock():
        futures = [await js.publish_async(run.subject, payload) for payload in payloads]
        await js.publish_async_completed()
        acks = [future.result() for future in futures]
    await nc.close()
    return len(acks)


@PUBLISH.row("jetarrow publish_async, sync", needs=NATIVE)
def publish_async_sync(run: Run) -> int:
    import jetarrow.sync

    payloads = run.payloads
    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        with run.clock():
            futures = [js.publish_async(run.subject, payload) for payload in payloads]
            js.publish_async_completed()
            acks = [future.result() for future in futures]
    return len(acks)


PUBLISH.row("nats-py publish_async", count=60_000)(peers.nats_py_publish_async)
PUBLISH.row("natsrpy publish, gather", count=15_000)(peers.natsrpy_publish)
PUBLISH.row(NATS_BENCH, command=natscli.COMMAND)(natscli.publish)


@IDS.row("raw socket with ids")
def raw_socket_ids(run: Run) -> int:
    wire.publish(run.url, run.subject, run.size, run.count, ids="row", clock=run.clock())
    return run.count


@IDS.row("jetarrow publish_batch of Arrow columns", needs=NATIVE)
async def publish_batch_ids(run: Run) -> int:
    import jetarrow
    import pyarrow

    payloads = pyarrow.array(run.payloads, pyarrow.binary())
    ids = pyarrow.array(wire.message_ids("row", run.count), pyarrow.string())
    nc = await jetarrow.connect(run.url)
    js = nc.jetstream()
    with run.clock():
        result = await js.publish_batch(run.subject, payloads, msg_ids=ids)
    result.raise_for_errors()
    await nc.close()
    return int(result.stored)


FAST.row("raw socket, acked window")(raw_socket)


@FAST.row("jetarrow mode=window", needs=NATIVE)
async def window_mode(run: Run) -> int:
    return await publish_batch(run, "window")


@FAST.row(MODE_FAST, needs=NATIVE)
async def fast_mode(run: Run) -> int:
    return await publish_batch(run, "fast")


@FAST.row("jetarrow mode=atomic, chunk=1,000", needs=NATIVE)
async def atomic_mode(run: Run) -> int:
    return await publish_batch(run, "atomic", chunk=1_000)


async def publish_batch(run: Run, mode: str, max_inflight: int | None = None, chunk: int | None = None) -> int:
    import jetarrow

    payloads = run.payloads
    nc = await jetarrow.connect(run.url)
    js = nc.jetstream()
    with run.clock():
        result = await js.publish_batch(run.subject, payloads, mode=mode, max_inflight=max_inflight, chunk=chunk)
    result.raise_for_errors()
    await nc.close()
    return int(result.stored)


@pytest.mark.parametrize("name", PUBLISH.rows)
def test_publish(name: str, record: Callable[[Group, str], None]) -> None:
    record(PUBLISH, name)


@pytest.mark.parametrize("name", IDS.rows)
def test_publish_ids(name: str, record: Callable[[Group, str], None]) -> None:
    record(IDS, name)


@pytest.mark.parametrize("name", FAST.rows)
def test_publish_fast(name: str, record: Callable[[Group, str], None]) -> None:
    record(FAST, name)
