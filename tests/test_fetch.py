"""Pull consumers: fetch_batch and acknowledging batches."""

from __future__ import annotations

import asyncio
import time

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow import errors
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg
from jetarrow.js import errors as js_errors
from jetarrow.js.api import AckKind, AdvisoryKind
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .tools import fill, store, until


async def unacknowledged(sub: JetStreamContext.PullSubscription, expected: int) -> None:
    """Waits until the server has processed the acks."""

    async def settled() -> bool:
        return (await sub.consumer_info()).num_ack_pending == expected

    await until(settled)


async def test_fetch_batch_default_columns_match_schema(js: JetStreamContext, stream: str) -> None:
    await js.publish(f"{stream}.a", b"one", headers={"H": ["1", "2"]})
    await js.publish(f"{stream}.b", b"two")
    sub = await js.pull_subscribe(f"{stream}.>", durable="d")
    batch = await sub.fetch_batch(10, timeout=10)
    assert len(batch) == 2
    assert batch.schema == pa.schema(
        [
            pa.field("stream", pa.string(), nullable=False),
            pa.field("seq", pa.int64(), nullable=False),
            pa.field("subject", pa.string(), nullable=False),
            pa.field("timestamp", pa.timestamp("ns", "UTC"), nullable=False),
            pa.field("headers", pa.map_(pa.string(), pa.list_(pa.string()))),
            pa.field("data", pa.binary(), nullable=False),
        ]
    )
    first, second = batch
    assert (first.subject, first.data, first.headers_all) == (f"{stream}.a", b"one", {"H": ["1", "2"]})
    assert (first.headers, second.headers) == ({"H": "2"}, None)
    assert (batch[-1].data, batch[-1].reply, batch[-1].seq) == (second.data, second.reply, 2)
    assert first.reply.startswith(f"$JS.ACK.{stream}.d.1.1.1.")
    assert batch.seqs.to_pylist() == [1, 2]
    with pytest.raises(IndexError):
        batch[2]


async def test_fetch_batch_with_columns_returns_only_these(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3)
    sub = await js.pull_subscribe(f"{stream}.>")
    batch = await sub.fetch_batch(3, columns=["pending", "seq", "consumer_seq", "delivered", "reply"])
    table = batch.to_pyarrow().to_pydict()
    assert list(table) == ["pending", "seq", "consumer_seq", "delivered", "reply"]
    assert (table["pending"], table["seq"], table["delivered"]) == ([2, 1, 0], [1, 2, 3], [1, 1, 1])
    with pytest.raises(ValueError, match="consumer_seq"):
        await sub.fetch_batch(1, columns=["nonsense"])


async def test_batch_ack_accepts_all_rows_numbers_and_masks(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 10)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", ack_wait=30)
    batch = await sub.fetch_batch(10, timeout=10)
    await batch.ack([0, 1, -1])
    await unacknowledged(sub, 7)
    await batch.ack([i in (2, 3) for i in range(10)])
    await unacknowledged(sub, 5)
    await batch.term(pa.array([i == 4 for i in range(10)]), reason="bad")
    await batch.in_progress()
    await unacknowledged(sub, 4)
    await batch.nak([5, 6])
    again = await sub.fetch_batch(10, timeout=5, min_messages=2, columns=["seq", "delivered"])
    assert again.to_pyarrow().to_pydict() == {"seq": [6, 7], "delivered": [2, 2]}
    await batch.ack()
    await unacknowledged(sub, 0)
    with pytest.raises(IndexError):
        await batch.ack([10])
    with pytest.raises(ValueError, match="mask"):
        await batch.ack([True])


async def test_fetch_batch_without_messages_returns_empty_batch(js: JetStreamContext, stream: str) -> None:
    sub = await js.pull_subscribe(f"{stream}.>")
    begin = time.monotonic()
    batch = await sub.fetch_batch(10, timeout=3)
    assert 2.9 < time.monotonic() - begin < 30
    assert (len(batch), batch.to_pyarrow().num_rows, batch.schema.names[0]) == (0, 0, "stream")
    await batch.ack()

    async def is_empty() -> bool:
        try:
            return len(await sub.fetch_batch(10, timeout=0)) == 0
        except TimeoutError:
            # The server has a quarter of a second for its answer, which a busy machine may take.
            return False

    await until(is_empty)


async def test_fetch_batch_returns_after_min_messages(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 5)
    sub = await js.pull_subscribe(f"{stream}.>")
    begin = time.monotonic()
    assert len(await sub.fetch_batch(100, timeout=5)) == 5
    assert time.monotonic() - begin < 4
    await fill(js, stream, 2)
    begin = time.monotonic()
    assert len(await sub.fetch_batch(100, timeout=4, min_messages=3)) == 2
    assert time.monotonic() - begin > 3.9


async def test_fetch_batch_at_timeout_leaves_no_waiting_request(js: JetStreamContext, stream: str) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="d")
    await sub.fetch_batch(10, timeout=4, min_messages=10)
    assert (await sub.consumer_info()).num_waiting == 0
    await fill(js, stream, 3)
    other = await js.pull_subscribe(f"{stream}.>", durable="d")
    assert len(await other.fetch_batch(10, timeout=10)) == 3


async def test_fetch_batch_ends_at_max_bytes(js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", [bytes(1_000)] * 10)
    sub = await js.pull_subscribe(f"{stream}.>")
    batch = await sub.fetch_batch(10, max_bytes=3_500, timeout=10)
    assert 0 < len(batch) <= 3
    with pytest.raises(ValueError, match="max_bytes=100"):
        await sub.fetch_batch(10, max_bytes=100, timeout=10)
    assert len(await sub.fetch_batch(10, timeout=10)) == 10 - len(batch)


@pytest.mark.parametrize("verb", ["fetch", "fetch_batch"])
async def test_request_filled_to_last_byte_ends_at_once(js: JetStreamContext, stream: str, verb: str) -> None:
    """The server sends no status for a request whose messages fill `max_bytes` to the last byte."""
    await store(js, f"{stream}.a", [bytes(1_000)] * 10)
    first, second = [await js.pull_subscribe(f"{stream}.>", durable=name) for name in "ab"]
    # Ack subjects contain the consumer's name, so names of one length give messages of equal size.
    sizes = [len(msg.subject) + len(msg.reply) + len(msg.data) for msg in await first.fetch(10, timeout=10)]
    begin = time.monotonic()
    messages = await getattr(second, verb)(10, max_bytes=sum(sizes[:4]), timeout=60)
    assert time.monotonic() - begin < 30
    assert len(messages) == 4
    assert len(await getattr(second, verb)(10, timeout=10)) == 6


async def test_fetch_batch_of_large_messages_returns_all(js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", [bytes(32 * 1024)] * 1_500)
    sub = await js.pull_subscribe(f"{stream}.>", ack_policy="none")
    batch = await sub.fetch_batch(10_000, timeout=10, min_messages=1_500, columns=["seq"])
    assert batch.seqs.to_pylist() == list(range(1, 1_501))


async def test_fetch_batch_rejects_deleted_consumer_and_invalid_limits(js: JetStreamContext, stream: str) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="d")
    for wrong in (
        {"max_messages": 0},
        {"max_bytes": 0},
        {"timeout": -1.0},
        {"max_messages": 1, "min_messages": 2},
    ):
        with pytest.raises(ValueError, match=r"max_messages|max_bytes|timeout|min_messages"):
            await sub.fetch_batch(**wrong)  # type: ignore[arg-type]
    assert await js.delete_consumer(stream, "d")
    begin = time.monotonic()
    with pytest.raises(js_errors.NotFoundError):
        await sub.fetch_batch(1, timeout=5)
    assert time.monotonic() - begin < 4
    with pytest.raises(js_errors.NotFoundError):
        await js.pull_subscribe("nobody.listens")


def test_sync_fetch_batch_and_acks_work(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sync_js.publish_batch(f"{stream}.a", ["x"] * 10)
    sub = sync_js.pull_subscribe(f"{stream}.>", durable="d")
    batch = sub.fetch_batch(10, timeout=10)
    assert [msg.data for msg in batch] == [b"x"] * 10
    batch.ack([0])
    batch.nak([1])
    batch.in_progress()
    batch.ack_sync([2, 3])
    assert sub.consumer_info().num_ack_pending <= 8
    assert len(sub.fetch_batch(10, timeout=10)) == 1
    msg = sync_js.pull_subscribe(f"{stream}.>").fetch(batch_size=3, timeout=10)[0]
    assert (msg.data, msg.seq, msg.redelivered, msg.metadata.stream) == (b"x", 1, False, stream)
    msg.ack_sync(timeout=20)
    with pytest.raises(errors.MsgAlreadyAckdError):
        msg.ack()
    messages = sync_js.pull_subscribe(f"{stream}.>").messages()
    assert [next(messages).seq for _ in range(10)] == list(range(1, 11))


async def test_fetch_returns_list_of_messages(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 5)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d")
    (first,) = await sub.fetch()
    assert (first.subject, first.data, first.headers, first.seq) == (f"{stream}.a", b"1", None, 1)
    meta = first.metadata
    assert (meta.sequence.stream, meta.sequence.consumer, meta.num_pending, meta.num_delivered) == (1, 1, 4, 1)
    assert (meta.stream, meta.consumer, meta.timestamp_ns // 1000) == (stream, "d", meta.timestamp.timestamp() * 1e6)
    assert [len(await sub.fetch(batch_size=2)), len(await sub.fetch(max_messages=10, timeout=10))] == [2, 2]
    assert await sub.fetch(10, no_wait=True) == []
    with pytest.raises(js_errors.FetchTimeoutError):
        await sub.fetch(10, timeout=0.2)
    with pytest.raises(asyncio.TimeoutError):
        await sub.fetch(10, timeout=0.05)
    with pytest.raises(TypeError, match="batch_size"):
        await sub.fetch(1, batch_size=1)


async def test_single_messages_are_acknowledged(nc: Client, js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 5)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", ack_wait=30)
    one, two, three, four, five = await sub.fetch(5)
    await one.ack()
    await two.ack_sync(timeout=20)
    await three.term("bad")
    await four.in_progress()
    await four.nak()
    with pytest.raises(errors.MsgAlreadyAckdError):
        await one.ack()
    # As in nats-py: in_progress after the ack does not raise an error in a task that extends the ack wait.
    await four.in_progress()
    await unacknowledged(sub, 2)
    (again,) = await sub.fetch(5, timeout=10)
    assert (again.seq, again.redelivered, again.metadata.num_delivered) == (4, True, 2)
    await five.nak(delay=0.1)
    (delayed,) = await sub.fetch(5, timeout=10)
    assert delayed.seq == 5
    with pytest.raises(errors.NotJSMessageError):
        await Msg(nc, "a", data=b"c").ack()


async def test_ack_with_accepts_each_kind(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 4)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", ack_wait=30)
    one, two, three, four = await sub.fetch(4)
    await one.ack_with(AckKind.ACK)
    await two.ack_with("term", reason="bad")
    await three.ack_with("-NAK")
    await four.ack_with(AckKind.PROGRESS)
    await four.working()
    await unacknowledged(sub, 2)
    (again,) = await sub.fetch(4, timeout=10)
    assert (again.seq, again.info.num_delivered) == (3, 2)
    for wrong in (AdvisoryKind.API, "NOPE", None, b"+ACK"):
        with pytest.raises(ValueError, match="is not a valid AckKind; valid are '\\+ACK', '-NAK', '\\+WPI', '\\+TERM'"):
            await four.ack_with(wrong)  # type: ignore[arg-type]


async def test_messages_iteration_continues_with_new_messages(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 600)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d")
    seen = []
    async for msg in sub.messages():
        seen.append(msg.seq)
        await msg.ack()
        if len(seen) == 600:
            await js.publish(f"{stream}.a", b"one more")
        if len(seen) == 601:
            break
    assert seen == list(range(1, 602))
    await unacknowledged(sub, 0)


async def test_batch_ack_sync_raises_timeout_without_confirmation(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        (await js.publish_batch("s.a", [b"x"] * 3_000)).raise_for_errors()
        sub = await js.pull_subscribe("s.>", durable="d", max_ack_pending=10_000)
        batch = await sub.fetch_batch(3_000)
        await batch.ack_sync(range(2_000))
        assert (await sub.consumer_info()).num_ack_pending == 1_000
        own_server.pause()
        with pytest.raises(errors.TimeoutError, match="1000 of 1000 acks"):
            await batch.ack_sync(range(2_000, 3_000), timeout=0.3)
        own_server.resume()
        await unacknowledged(sub, 0)


@pytest.mark.parametrize("threshold", [None, 0, 1, 100])
async def test_consume_yields_all_and_returns_prefetched_messages(
    js: JetStreamContext, stream: str, threshold: int | None
) -> None:
    await fill(js, stream, 1_000)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", max_ack_pending=5_000)
    seen = []
    messages = sub.consume(100, threshold=threshold, max_bytes=50_000)
    iterator = aiter(messages)
    async for msg in iterator:
        seen.append(msg.seq)
        await msg.ack()
        if len(seen) == 950:
            break
    await iterator.aclose()  # type: ignore[attr-defined]
    assert seen == list(range(1, 951))
    # Prefetched messages are delivered again.
    rest = await sub.fetch_batch(100, timeout=5, min_messages=50)
    assert sorted(seq or 0 for seq in rest.seqs.to_pylist()) == list(range(951, 1_001))


async def test_fetch_at_max_ack_pending_leaves_no_waiting_request(js: JetStreamContext, stream: str) -> None:
    """The server keeps a request at the limit without a status: it would consume messages after the next ack."""
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", max_ack_pending=2)
    for _ in range(10):
        await fill(js, stream, 4)
        held = await sub.fetch(4, timeout=10)
        assert len(held) == 2
        assert (await sub.consumer_info()).num_waiting == 0
        for msg in held:
            await msg.ack()
        rest = [msg for _ in range(2) for msg in await sub.fetch(1, timeout=5)]
        assert [msg.seq for msg in rest] == [held[-1].seq + 1, held[-1].seq + 2]
        assert [msg.metadata.num_delivered for msg in rest] == [1, 1]
        for msg in rest:
            await msg.ack_sync(timeout=5)
