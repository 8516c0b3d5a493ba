"""Fetches that exceed the limits of the consumer."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import APIError, BadRequestError, FetchTimeoutError

from .tools import fill, numbers


async def test_fetches_beyond_max_waiting_get_messages(js: JetStreamContext, stream: str) -> None:
    await js.add_consumer(stream, durable_name="d", ack_policy="explicit", max_waiting=3)
    subs = [await js.pull_subscribe_bind("d", stream) for _ in range(5)]
    fetches = [asyncio.create_task(sub.fetch(1, timeout=10)) for sub in subs]

    async def waiting() -> int:
        return (await js.consumer_info(stream, "d")).num_waiting or 0

    while await waiting() < 3:
        await asyncio.sleep(0.01)
    await fill(js, stream, 5)
    got = [msg.data for messages in await asyncio.gather(*fetches) for msg in messages]
    assert sorted(got) == numbers(5)


async def test_fetch_with_full_max_waiting_times_out(js: JetStreamContext, stream: str) -> None:
    await js.add_consumer(stream, durable_name="d", ack_policy="explicit", max_waiting=1)
    first, second = [await js.pull_subscribe_bind("d", stream) for _ in range(2)]
    waits = asyncio.create_task(first.fetch(1, timeout=20))
    while not (await js.consumer_info(stream, "d")).num_waiting:
        await asyncio.sleep(0.01)
    begin = time.monotonic()
    with pytest.raises(FetchTimeoutError):
        await second.fetch(1, timeout=0.5)
    assert time.monotonic() - begin >= 0.5
    await fill(js, stream, 1)
    assert [msg.data for msg in await waits] == numbers(1)


@pytest.mark.parametrize(
    "limit",
    [{"max_request_batch": 3}, {"max_request_expires": 1.0}, {"max_request_max_bytes": 4096}],
    ids=lambda limit: next(iter(limit)),
)
async def test_fetch_splits_request_at_consumer_limits(
    js: JetStreamContext, stream: str, limit: dict[str, Any]
) -> None:
    await js.add_consumer(stream, durable_name="d", ack_policy="explicit", **limit)
    sub = await js.pull_subscribe_bind("d", stream)
    await fill(js, stream, 10)
    assert [msg.data for msg in await sub.fetch(10, timeout=5)] == numbers(10)
    # A fetch with a longer timeout than `max_request_expires`.
    later = asyncio.create_task(sub.fetch(10, timeout=5))
    while not (await js.consumer_info(stream, "d")).num_waiting:
        await asyncio.sleep(0.01)
    await asyncio.sleep(1.1 if "max_request_expires" in limit else 0)
    await fill(js, stream, 1)
    assert len(await later) == 1
    with pytest.raises(FetchTimeoutError):
        await sub.fetch(10, timeout=0.3)


async def test_batches_respect_consumer_limits(js: JetStreamContext, stream: str) -> None:
    await js.add_consumer(stream, durable_name="d", ack_policy="explicit", max_request_batch=7)
    await fill(js, stream, 100)
    sub = await js.pull_subscribe_bind("d", stream)
    assert len(await sub.fetch_batch(100, timeout=5)) == 100


async def test_fetch_raises_for_message_above_request_limit(js: JetStreamContext, stream: str) -> None:
    await js.add_consumer(stream, durable_name="d", ack_policy="explicit", max_request_max_bytes=500)
    await js.publish(f"{stream}.a", b"x" * 1000)
    sub = await js.pull_subscribe_bind("d", stream)
    with pytest.raises(ValueError, match="larger than max_bytes=500"):
        await sub.fetch(1, timeout=5)


async def test_fetch_raises_for_rejected_heartbeat(js: JetStreamContext, stream: str) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="d")
    with pytest.raises(BadRequestError, match="heartbeat") as refused:
        await sub.fetch(1, timeout=1, heartbeat=5)
    assert isinstance(refused.value, APIError)
    await fill(js, stream, 1)
    assert [msg.data for msg in await sub.fetch(1, timeout=1, heartbeat=0.2)] == numbers(1)


async def test_pending_msgs_limit_limits_request_size(nc: Client, js: JetStreamContext, stream: str) -> None:
    asked = []

    async def note(msg: Msg) -> None:
        asked.append(json.loads(msg.data)["batch"])

    await nc.subscribe("$JS.API.CONSUMER.MSG.NEXT.>", cb=note)
    await fill(js, stream, 25)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", pending_msgs_limit=10)
    assert [msg.data for msg in await sub.fetch(25, timeout=5)] == numbers(25)
    bound = await js.pull_subscribe_bind("d", stream, pending_msgs_limit=4)
    with pytest.raises(FetchTimeoutError):
        await bound.fetch(8, timeout=0.1)
    await nc.flush()
    assert asked[:3] == [10, 10, 5]
    assert max(asked[3:]) == 4
