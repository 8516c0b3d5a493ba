"""`sub.batches(rows=, seconds=, bytes=)`: held messages are not redelivered, and are released at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.batch import MessageBatch
from jetarrow.core.session import run_to_completion
from jetarrow.jetstream.batch_collector import ConcatenatedBatch, HeldBatch, PendingAcks
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .tools import fill, fill_sync, numbers, store, until

# Seconds; +WPI is sent at half of this interval.
ACK_WAIT = 8.0


async def subscribed(js: JetStreamContext, stream: str, **config: Any) -> Any:
    return await js.pull_subscribe(f"{stream}.>", durable="d", **config)


def payloads(batch: Any) -> list[bytes]:
    return batch.to_pyarrow()["data"].to_pylist()


async def test_batches_have_the_requested_number_of_rows(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 25)
    sub = await subscribed(js, stream)
    sizes = []
    batches = sub.batches(rows=10, seconds=5)
    async for batch in batches:
        sizes.append(len(batch))
        await batch.ack_sync()
        if sum(sizes) == 25:
            break
    await batches.aclose()
    assert sizes == [10, 10, 5]
    info = await sub.consumer_info()
    assert (info.ack_floor.stream_seq, info.num_ack_pending, info.num_redelivered) == (25, 0, 0)


async def test_batches_are_limited_by_bytes(js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", [bytes(1000)] * 20)
    sub = await subscribed(js, stream)
    begin = asyncio.get_running_loop().time()
    batches = sub.batches(rows=100, seconds=60, bytes=5500)
    async for batch in first(batches, 2):
        assert 0 < len(batch) < 6
        await batch.ack()
    assert asyncio.get_running_loop().time() - begin < 30
    with pytest.raises(ValueError, match="larger"):
        await anext(sub.batches(bytes=100))


async def first(batches: Any, count: int) -> AsyncIterator[MessageBatch]:
    for _ in range(count):
        yield await anext(batches)
    await batches.aclose()


def work_goes_on(acks: Iterable[Any], stream: str) -> set[int]:
    """Returns the sequences with a +WPI; the subject is `$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>...`."""
    told = (msg.subject.partition(f".{stream}.d.")[2].split(".") for msg in acks if msg.data == b"+WPI")
    return {int(tokens[1]) for tokens in told if len(tokens) > 1}


async def test_held_messages_are_kept_in_progress(js: JetStreamContext, stream: str) -> None:
    """+WPI is sent for held messages while a batch is collected and while the program processes it."""
    sub = await subscribed(js, stream, ack_wait=ACK_WAIT)
    acks: list[Any] = []

    async def ack(msg: Any) -> None:
        acks.append(msg)

    await js._nc.subscribe("$JS.ACK.>", cb=ack)  # type: ignore[attr-defined]  # its client
    await fill(js, stream, 3)
    batches = sub.batches(rows=8, seconds=600)
    gathering = asyncio.ensure_future(anext(batches))
    await until(lambda: work_goes_on(acks, stream) == {1, 2, 3})
    await store(js, f"{stream}.a", numbers(8)[3:])
    batch = await gathering
    assert payloads(batch) == numbers(8)
    acks.clear()
    await until(lambda: work_goes_on(acks, stream) == set(range(1, 9)))
    await batch.ack_sync(rows=[0, 1])
    await batch.ack_sync(rows=[row == 7 for row in range(8)])
    acks.clear()
    await until(lambda: work_goes_on(acks, stream) >= {3, 4, 5, 6, 7})
    assert work_goes_on(acks, stream) == {3, 4, 5, 6, 7}
    await batch.ack_sync()
    await batches.aclose()
    assert (await sub.consumer_info()).ack_floor.stream_seq == 8


async def test_a_batch_of_several_fetches(js: JetStreamContext, stream: str) -> None:
    """A batch joined from several fetches behaves like a batch of one fetch."""
    sub = await subscribed(js, stream)
    await store(js, f"{stream}.a", [b'{"id": %d}' % (row // 2) for row in range(6)])
    hold = PendingAcks(js._api.session)
    for count in (2, 3, 1):
        hold.parts.append((await sub.fetch_batch(count, min_messages=count))._native)
    native: Any = ConcatenatedBatch(hold.parts)
    batch = HeldBatch(js._api.session, native, hold)
    assert [len(batch), batch.seqs.to_pylist(), repr(batch)] == [
        6,
        [1, 2, 3, 4, 5, 6],
        "<HeldBatch: 6 rows, stream, seq, subject, timestamp, headers, data>",
    ]
    assert [msg.data for msg in batch] == [b'{"id": %d}' % (row // 2) for row in range(6)]
    assert [batch[-1].seq, batch.nbytes > 0, batch.to_polars().height] == [6, True, 6]
    with pytest.raises(IndexError):
        batch[6]
    with pytest.raises(IndexError):
        batch[-7]
    assert batch.schema.names == ["stream", "seq", "subject", "timestamp", "headers", "data"]
    decoded = batch.decode({"id": int})
    assert pa.record_batch(decoded)["value"].to_pylist() == [{"id": row // 2} for row in range(6)]
    with pytest.raises(ValueError, match="mask has 2"):
        await batch.ack([True, False])
    with pytest.raises(IndexError):
        await batch.ack([6])
    await decoded.ack_sync([0, -1])
    await batch.ack_sync(pa.array([False, True, True, True, True, False]))
    info = await sub.consumer_info()
    assert (info.ack_floor.stream_seq, info.num_ack_pending, info.num_redelivered) == (6, 0, 0)


async def test_unacknowledged_messages_are_released_at_once(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 7)
    sub = await subscribed(js, stream, ack_wait=600)
    batches = sub.batches(rows=5, seconds=60)
    batch = await anext(batches)
    await batch.ack_sync([0])
    gathering = asyncio.ensure_future(anext(batches))
    await until(lambda: _ack_pending(sub, 6))
    gathering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gathering
    await batches.aclose()
    # The collected messages, and those of the batch that were not acknowledged.
    again = await sub.fetch_batch(6, min_messages=6, timeout=10)
    assert sorted(again.seqs.to_pylist()) == [2, 3, 4, 5, 6, 7]


async def _ack_pending(sub: Any, count: int) -> bool:
    return (await sub.consumer_info()).num_ack_pending == count


async def test_a_discarded_batch_is_redelivered(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 1)
    sub = await subscribed(js, stream, ack_wait=0.5)
    batches = sub.batches(rows=1, seconds=60)
    first, second = [(await anext(batches))[0].metadata.num_delivered for _ in range(2)]
    assert first == 1 < second
    await batches.aclose()


async def test_unsubscribe_ends_batches_and_releases_messages(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3)
    sub = await subscribed(js, stream, ack_wait=600)
    taken = asyncio.ensure_future(_all(sub.batches(rows=5, seconds=60)))
    await until(lambda: _ack_pending(sub, 3))
    await sub.unsubscribe()
    assert await taken == []
    other = await js.pull_subscribe_bind("d", stream)
    assert sorted((await other.fetch_batch(3, min_messages=3, timeout=10)).seqs.to_pylist()) == [1, 2, 3]


async def _all(batches: AsyncIterator[MessageBatch]) -> list[MessageBatch]:
    return [batch async for batch in batches]


async def test_batches_are_limited_by_max_ack_pending(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 9)
    sub = await subscribed(js, stream, max_ack_pending=4)
    batches = sub.batches(rows=100, seconds=60)
    batch = await anext(batches)
    assert len(batch) == 4
    await batch.ack_sync()
    assert (await anext(batches)).seqs.to_pylist() == [5, 6, 7, 8]
    await batches.aclose()


async def test_batches_of_a_consumer_handle(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 6)
    await js.add_consumer(stream, name="c", ack_policy="explicit")
    consumer = js.stream(stream).consumer("c")
    batch = await anext(consumer.batches(4))
    assert (len(batch), type(batch)) == (4, MessageBatch)
    await batch.ack_sync()
    batches = consumer.batches(rows=2, seconds=5, columns=["seq"])
    held = await anext(batches)
    assert held.to_pyarrow().to_pydict() == {"seq": [5, 6]}
    await held.ack_sync()
    for wrong in ({"rows": 0}, {"seconds": 0}, {"bytes": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            consumer.batches(**wrong)
    await batches.aclose()


async def test_a_server_that_does_not_answer_for_a_moment(own_server: NatsServer) -> None:
    """A window of a fraction of a second leaves the server as much time as other requests do."""
    async with await jetarrow.connect(own_server.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["S.>"])
        sub = await subscribed(nc.jetstream(timeout=60), "S")
        batches = sub.batches(rows=10, seconds=0.2)
        found = asyncio.ensure_future(anext(batches))
        await until(lambda: nc.metrics_by_verb()["fetch"]["out_msgs"] > 1)
        own_server.pause()
        await asyncio.wait([found], timeout=1.5)
        own_server.resume()
        await fill(nc.jetstream(), "S", 10)
        assert len(await asyncio.wait_for(found, 60)) > 0
        await batches.aclose()


async def test_a_server_that_does_not_answer_for_longer(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["S.>"])
        sub = await subscribed(nc.jetstream(), "S")
        batches = (await nc.jetstream(timeout=1).pull_subscribe_bind("d", "S")).batches(rows=10, seconds=0.2)
        found = asyncio.ensure_future(anext(batches))
        await until(lambda: nc.metrics_by_verb()["fetch"]["out_msgs"] > 1)
        own_server.pause()
        with pytest.raises(TimeoutError, match="the server has not answered"):
            await asyncio.wait_for(found, 60)
        own_server.resume()
        await sub.unsubscribe()


async def test_without_acknowledgements(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3)
    await js.add_consumer(stream, name="c", ack_policy="none")
    batch = await anext(js.stream(stream).consumer("c").batches(rows=3, seconds=5))
    assert batch.seqs.to_pylist() == [1, 2, 3]


def test_without_a_loop(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sub = sync_js.pull_subscribe(f"{stream}.>", durable="d", ack_wait=ACK_WAIT)
    fill_sync(sync_js, stream, 8)
    batches = sub.batches(rows=4, seconds=600)
    batch = next(batches)
    assert [msg.data for msg in batch] == numbers(4)
    # A thread sends +WPI to the server.
    client: Any = sync_js._inner._nc
    acks = jetarrow.sync.Subscription(run_to_completion(client.subscribe("$JS.ACK.>")))
    told: list[Any] = []
    while work_goes_on(told, stream) != {1, 2, 3, 4}:
        told.append(acks.next_msg(10))
    batch.ack_sync()
    held = next(batches)
    del batches
    again = sub.fetch_batch(4, min_messages=4, timeout=10)
    assert sorted(again.seqs.to_pylist()) == held.seqs.to_pylist() == [5, 6, 7, 8]
