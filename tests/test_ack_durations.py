"""Durations of acknowledgements: seconds or a timedelta, on messages and batches of both faces."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import jetarrow.sync
import pytest
from jetarrow import Client
from jetarrow.aio.msg import Msg
from jetarrow.js.client import JetStreamContext

from .tools import fill, fill_sync

DELAYS = [0.4, timedelta(seconds=0.4)]
AT_ONCE = [None, 0, 0.0, timedelta(0)]


async def nak_message(sub: Any, delay: Any) -> None:
    await (await sub.fetch(1))[0].nak(delay=delay)


async def nak_by_kind(sub: Any, delay: Any) -> None:
    await (await sub.fetch(1))[0].ack_with("nak", delay=delay)


async def nak_batch(sub: Any, delay: Any) -> None:
    await (await sub.fetch_batch(1)).nak(delay=delay)


async def nak_row(sub: Any, delay: Any) -> None:
    await (await sub.fetch_batch(1)).nak([0], delay=delay)


async def nak_held_batch(sub: Any, delay: Any) -> None:
    async for batch in sub.batches(rows=1, seconds=5):
        await batch.nak(delay=delay)
        break


VERBS = [nak_message, nak_by_kind, nak_batch, nak_row, nak_held_batch]


@pytest.mark.parametrize("delay", DELAYS, ids=repr)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
async def test_nak_redelivers_after_its_delay(
    js: JetStreamContext, stream: str, verb: Callable[[Any, Any], Awaitable[None]], delay: Any
) -> None:
    await fill(js, stream, 1)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", ack_wait=60)
    begin = time.monotonic()
    await verb(sub, delay)
    (again,) = await sub.fetch(1, timeout=5)
    assert again.redelivered
    assert 0.35 <= time.monotonic() - begin < 5


@pytest.mark.parametrize("delay", AT_ONCE, ids=repr)
@pytest.mark.parametrize("verb", VERBS[:4], ids=lambda verb: verb.__name__)
async def test_nak_without_delay_redelivers_at_once(
    js: JetStreamContext, stream: str, verb: Callable[[Any, Any], Awaitable[None]], delay: Any
) -> None:
    await fill(js, stream, 1)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", ack_wait=60)
    await verb(sub, delay)
    (again,) = await sub.fetch(1, timeout=5)
    assert again.redelivered


@pytest.mark.parametrize("delay", DELAYS, ids=repr)
def test_blocking_nak_redelivers_after_its_delay(sync_js: jetarrow.sync.JetStream, stream: str, delay: Any) -> None:
    fill_sync(sync_js, stream, 3)
    sub = sync_js.pull_subscribe(f"{stream}.>", durable="d", ack_wait=60)
    begin = time.monotonic()
    sub.fetch(1)[0].nak(delay=delay)
    sub.fetch(1)[0].ack_with("nak", delay=delay)
    sub.fetch_batch(1).nak(delay=delay)
    came = 0
    while came < 3:
        came += len(sub.fetch(3 - came, timeout=5))
    assert 0.35 <= time.monotonic() - begin < 5


async def test_ack_sync_takes_a_timedelta(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", ack_wait=60)
    await (await sub.fetch(1))[0].ack_sync(timeout=timedelta(seconds=5))  # type: ignore[misc]
    await (await sub.fetch_batch(1)).ack_sync(timeout=timedelta(seconds=5))
    async for batch in sub.batches(rows=1, seconds=5):
        await batch.ack_sync(timeout=timedelta(seconds=5))
        break
    assert (await sub.consumer_info()).ack_floor.stream_seq == 3  # type: ignore[union-attr]


def test_blocking_ack_sync_takes_a_timedelta(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 2)
    sub = sync_js.pull_subscribe(f"{stream}.>", durable="d", ack_wait=60)
    sub.fetch(1)[0].ack_sync(timeout=timedelta(seconds=5))
    sub.fetch_batch(1).ack_sync(timeout=timedelta(seconds=5))
    assert sub.consumer_info().ack_floor.stream_seq == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("delay", ["1h", [1], object()])
async def test_other_delays_are_refused_and_the_message_stays_unacknowledged(
    js: JetStreamContext, stream: str, delay: Any
) -> None:
    await fill(js, stream, 1)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", ack_wait=60)
    (msg,) = await sub.fetch(1)
    with pytest.raises(TypeError, match="delay must be a number of seconds, a timedelta"):
        await msg.nak(delay=delay)
    with pytest.raises(ValueError, match="delay"):
        await msg.nak(delay=timedelta(seconds=-1))
    assert not msg.is_acked
    await msg.ack()


async def test_nak_through_another_client_takes_a_timedelta(nc: Client) -> None:
    """A message that a program made with a client that is not ours goes through that client's `publish`."""

    sent: list[tuple[str, bytes]] = []

    class Other:
        async def publish(self, subject: str, payload: bytes = b"") -> None:
            sent.append((subject, payload))

    await Msg(Other(), "a", "reply").nak(delay=timedelta(milliseconds=1500))
    assert sent == [("reply", b'-NAK {"delay": 1500000000}')]
