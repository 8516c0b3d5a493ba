"""Core messaging: requests."""

from __future__ import annotations

import asyncio
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
    assert (await nc.request(subject, b"one")).data == b"ONE"
    assert (await nc.request(subject, "two")).data == b"TWO"
    assert (await nc.request(subject, b"old", old_style=True)).data == b"OLD"
    many = await asyncio.gather(*(nc.request(subject, b"n%d" % n, timeout=5) for n in range(500)))
    assert [msg.data for msg in many] == [b"N%d" % n for n in range(500)]


@pytest.mark.parametrize("old_style", [False, True])
async def test_requests_that_fail(nc: Client, subject: str, old_style: bool) -> None:
    with pytest.raises(errors.NoRespondersError):
        await nc.request(subject, old_style=old_style)
    await nc.subscribe(subject)
    with pytest.raises(errors.TimeoutError):
        await nc.request(subject, timeout=0.05, old_style=old_style)
    with pytest.raises(asyncio.TimeoutError):
        await nc.request(subject, timeout=0.05, old_style=old_style)


async def test_a_cancelled_request_does_no_harm(nc: Client, subject: str) -> None:
    sub = await nc.subscribe(subject)
    await nc.flush()
    task = asyncio.create_task(nc.request(subject, timeout=5))
    msg = await sub.next_msg()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await msg.respond(b"late")
    await nc.flush()
