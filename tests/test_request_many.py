"""Requests with many answers (ADR-47)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import jetarrow.sync
import pytest
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg
from jetarrow.errors import ConnectionClosedError, NoRespondersError


@pytest.fixture
async def service(nc: Client) -> str:
    """A subject where every request gets 0, 1 and 2, then nothing, as four answers."""
    subject = nc.new_inbox()

    async def answer(msg: Msg) -> None:
        for data in (b"0", b"1", b"2", b""):
            await msg.respond(data)

    await nc.subscribe(subject, cb=answer)
    await nc.flush()
    return subject


async def data(answers: AsyncIterator[Msg]) -> list[bytes]:
    return [msg.data async for msg in answers]


async def test_how_it_ends(nc: Client, service: str) -> None:
    all_of_them = [b"0", b"1", b"2", b""]
    began = time.monotonic()
    assert await data(nc.request_many(service, timeout=60, sentinel=True)) == all_of_them[:3]
    assert await data(nc.request_many(service, timeout=60, sentinel=lambda msg: msg.data == b"1")) == [b"0"]
    assert await data(nc.request_many(service, timeout=60, max_messages=2)) == all_of_them[:2]
    assert await data(nc.request_many(service, timeout=60, max_messages=4)) == all_of_them
    assert await data(nc.request_many(service, timeout=60, stall=4)) == all_of_them
    assert time.monotonic() - began < 60
    assert await data(nc.request_many(service, b"x", timeout=6)) == all_of_them


async def test_what_is_sent(nc: Client) -> None:
    subject = nc.new_inbox()
    sub = await nc.subscribe(subject)
    answers = nc.request_many(subject, "text", headers={"A": "1"}, max_messages=1, timeout=60)
    first = anext(answers)

    async def respond() -> None:
        msg = await sub.next_msg(5)
        assert (msg.data, msg.headers) == (b"text", {"A": "1"})
        await msg.respond(b"answer")

    answered, _ = await asyncio.gather(first, respond())
    assert answered.data == b"answer"
    await answers.aclose()  # type: ignore[attr-defined]


async def test_nobody_listens(nc: Client) -> None:
    with pytest.raises(NoRespondersError):
        await data(nc.request_many(nc.new_inbox(), timeout=60))


@pytest.mark.parametrize("options", [{"timeout": 0}, {"max_messages": 0}, {"stall": -1}])
async def test_numbers_that_are_none(nc: Client, options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        await data(nc.request_many("a", **options))  # type: ignore[arg-type]


async def test_a_closed_connection(nats_url: str) -> None:
    nc = await jetarrow.connect(nats_url)
    await nc.close()
    with pytest.raises(ConnectionClosedError):
        await data(nc.request_many("a"))


async def test_its_subscription_goes(nc: Client, service: str) -> None:
    async for _ in nc.request_many(service, timeout=60):
        break
    before = set(nc._session.subscriptions)
    assert await data(nc.request_many(service, max_messages=1, timeout=60)) == [b"0"]
    assert set(nc._session.subscriptions) <= before


def test_blocking(nats_url: str) -> None:
    with jetarrow.sync.connect(nats_url) as nc:
        inbox = nc.subscribe("blocking.service")
        answers = nc.request_many("blocking.service", b"x", timeout=0.2)
        assert [msg.data for msg in answers] == []
        assert inbox.next_msg(5).data == b"x"
        with pytest.raises(NoRespondersError):
            list(nc.request_many("no.service", timeout=60))
