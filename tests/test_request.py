"""Core messaging: requests."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import uuid

import pytest
from jetarrow import errors
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg


@pytest.fixture
def subject() -> str:
    return f"core.{uuid.uuid4().hex[:10]}"


async def test_requests(nc: Client, subject: str) -> None:
    async def answer(msg: Msg) -> None:
        await msg.respond(msg.data.upper())

    await nc.subscribe(subject, cb=answer)
    assert (await nc.request(subject, b"one", timeout=30)).data == b"ONE"
    assert (await nc.request(subject, "two", timeout=30)).data == b"TWO"
    assert (await nc.request(subject, b"old", timeout=30, old_style=True)).data == b"OLD"
    many = await asyncio.gather(*(nc.request(subject, b"n%d" % n, timeout=30) for n in range(500)))
    assert [msg.data for msg in many] == [b"N%d" % n for n in range(500)]


async def test_large_payloads_arrive_unchanged_and_are_released(nc: Client, subject: str) -> None:
    """Immutable payloads are sent without a copy, mutable ones are copied."""

    async def answer(msg: Msg) -> None:
        await msg.respond(msg.data)

    await nc.subscribe(subject, cb=answer)
    held = [b"%d" % size + b"x" * size for size in (1 << 14, 100_000)]
    before = [sys.getrefcount(payload) for payload in held]
    assert [(await nc.request(subject, payload, timeout=5)).data for payload in held] == held
    changing = bytearray(b"y" * 50_000)
    asked = asyncio.create_task(nc.request(subject, changing, timeout=5))
    await asyncio.sleep(0)
    changing[:5] = b"other"
    assert (await asked).data == b"y" * 50_000
    assert (await nc.request(subject, "ü" * 20_000, timeout=5)).data == "ü".encode() * 20_000
    assert [sys.getrefcount(payload) for payload in held] == before


@pytest.mark.parametrize("old_style", [False, True])
async def test_requests_that_fail(nc: Client, subject: str, old_style: bool) -> None:
    with pytest.raises(errors.NoRespondersError):
        await nc.request(subject, timeout=30, old_style=old_style)
    await nc.subscribe(subject)
    with pytest.raises(errors.TimeoutError):
        await nc.request(subject, timeout=0.05, old_style=old_style)
    with pytest.raises(asyncio.TimeoutError):
        await nc.request(subject, timeout=0.05, old_style=old_style)


async def test_a_cancelled_request_does_no_harm(nc: Client, subject: str) -> None:
    sub = await nc.subscribe(subject)
    await nc.flush()
    task = asyncio.create_task(nc.request(subject, timeout=5))
    msg = await sub.next_msg(timeout=10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await msg.respond(b"late")
    await nc.flush()


async def cpu_of_cancelling(nc: Client, subject: str, call: str, count: int) -> float:
    """Returns the CPU seconds per call of cancelling `count` calls that wait for an answer."""
    make = {"request": nc.request, "publish": nc.jetstream().publish}[call]
    tasks = [asyncio.ensure_future(make(subject, b"x", timeout=60)) for _ in range(count)]
    await asyncio.sleep(0)
    await nc.flush()
    # The garbage collector's time depends on all other objects of the test process.
    gc.disable()
    try:
        begin = time.process_time()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        took = time.process_time() - begin
    finally:
        gc.enable()
    assert all(task.cancelled() for task in tasks)
    return took / count


@pytest.mark.parametrize("call", ["request", "publish"])
async def test_cancelling_costs_the_same_however_many_wait(nc: Client, subject: str, call: str) -> None:
    # A subscription that does not answer.
    await nc.subscribe(subject)
    few = min([await cpu_of_cancelling(nc, subject, call, 500) for _ in range(5)])
    many = min([await cpu_of_cancelling(nc, subject, call, 8_000) for _ in range(3)])
    # An earlier version took 20 times as long with 10,000.
    assert many < 4 * few, (few, many)
