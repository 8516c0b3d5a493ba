"""Callbacks of several subscriptions of a connection begin in the order in which their messages arrived."""

from __future__ import annotations

import asyncio
from typing import Any

from ..tools import settle
from .face import Collector, Face, subject

ROUNDS = ["ab", "ab", "ba"] * 20


async def publish_in_rounds(face: Face, nc: Any, where: str, got: Collector) -> None:
    """Publish to both subscriptions in the order of each round, and wait until both callbacks began."""
    other = await face.connect()
    await settle(nc)
    for number, order in enumerate(ROUNDS, 1):
        for name in order:
            await other.publish(f"{where}.{name}")
        await other.flush()
        await got.wait(2 * number)
        # Afterwards both wait for the next message.
        await nc.flush()


async def test_callbacks_begin_in_arrival_order(face: Face, nc: Any) -> None:
    """The callback whose message arrives first begins first, independent of the order of the subscriptions."""
    where, got = subject(), Collector()

    async def begin(msg: Any) -> None:
        got.add(msg.subject[-1])

    for name in "ab":
        await nc.subscribe(f"{where}.{name}", cb=begin)
    await publish_in_rounds(face, nc, where, got)
    assert "".join(got.all) == "".join(ROUNDS)


async def test_iterations_resume_in_arrival_order(face: Face, nc: Any) -> None:
    """Iterations of several subscriptions resume in the order in which their messages arrived."""
    where, got = subject(), Collector()

    async def iterate(sub: Any) -> None:
        async for msg in sub.messages:
            got.add(msg.subject[-1])

    tasks = [asyncio.create_task(iterate(await nc.subscribe(f"{where}.{name}"))) for name in "ab"]
    await publish_in_rounds(face, nc, where, got)
    assert "".join(got.all) == "".join(ROUNDS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_callback_that_has_not_ended_does_not_hold_up_the_others(face: Face, nc: Any) -> None:
    other, where, got = await face.connect(), subject(), Collector()
    may_end = asyncio.Event()

    async def begin(msg: Any) -> None:
        got.add(int(msg.subject.rpartition(".")[2]))
        await may_end.wait()

    for number in range(20):
        await nc.subscribe(f"{where}.{number}", cb=begin)
    await settle(nc)
    order = [number * 7 % 20 for number in range(20)]
    for number in order:
        await other.publish(f"{where}.{number}")
    await other.flush()
    assert await got.wait(20) == order
    may_end.set()
