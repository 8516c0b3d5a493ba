"""Cancelled waits of the `jetarrow.nats` faces lose no message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import jetarrow.nats.client
import jetarrow.nats.jetstream
import pytest
from jetarrow.nats.jetstream import JetStream


@pytest.fixture
async def js(nats_url: str) -> AsyncIterator[JetStream]:
    async with await jetarrow.nats.client.connect(nats_url) as client:
        yield jetarrow.nats.jetstream.new(client)


@pytest.mark.parametrize("ack_policy", ["none", "explicit"])
async def test_batch_cancelled_as_its_messages_arrive_leaves_them_to_the_next_fetch(
    js: JetStream, stream: str, ack_policy: str
) -> None:
    """They have arrived, and the task that waits for them has not run since."""
    consumer = await js.create_consumer(stream, name="c", ack_policy=ack_policy)
    batch = await consumer.fetch(max_messages=2, max_wait=30)
    reading = asyncio.ensure_future(anext(batch))
    # Called before the task that awaits the answer.
    assert batch._answer is not None
    batch._answer.add_done_callback(lambda _: reading.cancel())
    await js.publish(f"{stream}.a", b"1")
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert [message.data async for message in await consumer.fetch(max_messages=1, max_wait=5)] == [b"1"]
