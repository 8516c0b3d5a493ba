"""A message that waits for room in the socket is not in flight: it is neither unconfirmed nor reported as sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import jetarrow
import pytest
from jetarrow.errors import TimeoutError
from jetarrow.jetstream.errors import PublishUnconfirmedError
from jetarrow.server import NatsServer

from .tools import until

# 50 MB, far more than the buffers of both sockets and the client's write buffer.
PAYLOADS = [bytes(256 * 1024)] * 200
WINDOW = {"max_inflight": 1_000, "max_bytes": 1 << 30}


@pytest.fixture
async def nc(own_server: NatsServer) -> AsyncIterator[jetarrow.Client]:
    async with await jetarrow.connect(own_server.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s.>"], storage="memory")
        yield nc


async def written(nc: jetarrow.Client, before: int) -> int:
    """Waits until the socket takes no more, and returns the messages written since there were `before`."""
    seen: list[int] = []

    def is_stuck() -> bool:
        seen.append(nc.stats["out_msgs"])
        return seen[-1] > before and len(seen) >= 100 and len(set(seen[-100:])) == 1

    await until(is_stuck)
    return seen[-1] - before


def assert_timed_out(errors: Sequence[object], sent: int) -> None:
    assert {type(error) for error in errors} == {TimeoutError}
    assert len(errors) == len(PAYLOADS)
    assert [row for row, error in enumerate(errors) if "it was sent" in str(error)] == list(range(sent))


async def test_disconnect_resends_the_unwritten_row(nc: jetarrow.Client, own_server: NatsServer) -> None:
    own_server.pause()
    before = nc.stats["out_msgs"]
    try:
        batch = asyncio.ensure_future(nc.jetstream().publish_batch("s.a", PAYLOADS, timeout=60, **WINDOW))
        sent = await written(nc, before)
        await nc._session.run(nc._session.native.force_reconnect())
        await until(lambda: not nc.is_connected)
    finally:
        own_server.resume()
    outcome = await batch
    assert {type(failed.error) for failed in outcome.errors} == {PublishUnconfirmedError}
    assert 0 < sent < len(PAYLOADS)
    assert [failed.row for failed in outcome.errors] == list(range(sent))


async def test_silence_ends_the_unwritten_row_as_not_sent(nc: jetarrow.Client, own_server: NatsServer) -> None:
    own_server.pause()
    before = nc.stats["out_msgs"]
    try:
        batch = asyncio.ensure_future(nc.jetstream().publish_batch("s.a", PAYLOADS, timeout=3, **WINDOW))
        sent = await written(nc, before)
        outcome = await batch
    finally:
        own_server.resume()
    assert_timed_out([failed.error for failed in outcome.errors], sent)


async def test_timeout_ends_the_unwritten_message_as_not_sent(nc: jetarrow.Client, own_server: NatsServer) -> None:
    own_server.pause()
    before = nc.stats["out_msgs"]
    try:
        publisher = nc.jetstream().publisher("s.a", ack_timeout=3, **WINDOW)
        acks = [await publisher.publish(payload) for payload in PAYLOADS]
        sent = await written(nc, before)
        errors = await asyncio.gather(*acks, return_exceptions=True)
    finally:
        own_server.resume()
    assert_timed_out(errors, sent)
