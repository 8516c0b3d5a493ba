"""Pull consumers: fetch_batch and acknowledging batches."""

from __future__ import annotations

import time

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext


async def publish(js: JetStreamContext, stream: str, count: int, size: int = 10) -> None:
    (await js.publish_batch(f"{stream}.a", [bytes(size)] * count)).raise_for_errors()


async def test_rows_and_schema(js: JetStreamContext, stream: str) -> None:
    await js.publish(f"{stream}.a", b"one", headers={"H": ["1", "2"]})
    await js.publish(f"{stream}.b", b"two")
    sub = await js.pull_subscribe(f"{stream}.>", durable="d")
    batch = await sub.fetch_batch(10, timeout=1)
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
    assert batch[-1] == second
    assert first.reply.startswith(f"$JS.ACK.{stream}.d.1.1.1.")
    assert batch.seqs.to_pylist() == [1, 2]
    with pytest.raises(IndexError):
        batch[2]


async def test_columns_on_request(js: JetStreamContext, stream: str) -> None:
    await publish(js, stream, 3)
    sub = await js.pull_subscribe(f"{stream}.>")
    batch = await sub.fetch_batch(3, columns=["pending", "seq", "consumer_seq", "delivered", "reply"])
    table = batch.to_pyarrow().to_pydict()
    assert list(table) == ["pending", "seq", "consumer_seq", "delivered", "reply"]
    assert (table["pending"], table["seq"], table["delivered"]) == ([2, 1, 0], [1, 2, 3], [1, 1, 1])
    with pytest.raises(ValueError, match="consumer_seq"):
        await sub.fetch_batch(1, columns=["nonsense"])


async def test_ack_all_rows_masks_and_kinds(js: JetStreamContext, stream: str) -> None:
    await publish(js, stream, 10)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", ack_wait=30)
    batch = await sub.fetch_batch(10, timeout=1)
    await batch.ack([0, 1, -1])
    assert (await sub.consumer_info()).num_ack_pending == 7
    await batch.ack([i in (2, 3) for i in range(10)])
    assert (await sub.consumer_info()).num_ack_pending == 5
    await batch.term(pa.array([i == 4 for i in range(10)]), reason="bad")
    await batch.in_progress()
    assert (await sub.consumer_info()).num_ack_pending == 4
    await batch.nak([5, 6])
    again = await sub.fetch_batch(10, timeout=0.5, min_messages=2, columns=["seq", "delivered"])
    assert again.to_pyarrow().to_pydict() == {"seq": [6, 7], "delivered": [2, 2]}
    await batch.ack()
    info = await sub.consumer_info()
    assert (info.num_ack_pending, info.num_pending) == (0, 0)
    with pytest.raises(IndexError):
        await batch.ack([10])
    with pytest.raises(ValueError, match="mask"):
        await batch.ack([True])


async def test_empty_batch_is_a_value(js: JetStreamContext, stream: str) -> None:
    sub = await js.pull_subscribe(f"{stream}.>")
    begin = time.monotonic()
    batch = await sub.fetch_batch(10, timeout=0.3)
    assert 0.2 < time.monotonic() - begin < 1
    assert (len(batch), batch.to_pyarrow().num_rows, batch.schema.names[0]) == (0, 0, "stream")
    await batch.ack()
    assert len(await sub.fetch_batch(10, timeout=0)) == 0


async def test_min_messages_are_waited_for_and_no_more(js: JetStreamContext, stream: str) -> None:
    await publish(js, stream, 5)
    sub = await js.pull_subscribe(f"{stream}.>")
    begin = time.monotonic()
    assert len(await sub.fetch_batch(100, timeout=5)) == 5
    assert time.monotonic() - begin < 1
    await publish(js, stream, 2)
    begin = time.monotonic()
    assert len(await sub.fetch_batch(100, timeout=0.4, min_messages=3)) == 2
    assert time.monotonic() - begin > 0.3


async def test_no_request_is_left_behind(js: JetStreamContext, stream: str) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="d")
    await sub.fetch_batch(10, timeout=0.1, min_messages=10)
    assert (await sub.consumer_info()).num_waiting == 0
    await publish(js, stream, 3)
    other = await js.pull_subscribe(f"{stream}.>", durable="d")
    assert len(await other.fetch_batch(10, timeout=1)) == 3


async def test_max_bytes(js: JetStreamContext, stream: str) -> None:
    await publish(js, stream, 10, size=1_000)
    sub = await js.pull_subscribe(f"{stream}.>")
    batch = await sub.fetch_batch(10, max_bytes=3_500, timeout=2)
    assert 0 < len(batch) <= 3
    with pytest.raises(ValueError, match="max_bytes=100"):
        await sub.fetch_batch(10, max_bytes=100, timeout=2)
    assert len(await sub.fetch_batch(10, timeout=1)) == 10 - len(batch)


async def test_large_fetch_of_large_messages(js: JetStreamContext, stream: str) -> None:
    await publish(js, stream, 1_500, size=32 * 1024)
    sub = await js.pull_subscribe(f"{stream}.>", ack_policy="none")
    batch = await sub.fetch_batch(10_000, timeout=10, min_messages=1_500, columns=["seq"])
    assert batch.seqs.to_pylist() == list(range(1, 1_501))


async def test_gone_consumer_and_wrong_limits(js: JetStreamContext, stream: str) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", max_request_batch=5)
    with pytest.raises(js_errors.APIError, match="MaxRequestBatch"):
        await sub.fetch_batch(6, timeout=1)
    for wrong in (
        {"max_messages": 0},
        {"max_bytes": 0},
        {"timeout": -1.0},
        {"max_messages": 1, "min_messages": 2},
    ):
        with pytest.raises(ValueError, match=r"max_messages|max_bytes|timeout|min_messages"):
            await sub.fetch_batch(**wrong)  # type: ignore[arg-type]
    await js._api(f"CONSUMER.DELETE.{stream}.d")
    begin = time.monotonic()
    with pytest.raises(js_errors.NotFoundError):
        await sub.fetch_batch(1, timeout=5)
    assert time.monotonic() - begin < 2
    with pytest.raises(js_errors.NotFoundError):
        await js.pull_subscribe("nobody.listens")


def test_sync_twin(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sync_js.publish_batch(f"{stream}.a", ["x"] * 10)
    sub = sync_js.pull_subscribe(f"{stream}.>", durable="d")
    batch = sub.fetch_batch(10, timeout=1)
    assert [msg.data for msg in batch] == [b"x"] * 10
    batch.ack([0])
    batch.nak([1])
    batch.in_progress()
    assert sub.consumer_info().num_ack_pending == 9
    assert len(sub.fetch_batch(10, timeout=1)) == 1
