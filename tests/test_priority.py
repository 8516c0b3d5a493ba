"""Priority groups of pull consumers (ADR-42)."""

from __future__ import annotations

import asyncio

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.js.api import PriorityPolicy
from jetarrow.js.client import JetStreamContext
from jetarrow.js.consumer import Consumer
from jetarrow.js.errors import APIError, BadRequestError, FetchTimeoutError

from .tools import fill, fill_sync


async def grouped(js: JetStreamContext, stream: str, policy: str, **options: float) -> Consumer:
    return await js.stream(stream).create_consumer(
        durable_name=policy, priority_groups=["A"], priority_policy=policy, ack_wait=60, **options
    )


async def pinned(consumer: Consumer) -> str | None:
    groups = (await consumer.info()).priority_groups
    return groups[0].pinned_client_id if groups else None


async def test_one_client_at_a_time(js: JetStreamContext, nats_url: str, stream: str) -> None:
    await fill(js, stream, 40)
    first = await grouped(js, stream, "pinned_client", priority_timeout=120)
    second = js.stream(stream).consumer("pinned_client")
    assert [msg.seq for msg in await first.fetch(3, group="A")] == [1, 2, 3]
    assert await pinned(first)
    # The pin lasts from call to call, with every method; no other client receives a message.
    assert len(await first.fetch_batch(4, group="A")) == 4
    with pytest.raises(FetchTimeoutError):
        await second.fetch(1, timeout=0.3, group="A")
    first.pull(2, group="A")
    assert [(await anext(aiter(first))).seq] == [8]
    async for msg in first.consume(5, group="A"):
        assert msg.seq > 8
        break
    async for batch in first.batches(5, group="A"):
        assert len(batch) == 5
        break

    await first.unpin("A")
    assert len(await second.fetch(2, timeout=5, group="A")) == 2
    # The first client's pin is invalid now; its fetch waits for a new one.
    with pytest.raises(FetchTimeoutError):
        await first.fetch(1, timeout=0.3, group="A")
    await js.unpin_consumer(stream, "pinned_client", "A")
    assert len(await first.fetch(1, timeout=5, group="A")) == 1
    with pytest.raises(BadRequestError):
        await first.unpin("B")


async def test_a_client_waits_for_the_pin(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 4)
    first = await grouped(js, stream, "pinned_client", priority_timeout=120)
    second = js.stream(stream).consumer("pinned_client")
    await first.fetch(1, group="A")
    waiting = asyncio.ensure_future(second.fetch(1, timeout=20, group="A"))

    async def asked() -> bool:
        return ((await first.info()).num_waiting or 0) > 0

    while not await asked():
        await asyncio.sleep(0.005)
    await first.unpin("A")
    assert len(await waiting) == 1


async def test_overflow(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 20)
    consumer = await grouped(js, stream, "overflow", max_ack_pending=100)
    assert len(await consumer.fetch(5, group="A")) == 5
    # 15 messages are pending, and 5 await their acks.
    assert await consumer.fetch(5, no_wait=True, group="A", min_pending=16) == []
    assert len(await consumer.fetch(5, group="A", min_pending=10)) == 5
    assert await consumer.fetch(5, no_wait=True, group="A", min_ack_pending=11) == []
    assert len(await consumer.fetch(5, group="A", min_ack_pending=10)) == 5
    assert len(await consumer.fetch_batch(5, timeout=5, min_messages=0, group="A", min_pending=6)) == 0


async def test_prioritized(js: JetStreamContext, stream: str) -> None:
    consumer = await grouped(js, stream, PriorityPolicy.PRIORITIZED.value)
    later = asyncio.ensure_future(consumer.fetch(1, timeout=20, group="A", priority=5))
    other = js.stream(stream).consumer("prioritized")

    async def waiting(count: int) -> None:
        while (await other.info()).num_waiting != count:
            await asyncio.sleep(0.005)

    await waiting(1)
    sooner = asyncio.ensure_future(other.fetch(1, timeout=20, group="A", priority=1))
    await waiting(2)
    await js.publish(f"{stream}.a", b"first")
    assert [msg.data for msg in await sooner] == [b"first"]
    await js.publish(f"{stream}.a", b"second")
    assert [msg.data for msg in await later] == [b"second"]


async def test_invalid_priority_options_raise(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 1)
    consumer = await grouped(js, stream, "overflow")
    for options in ({"min_pending": 1}, {"min_ack_pending": 1}, {"priority": 1}):
        with pytest.raises(ValueError, match="is set without group"):
            await consumer.fetch(1, **options)
    with pytest.raises(ValueError, match="0 to 9"):
        await consumer.fetch(1, group="A", priority=10)
    with pytest.raises(ValueError, match="negative"):
        consumer.pull(1, group="A", min_pending=-1)
    with pytest.raises(TypeError):
        await consumer.fetch(1, grup="A")  # type: ignore[call-arg]
    with pytest.raises(APIError, match="Priority Group"):
        await consumer.fetch(1, group="B")
    with pytest.raises(APIError, match="Priority Group"):
        await consumer.fetch(1)


def test_sync_pinned_group_works_with_every_fetch_verb(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 9)
    config = {"durable_name": "p", "priority_groups": ["A"], "priority_policy": "pinned_client"}
    consumer = sync_js.stream(stream).create_consumer(**config)  # type: ignore[arg-type]
    assert len(consumer.fetch(2, group="A")) == 2
    assert next(consumer.consume(1, group="A")).seq == 3
    assert len(next(consumer.batches(3, group="A"))) == 3
    consumer.pull(1, group="A")
    assert [msg.seq for msg in consumer] == [7]
    consumer.unpin("A")
    assert len(sync_js.fetch(stream, "p", 1, group="A")) == 1
