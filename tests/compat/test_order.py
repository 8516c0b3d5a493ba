"""What is asked of a connection goes out in the order in which it was asked, whichever task asks."""

from __future__ import annotations

import asyncio
from typing import Any

from .face import Collector, Face, subject


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
    await service.flush()
    await asyncio.gather(client.request(f"{where}.first", timeout=5), client.publish(f"{where}.second"))
    assert [msg.subject for msg in await got.wait(2)] == [f"{where}.first", f"{where}.second"]


async def test_a_publish_does_not_overtake_a_limit(nc: Any) -> None:
    for _ in range(20):
        sub = await nc.subscribe(where := subject())
        await asyncio.gather(sub.unsubscribe(limit=2), *(nc.publish(where, b"%d" % number) for number in range(4)))
        assert [msg.data async for msg in sub.messages] == [b"0", b"1"]
