"""Fetches of one connection share a budget of bytes: each releases its share when it ends in any way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

import jetarrow
import pytest
from jetarrow.aio.msg import Msg
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .tools import store, until

# Each reserves half of the rest of 28 MiB.
MOST = 14 << 20
CONFIG = """
jetstream {}
authorization { users: [
  { user: a, password: x, permissions: { publish: { deny: ["$JS.API.CONSUMER.MSG.NEXT.S.no"] } } }
  { user: b, password: x }
] }
"""


async def full(js: JetStreamContext) -> None:
    sub = await js.pull_subscribe("s.>", durable="d", stream="S")
    assert len(await sub.fetch_batch(20, timeout=10)) == 20


async def dry(js: JetStreamContext) -> None:
    sub = await js.pull_subscribe("s.>", durable="d", stream="S")
    assert len(await sub.fetch_batch(50, timeout=5, min_messages=50)) == 20


async def cancelled(js: JetStreamContext) -> None:
    sub = await js.pull_subscribe("s.>", durable="d", stream="S")
    task = asyncio.ensure_future(sub.fetch_batch(50, timeout=60, min_messages=50))
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def not_permitted(js: JetStreamContext) -> None:
    sub = await js.pull_subscribe("s.>", durable="no", stream="S")
    with pytest.raises(jetarrow.errors.PermissionsViolationError):
        await sub.fetch_batch(20, timeout=10)


@pytest.mark.parametrize("way", [full, dry, cancelled, not_permitted])
async def test_fetch_releases_its_share_of_pull_budget(way: Callable[[JetStreamContext], Awaitable[None]]) -> None:
    asked: list[int] = []

    async def hear(msg: Msg) -> None:
        asked.append(json.loads(msg.data)["max_bytes"])

    with NatsServer(config=CONFIG) as server:
        url = server.url.removeprefix("nats://")
        async with (
            await jetarrow.connect(f"nats://a:x@{url}") as nc,
            await jetarrow.connect(f"nats://b:x@{url}") as other,
        ):
            js = nc.jetstream()
            await js.add_stream(name="S", subjects=["s.>"])
            await store(js, "s.a", [b"x"] * 20)
            probe = await js.pull_subscribe("s.>", durable="probe", stream="S", ack_wait=600)
            await other.subscribe("$JS.API.CONSUMER.MSG.NEXT.S.probe", cb=hear)
            await other.flush()
            await way(js)

            async def whole() -> bool:
                asked.clear()
                await probe.fetch_batch(10_000, timeout=10, min_messages=0)
                await other.flush()
                # The first fetch returns available messages; another one may wait.
                return asked[:1] == [MOST]

            # The other messages of a cancelled call may still arrive.
            await until(whole) if way is cancelled else None
            assert await whole()


async def test_fetch_with_share_below_message_size_returns_single_messages(js: JetStreamContext, stream: str) -> None:
    """Such a message is requested alone, also if the call has a `max_bytes`."""
    calls, each = 24, 3
    await store(js, f"{stream}.a", [bytes(300_000)] * (calls * each))
    sub = await js.pull_subscribe(f"{stream}.>", ack_wait=600)
    batches = await asyncio.gather(
        *(sub.fetch_batch(each, max_bytes=4 << 20, timeout=60, min_messages=each) for _ in range(calls))
    )
    assert [len(batch) for batch in batches] == [each] * calls
    seqs = sorted(seq or 0 for batch in batches for seq in batch.seqs.to_pylist())
    assert seqs == list(range(1, calls * each + 1))
