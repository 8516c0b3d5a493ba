"""Request sizes of the iteration over a pull subscription."""

from __future__ import annotations

import asyncio

import jetarrow
import pytest
from jetarrow.aio.client import Client
from jetarrow.jetstream.messages import (
    MAX_LONG_LINK_MESSAGES,
    MAX_REQUEST_MESSAGES,
    REQUEST_MESSAGES,
    SLOW_SECONDS,
    RequestSize,
)
from jetarrow.js.api import ConsumerConfig
from jetarrow.server import NatsServer

from .tools import fill, store


async def requests(nc: Client, stream: str, sizes: list[int]) -> None:
    """Records the sizes of the pull requests to the stream's consumers."""

    async def note(msg: object) -> None:
        sizes.append(int(msg.data.split(b'"batch":')[1].split(b",")[0].rstrip(b"}")))  # type: ignore[attr-defined]

    await nc.subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.>", cb=note)
    await nc.flush()


async def test_request_size_grows_while_messages_are_processed_quickly(nc: Client, stream: str) -> None:
    js, sizes = nc.jetstream(), list[int]()
    await requests(nc, stream, sizes)
    count = 10 * MAX_REQUEST_MESSAGES
    await fill(js, stream, count)
    sub = await js.pull_subscribe(f"{stream}.>", stream=stream, config=ConsumerConfig(ack_policy="none"))
    seqs = []
    async for msg in sub.messages:
        seqs.append(msg.metadata.sequence.stream)
        if len(seqs) == count:
            break
    assert seqs == list(range(1, count + 1))
    assert sizes[0] == REQUEST_MESSAGES
    # The final size depends on the speed of the machine.
    assert REQUEST_MESSAGES < max(sizes) <= MAX_LONG_LINK_MESSAGES


async def test_request_size_is_fixed_if_given(nc: Client, stream: str) -> None:
    js, sizes = nc.jetstream(), list[int]()
    await requests(nc, stream, sizes)
    await fill(js, stream, 500)
    sub = await js.pull_subscribe(f"{stream}.>", stream=stream, config=ConsumerConfig(ack_policy="none"))
    number = 0
    async for _ in sub.consume(50):
        number += 1
        if number == 500:
            break
    assert set(sizes) == {50}


async def test_first_message_arrives_before_request_is_filled(nc: Client, stream: str) -> None:
    """The first message does not wait for others, for any size of the request."""
    js = nc.jetstream()
    count = 20 * REQUEST_MESSAGES
    await fill(js, stream, count)
    sub = await js.pull_subscribe(f"{stream}.>", stream=stream, config=ConsumerConfig(ack_policy="none"))
    messages = aiter(sub.messages)
    for _ in range(count):
        await anext(messages)
    for number in range(20):
        waiting = asyncio.ensure_future(anext(messages))
        await asyncio.sleep(0)
        await js.publish(f"{stream}.a", b"%d" % number)
        assert (await asyncio.wait_for(waiting, 20)).data == b"%d" % number
    await messages.aclose()  # type: ignore[attr-defined]


async def test_large_message_after_small_ones_is_fetched() -> None:
    """The bytes of a request are limited, but not below the largest message."""
    with NatsServer(config="max_payload: 12MB") as server:
        async with await jetarrow.connect(server.url) as nc:
            js = nc.jetstream()
            await js.add_stream(name="S", subjects=["s"])
            await store(js, "s", [b"x"] * 4 * REQUEST_MESSAGES + [bytes(10 << 20), b"last"])
            sub = await js.pull_subscribe("s", stream="S", config=ConsumerConfig(ack_policy="none"))
            async for msg in sub.messages:
                if msg.data == b"last":
                    break


@pytest.mark.parametrize(
    ("came", "took", "then"), [(1, 0.0, 1), (0.5, 0.0, 1), (1, SLOW_SECONDS / 2, 1), (1, 2 * SLOW_SECONDS, 0.5)]
)
def test_request_size_follows_processing_time(came: float, took: float, then: float) -> None:
    """Grows if all arrived and were processed quickly; halves if slowly; not below the first size."""
    size = RequestSize(100, None, None)
    size.record_batch(100, 100, 0.0)
    assert (size.most, size.max_bytes is None, size.ahead) == (800, False, 400)
    size.record_batch(800, int(800 * came), took)
    assert size.most == (6400 if (came, took) == (1, 0.0) else 800 * then)
    for _ in range(8):
        size.record_batch(size.most, size.most, 2 * SLOW_SECONDS)
    assert (size.most, size.max_bytes, size.ahead) == (100, None, 0)


def grown(trip: float, rate: float) -> RequestSize:
    """The size after some requests with a round trip time `trip`, at `rate` processed messages per second."""
    size = RequestSize(REQUEST_MESSAGES, None, None)
    for _ in range(6):
        size.record_wait(trip)
        size.record_batch(size.most, size.most, size.most / rate)
    return size


def test_request_size_grows_with_round_trip_time() -> None:
    far = grown(0.02, 500_000)
    assert far.most == MAX_LONG_LINK_MESSAGES
    # The remaining messages are processed in more than a round trip.
    assert far.ahead >= 0.03 * 500_000
    assert grown(0.001, 500_000).most == MAX_REQUEST_MESSAGES
    # Buffered messages are processed within 0.2 s.
    assert grown(0.1, 10_000).most == 2_000
