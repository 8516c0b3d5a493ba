"""`sub.batches(rows=, seconds=, bytes=)`: what is held is kept from redelivery, and let go at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.batch import MessageBatch
from jetarrow.core.session import run_to_completion
from jetarrow.jetstream.batch_collector import ConcatenatedBatch, HeldBatch, PendingAcks
from jetarrow.js.client import JetStreamContext

from .tools import fill, fill_sync, numbers, store, until

# Seconds; half of it is how often the server is told.
ACK_WAIT = 3.0


async def subscribed(js: JetStreamContext, stream: str, **config: Any) -> Any:
    return await js.pull_subscribe(f"{stream}.>", durable="d", **config)


def payloads(batch: Any) -> list[bytes]:
    return batch.to_pyarrow()["data"].to_pylist()


async def test_so_many_rows(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 25)
    sub = await subscribed(js, stream)
    sizes = []
    batches = sub.batches(rows=10, seconds=1)
    async for batch in batches:
        sizes.append(len(batch))
        await batch.ack_sync()
        if sum(sizes) == 25:
            break
    await batches.aclose()
    assert sizes == [10, 10, 5]
    info = await sub.consumer_info()
    assert (info.ack_floor.stream_seq, info.num_ack_pending, info.num_redelivered) == (25, 0, 0)


async def test_so_many_bytes(js: JetStreamContext, stream: str) -> None:
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
    """The sequences of which the server is told so; `$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>...`."""
    told = (msg.subject.partition(f".{stream}.d.")[2].split(".") for msg in acks if msg.data == b"+WPI")
    return {int(tokens[1]) for tokens in told if len(tokens) > 1}


async def test_what_is_held_is_kept(js: JetStreamContext, stream: str) -> None:
    """While it gathers, and while the program works, the server is told that work goes on."""
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
    """It is as one of one fetch."""
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


async def test_what_is_not_acknowledged_is_let_go_at_once(js: JetStreamContext, stream: str) -> None:
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
    # Those that it gathered, and those of the batch that were not acknowledged.
    again = await sub.fetch_batch(6, min_messages=6, timeout=10)
    assert sorted(again.seqs.to_pylist()) == [2, 3, 4, 5, 6, 7]


async def _ack_pending(sub: Any, count: int) -> bool:
    return (await sub.consumer_info()).num_ack_pending == count


async def test_a_batch_thrown_away_comes_again(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 1)
    sub = await subscribed(js, stream, ack_wait=0.5)
    batches = sub.batches(rows=1, seconds=60)
    first, second = [(await anext(batches))[0].metadata.num_delivered for _ in range(2)]
    assert first == 1 < second
    await batches.aclose()


async def test_the_end_of_the_subscription(js: JetStreamContext, stream: str) -> None:
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


async def test_no_more_than_the_consumer_gives(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 9)
    sub = await subscribed(js, stream, max_ack_pending=4)
    batches = sub.batches(rows=100, seconds=60)
    batch = await anext(batches)
    assert len(batch) == 4
    await batch.ack_sync()
    assert (await anext(batches)).seqs.to_pylist() == [5, 6, 7, 8]
    await batches.aclose()


async def test_of_a_consumer(js: JetStreamContext, stream: str) -> None:
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
    # A thread tells the server that work goes on.
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
