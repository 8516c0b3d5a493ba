"""Publishing with acks: 300,000 messages of 128 B into a file store, a fresh stream in each round."""

from __future__ import annotations

from collections.abc import Callable

import peers
import pytest
import wire
from harness import Group, Run

PUBLISH = Group("publish, 128 B", "publish", baseline="raw socket", peer="nats-py publish_async")


@PUBLISH.row("raw socket")
def raw_socket(run: Run) -> int:
    wire.publish(run.url, run.subject, run.size, run.count, clock=run.clock())
    return run.count  # it has checked acks and stream itself


@PUBLISH.row("jetarrow publish_batch, async", needs="jetarrow._jetarrow")
async def publish_batch_async(run: Run) -> int:
    import jetarrow

    nc = await jetarrow.connect(run.url)
    js = nc.jetstream()
    with run.clock():
        result = await js.publish_batch(run.subject, run.payloads)
    result.raise_for_errors()
    await nc.close()
    return int(result.count)


@PUBLISH.row("jetarrow publish_batch, sync", needs="jetarrow._jetarrow")
def publish_batch_sync(run: Run) -> int:
    import jetarrow.sync

    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        with run.clock():
            result = js.publish_batch(run.subject, run.payloads)
        result.raise_for_errors()
    return int(result.count)


PUBLISH.row("nats-py publish_async", count=60_000)(peers.nats_py_publish_async)
PUBLISH.row("natsrpy publish, gather", count=15_000)(peers.natsrpy_publish)


@pytest.mark.parametrize("name", PUBLISH.rows)
def test_publish(name: str, record: Callable[[Group, str], None]) -> None:
    record(PUBLISH, name)
