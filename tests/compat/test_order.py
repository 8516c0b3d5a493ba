"""A connection sends the operations of all tasks in the order of the calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ..tools import settle
from .face import Collector, Face, make_stream, subject


async def test_a_publish_does_not_overtake_another_tasks_subscribe(nc: Any) -> None:
    got = []
    for number in range(20):
        sub, _ = await asyncio.gather(nc.subscribe(where := subject()), nc.publish(where, b"%d" % number))
        got.append((await sub.next_msg(timeout=5)).data)
    assert got == [b"%d" % number for number in range(20)]


async def test_a_request_does_not_overtake_an_unsubscribe(face: Face, nc: Any) -> None:
    kinds = set()
    for _ in range(20):
        sub = await nc.subscribe(where := subject())
        _, failure = await asyncio.gather(sub.unsubscribe(), face.failure(nc.request(where, timeout=5)))
        kinds.add(failure)
    assert kinds == {"errors.NoRespondersError"}


async def test_a_publish_does_not_overtake_the_first_request(face: Face) -> None:
    client, service = await face.connect(), await face.connect()
    where, got = subject(), Collector()

    async def serve(msg: Any) -> None:
        got.add(msg)
        if msg.reply:
            await msg.respond(b"")

    await service.subscribe(f"{where}.*", cb=serve)
    await settle(service)
    await asyncio.gather(client.request(f"{where}.first", timeout=5), client.publish(f"{where}.second"))
    assert [msg.subject for msg in await got.wait(2)] == [f"{where}.first", f"{where}.second"]


async def test_a_publish_does_not_overtake_a_limit(nc: Any) -> None:
    for _ in range(20):
        sub = await nc.subscribe(where := subject())
        await asyncio.gather(sub.unsubscribe(limit=2), *(nc.publish(where, b"%d" % number) for number in range(4)))
        assert [msg.data async for msg in sub.messages] == [b"0", b"1"]


@pytest.mark.parametrize("window", [1, 7, None])
async def test_a_publish_does_not_overtake_a_publish_async(face: Face, window: int | None) -> None:
    """Core publishes and publish_async keep their order, also if publish_async waits for space in its window."""
    nc, other, got = await face.connect(), await face.connect(), Collector()
    js = nc.jetstream(**({} if window is None else {"publish_async_max_pending": window}))
    where = subject()
    await make_stream(js, subjects=[f"{where}.stored"])
    await other.subscribe(f"{where}.*", cb=got.callback)
    await settle(other)
    for number in range(300):
        if number % 3:
            await nc.publish(f"{where}.core", b"%d" % number)
        else:
            await js.publish_async(f"{where}.stored", b"%d" % number)
        if number % 50 == 0:
            # Another iteration of the loop, in which the published messages are sent.
            await asyncio.sleep(0)
    await js.publish_async_completed()
    await settle(nc)
    await got.wait(300)
    assert [int(data) for data in got.data] == list(range(300))
