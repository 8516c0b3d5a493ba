"""Request and reply: the same with both clients."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from ..tools import settle
from .face import Collector, Face, subject


async def replier(nc: Any) -> str:
    """A subject where requests are answered with their data in capitals, and their headers."""

    async def answer(msg: Any) -> None:
        await nc.publish(msg.reply, msg.data.upper(), headers=msg.headers)

    where = subject()
    await nc.subscribe(where, cb=answer)
    await settle(nc)
    return where


@pytest.fixture(params=["new style", "old style"])
def style(request: pytest.FixtureRequest) -> dict[str, bool]:
    return {"old_style": request.param == "old style"}


async def test_request(face: Face, style: dict[str, bool]) -> None:
    nc = await face.connect()
    where = await replier(await face.connect())
    msg = await nc.request(where, b"hello", timeout=5, **style)
    assert (msg.data, msg.reply, msg.headers) == (b"HELLO", "", None)
    assert msg.subject.startswith("_INBOX.")


async def test_nobody_there(face: Face, nc: Any, style: dict[str, bool]) -> None:
    assert await face.failure(nc.request(subject(), b"", timeout=5, **style)) == "errors.NoRespondersError"


async def test_no_answer(face: Face, nc: Any, style: dict[str, bool]) -> None:
    await nc.subscribe(where := subject())
    failure = await face.failure(nc.request(where, b"", timeout=0.05, **style))
    assert (failure, nc.is_connected) == ("errors.TimeoutError", True)


async def test_half_a_second_by_default(face: Face, nc: Any) -> None:
    await nc.subscribe(where := subject())
    loop = asyncio.get_running_loop()
    begin = loop.time()
    failure = await face.failure(nc.request(where))
    assert failure == "errors.TimeoutError"
    assert 0.4 < loop.time() - begin < 4.5


async def test_headers_of_a_request(face: Face) -> None:
    nc = await face.connect()
    where = await replier(await face.connect())
    msg = await nc.request(where, b"x", timeout=5, headers={"Name": "value"})
    assert msg.headers == {"Name": "value"}


async def test_many_requests_at_once(face: Face) -> None:
    nc = await face.connect()
    where = await replier(await face.connect())
    answers = await asyncio.gather(*(nc.request(where, b"n%d" % number, timeout=5) for number in range(200)))
    assert [msg.data for msg in answers] == [b"N%d" % number for number in range(200)]


async def test_only_the_first_answer_counts(face: Face, nc: Any, style: dict[str, bool]) -> None:
    async def answer(msg: Any) -> None:
        for text in (b"first", b"second"):
            await nc.publish(msg.reply, text)

    await nc.subscribe(where := subject(), cb=answer)
    answers = [(await nc.request(where, b"", timeout=5, **style)).data for _ in range(3)]
    assert answers == [b"first"] * 3


async def test_an_answer_that_comes_too_late(face: Face, nc: Any) -> None:
    asked = Collector()
    await nc.subscribe(where := subject(), cb=asked.callback)
    assert await face.failure(nc.request(where, b"one", timeout=0.02)) == "errors.TimeoutError"
    await nc.publish((await asked.wait(1))[0].reply, b"late")
    second = asyncio.create_task(nc.request(where, b"two", timeout=5))
    await nc.publish((await asked.wait(2))[1].reply, b"in time")
    assert (await second).data == b"in time"


async def test_a_cancelled_request(face: Face, nc: Any) -> None:
    asked = Collector()
    await nc.subscribe(where := subject(), cb=asked.callback)
    task = asyncio.create_task(nc.request(where, b"", timeout=5))
    await asked.wait(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await nc.flush()
    assert nc.is_connected


async def test_respond(face: Face, nc: Any) -> None:
    got = await nc.subscribe(where := subject())
    asking = asyncio.create_task(nc.request(where, b"question", timeout=5))
    await (await got.next_msg(timeout=10)).respond(b"answer")
    assert (await asking).data == b"answer"
    await nc.publish(where, b"no reply subject")
    assert await face.failure(functools.partial((await got.next_msg(timeout=10)).respond, b"")) == "errors.Error"


async def test_a_reply_subject_of_one_s_own(nc: Any) -> None:
    inbox = nc.new_inbox()
    answers, questions = await nc.subscribe(inbox), await nc.subscribe(where := subject())
    await nc.publish(where, b"question", reply=inbox)
    question = await questions.next_msg(timeout=10)
    await nc.publish(question.reply, b"answer")
    assert (question.reply, (await answers.next_msg(timeout=10)).data) == (inbox, b"answer")


async def test_requests_do_not_leave_subscriptions(face: Face) -> None:
    nc = await face.connect()
    where = await replier(await face.connect())
    for number in range(5):
        await nc.request(where, b"x", timeout=5, old_style=bool(number % 2))
    before = nc.stats["in_msgs"]
    await nc.flush()
    assert (nc.stats["in_msgs"] - before, before) == (0, 5)


async def test_core_messages_cannot_be_acknowledged(face: Face, nc: Any) -> None:
    sub = await nc.subscribe(where := subject())
    await nc.publish(where, b"")
    msg = await sub.next_msg(timeout=10)
    kinds = [await face.failure(verb) for verb in (msg.ack, msg.nak, msg.term, msg.in_progress, msg.ack_sync)]
    assert kinds == ["errors.NotJSMessageError"] * 5
    with pytest.raises(face.errors.NotJSMessageError):
        _ = msg.metadata
