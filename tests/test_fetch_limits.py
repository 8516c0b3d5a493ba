"""Fetches that exceed the limits of the consumer."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import jetarrow.sync
import pytest
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg
from jetarrow.js.client import DEFAULT_JS_SUB_PENDING_BYTES_LIMIT, JetStreamContext
from jetarrow.js.errors import APIError, BadRequestError, FetchTimeoutError

from .tools import fill, numbers, store


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
        await sub.fetch(1, timeout=6, heartbeat=5)
    assert isinstance(refused.value, APIError)
    await fill(js, stream, 1)
    assert [msg.data for msg in await sub.fetch(1, timeout=10, heartbeat=0.2)] == numbers(1)


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


def requested_bytes(asked: list[dict[str, Any]]) -> int:
    """The most bytes that one of the requests asked for; a request without a limit counts as infinite."""
    return max(request.get("max_bytes") or sys.maxsize for request in asked)


# A payload of 60 bytes is a message of less than 200 bytes for the server.
PAYLOADS = [b"%d" % number + b"x" * 59 for number in range(6)]
LIMIT = 400


@pytest.fixture
async def asked(nc: Client, stream: str) -> list[dict[str, Any]]:
    """The pull requests that the server receives."""
    found: list[dict[str, Any]] = []

    async def note(msg: Msg) -> None:
        found.append(json.loads(msg.data))

    await nc.subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.>", cb=note)
    await nc.flush()
    return found


@pytest.mark.parametrize("binds", [False, True], ids=["created", "bound"])
async def test_pending_bytes_limit_limits_each_call_and_loses_nothing(
    nc: Client, js: JetStreamContext, stream: str, asked: list[dict[str, Any]], binds: bool
) -> None:
    await store(js, f"{stream}.a", PAYLOADS * 2)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", pending_bytes_limit=LIMIT)
    if binds:
        sub = await js.pull_subscribe_bind("d", stream=stream, pending_bytes_limit=LIMIT)
    first = [msg.data for msg in await sub.fetch(6, timeout=5)]
    second = [msg.data for msg in await sub.fetch_batch(6, timeout=5)]
    third = [msg.data for msg in await sub.fetch(1, timeout=5, max_bytes=10_000)]
    assert 0 < len(first) <= LIMIT // 60
    assert 0 < len(second) <= LIMIT // 60
    assert first + second + third == (PAYLOADS * 2)[: len(first) + len(second) + 1]
    await nc.flush()
    assert requested_bytes(asked) <= LIMIT
    # A smaller limit of a call holds.
    asked.clear()
    await sub.fetch(1, timeout=5, max_bytes=LIMIT // 2)
    await nc.flush()
    assert requested_bytes(asked) <= LIMIT // 2


@pytest.mark.parametrize("verb", ["messages", "consume", "pull", "batches"])
async def test_pending_bytes_limit_limits_requests_of_iterations(
    nc: Client, js: JetStreamContext, stream: str, asked: list[dict[str, Any]], verb: str
) -> None:
    await store(js, f"{stream}.a", PAYLOADS)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", pending_bytes_limit=LIMIT)
    found: list[bytes] = []
    if verb == "batches":
        async for batch in sub.batches(rows=6, seconds=5):
            found += [msg.data for msg in batch]
            await batch.ack_sync()
            if len(found) == 6:
                break
    else:
        sub.pull(6)
        async for msg in {"messages": sub.messages, "consume": sub.consume(6), "pull": sub}[verb]:
            found.append(msg.data)
            if len(found) == 6:
                break
    assert found == PAYLOADS
    await nc.flush()
    assert requested_bytes(asked) <= LIMIT


async def test_message_above_pending_bytes_limit_is_an_error_with_the_limit(js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", PAYLOADS)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", pending_bytes_limit=50)
    for call in (sub.fetch(1, timeout=5), sub.fetch_batch(6, timeout=5)):
        with pytest.raises(ValueError, match=r"'d'.*larger than pending_bytes_limit=50, or .*; raise"):
            await call
    with pytest.raises(ValueError, match="larger than max_bytes=40"):
        await sub.fetch(1, timeout=5, max_bytes=40)
    # The message is not lost.
    wide = await js.pull_subscribe_bind("d", stream=stream)
    assert [msg.data for msg in await wide.fetch(6, timeout=5)] == PAYLOADS


@pytest.mark.parametrize("limit", [0, -1, DEFAULT_JS_SUB_PENDING_BYTES_LIMIT])
async def test_pending_limits_of_zero_or_less_are_no_limits(
    nc: Client, js: JetStreamContext, stream: str, asked: list[dict[str, Any]], limit: int
) -> None:
    await store(js, f"{stream}.a", PAYLOADS)
    sub = await js.pull_subscribe(
        f"{stream}.>", durable="d", pending_bytes_limit=limit, pending_msgs_limit=min(limit, 0)
    )
    assert [msg.data for msg in await sub.fetch(6, timeout=5)] == PAYLOADS
    await nc.flush()
    assert asked[0]["batch"] == 6
    assert requested_bytes(asked) > LIMIT


def test_sync_pull_subscription_honours_pending_limits(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sync_js.publish_batch(f"{stream}.a", PAYLOADS).raise_for_errors()
    sub = sync_js.pull_subscribe(f"{stream}.>", "d", pending_bytes_limit=LIMIT, pending_msgs_limit=1)
    found: list[bytes] = []
    while len(found) < 6:
        messages = sub.fetch(6, timeout=5)
        assert 0 < len(messages) <= LIMIT // 60
        found += [msg.data for msg in messages]
    assert found == PAYLOADS
    narrow = sync_js.pull_subscribe_bind("d", stream=stream, pending_bytes_limit=50)
    sync_js.publish(f"{stream}.a", PAYLOADS[0])
    with pytest.raises(ValueError, match="pending_bytes_limit=50"):
        narrow.fetch(1, timeout=5)
