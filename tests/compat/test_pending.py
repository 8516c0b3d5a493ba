"""Messages that have arrived are delivered, also after the end of the subscription or the connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .face import Face, arrived, subject

FIVE = [b"0", b"1", b"2", b"3", b"4"]


async def five(nc: Any, **options: Any) -> Any:
    """Return a subscription for which five messages have arrived."""
    sub = await nc.subscribe(where := subject(), **options)
    for data in FIVE:
        await nc.publish(where, data)
    await arrived(sub, 5)
    return sub


async def test_iteration_after_unsubscribe(nc: Any) -> None:
    sub = await five(nc)
    await sub.unsubscribe()
    assert [msg.data async for msg in sub.messages] == FIVE


async def test_unsubscribe_while_iterating(nc: Any) -> None:
    sub = await five(nc)
    got = []
    async for msg in sub.messages:
        if not got:
            await sub.unsubscribe()
        got.append(msg.data)
    assert got == FIVE


async def test_next_msg_after_unsubscribe(face: Face, nc: Any) -> None:
    sub = await five(nc)
    await sub.unsubscribe()
    assert [(await sub.next_msg(timeout=10)).data for _ in FIVE] == FIVE
    assert await face.failure(sub.next_msg(timeout=0.01)) == "errors.TimeoutError"


async def test_iteration_after_close(nc: Any) -> None:
    sub = await five(nc)
    await nc.close()
    assert [msg.data async for msg in sub.messages] == FIVE


async def test_iteration_after_a_limit_below_what_came(nc: Any) -> None:
    sub = await five(nc)
    await sub.unsubscribe(limit=5)
    assert [msg.data async for msg in sub.messages] == FIVE


async def test_unsubscribe_after_the_limit(face: Face, nc: Any) -> None:
    for options in ({}, {"max_msgs": 5}):
        sub = await nc.subscribe(where := subject(), **options)
        await sub.unsubscribe(limit=5)
        for data in FIVE:
            await nc.publish(where, data)
        assert [msg.data async for msg in sub.messages] == FIVE
        failures = [await face.failure(sub.unsubscribe()), await face.failure(sub.unsubscribe())]
        assert failures == ["nothing", "errors.BadSubscriptionError"]


async def test_unsubscribe_after_the_limit_of_a_callback(face: Face, nc: Any) -> None:
    got = []

    async def keep(msg: Any) -> None:
        got.append(msg.data)

    sub = await nc.subscribe(where := subject(), cb=keep)
    await sub.unsubscribe(limit=1)
    await nc.publish(where, b"0")
    await arrived(sub, 1)
    await nc.flush()
    assert (await face.failure(sub.unsubscribe()), got) == ("nothing", [b"0"])


async def test_unsubscribe_after_future_received_its_message(face: Face, nc: Any) -> None:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    sub = await nc.subscribe(where := subject(), future=future)
    await nc.publish(where, b"0")
    assert (await asyncio.wait_for(future, 20)).data == b"0"
    assert await face.failure(sub.unsubscribe()) == "nothing"


@pytest.mark.parametrize("verb", ["drain", "close"])
async def test_code_after_the_end_runs_though_a_callback_stops_the_loop(face: Face, verb: str) -> None:
    came: list[str] = []

    async def gone() -> None:
        await asyncio.sleep(0.01)
        came.append("disconnected")

    async def stop() -> None:
        came.append("closed")
        asyncio.get_running_loop().stop()

    async def leave() -> None:
        nc = await face.nats.connect(face.url, disconnected_cb=gone, closed_cb=stop)
        await getattr(nc, verb)()
        came.append("after")

    def run() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(leave())
        loop.run_forever()
        if not task.done():
            task.cancel()
            loop.run_until_complete(asyncio.wait([task]))
        loop.close()

    await asyncio.to_thread(run)
    assert came == ["disconnected", "closed", "after"]
