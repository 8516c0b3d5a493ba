"""Fetches from a replicated consumer, whose messages wait for a quorum while statuses do not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import jetarrow
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .tools import cluster, store

pytestmark = pytest.mark.xdist_group("replicated")


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, NatsServer]]:
    with cluster(3) as servers:
        yield servers


@pytest.fixture
async def replicated(servers: dict[str, NatsServer]) -> AsyncIterator[JetStreamContext]:
    async with await jetarrow.connect(servers["n1"].url, connect_timeout=20) as nc:
        js = nc.jetstream(timeout=20)
        await js.add_stream(name="R", subjects=["r"], num_replicas=3)
        await js.add_consumer("R", durable_name="c", ack_policy="explicit", ack_wait=120)
        yield js
        await js.delete_stream("R")


@pytest.mark.parametrize("max_bytes", [None, 100_000])
async def test_a_fetch_leaves_no_request_behind(replicated: JetStreamContext, max_bytes: int | None) -> None:
    await store(replicated, "r", [b"%d" % number for number in range(20)])
    sub = await replicated.pull_subscribe_bind(consumer="c", stream="R")
    for number in range(10):
        batch = await sub.fetch_batch(1, max_bytes=max_bytes, timeout=20)
        assert batch.to_pyarrow().column("data").to_pylist() == [b"%d" % number]
        await batch.ack_sync()
    info = await replicated.consumer_info("R", "c")
    print(info.num_ack_pending, info.num_waiting, info.delivered)
    assert info.num_waiting == 0
    assert info.delivered.stream_seq == 10


async def test_a_limit_of_bytes_returns_the_messages_that_fit(replicated: JetStreamContext) -> None:
    await store(replicated, "r", [b"%04d" % number + bytes(996) for number in range(30)])
    sub = await replicated.pull_subscribe_bind(consumer="c", stream="R")
    seen = []
    while len(seen) < 30:
        batch = await sub.fetch_batch(100, max_bytes=10_000, min_messages=1, timeout=20)
        assert len(batch) > 0
        await batch.ack_sync()
        seen += [payload[:4] for payload in batch.to_pyarrow().column("data").to_pylist()]
    assert seen == [b"%04d" % number for number in range(30)]
