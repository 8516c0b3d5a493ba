"""Core subscriptions: cancelled iterations, and a limit after a reconnect."""

from __future__ import annotations

import asyncio
import uuid

import jetarrow
import pytest
from jetarrow import errors
from jetarrow.aio.client import Client

from .tools import until


async def test_a_cancelled_iteration_loses_no_message(nc: Client) -> None:
    subject = uuid.uuid4().hex
    sub = await nc.subscribe(subject)
    for number in range(2_000):
        await nc.publish(subject, b"%d" % number)
    await until(lambda: sub.pending_msgs == 2_000)
    seen: list[bytes] = []

    async def collect() -> None:
        async for msg in sub.messages:
            seen.append(msg.data)  # noqa: PERF401

    collecting = asyncio.create_task(collect())
    while not seen:
        await asyncio.sleep(0)
    collecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await collecting
    assert 0 < len(seen) < 2_000
    assert (await sub.next_msg(timeout=30)).data == b"%d" % len(seen)


async def test_a_limit_after_a_reconnect_ends_the_subscription_at_the_server_too(nats_url: str) -> None:
    subject = uuid.uuid4().hex
    async with await jetarrow.connect(nats_url, connect_timeout=20) as nc:
        sub = await nc.subscribe(subject, queue="q")
        for _ in range(5):
            await nc.publish(subject, b"x")
        await until(lambda: sub.delivered == 5)
        before = nc.stats["reconnects"]
        await nc.force_reconnect()
        await until(lambda: nc.stats["reconnects"] > before and nc.is_connected)
        await sub.unsubscribe(limit=10)
        for _ in range(5):
            await nc.publish(subject, b"x")
        await until(lambda: sub.delivered == 10)
        with pytest.raises(errors.NoRespondersError):
            await nc.request(subject, b"", timeout=20)
