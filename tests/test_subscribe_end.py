"""How subscriptions end: unsubscribe, drain and close hand out what had come before."""

from __future__ import annotations

import asyncio
import gc
import uuid
import weakref

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg

from .tools import PATIENCE, until


@pytest.fixture
def subject() -> str:
    return f"core.{uuid.uuid4().hex[:10]}"


async def test_unsubscribe_after_a_limit(nc: Client, subject: str) -> None:
    sub = await nc.subscribe(subject)
    await sub.unsubscribe(3)
    for number in range(5):
        await nc.publish(subject, b"%d" % number)
    assert [msg.data async for msg in sub.messages] == [b"0", b"1", b"2"]
    await sub.unsubscribe()
    with pytest.raises(errors.BadSubscriptionError):
        await sub.unsubscribe()


async def test_drain_hands_out_what_was_published_before_it(nc: Client, subject: str) -> None:
    got = []

    async def keep(msg: Msg) -> None:
        got.append(msg.data)

    sub = await nc.subscribe(subject, cb=keep)
    for number in range(50):
        await nc.publish(subject, b"%d" % number)
    await sub.drain()
    assert got == [b"%d" % number for number in range(50)]


async def test_a_callback_gets_what_had_come_before_unsubscribe(nc: Client, subject: str) -> None:
    got, first, go_on = [], asyncio.Event(), asyncio.Event()

    async def slow(msg: Msg) -> None:
        got.append(msg.data)
        first.set()
        await go_on.wait()

    sub = await nc.subscribe(subject, cb=slow)
    for number in range(5):
        await nc.publish(subject, b"%d" % number)
    await nc.flush()
    await first.wait()
    await sub.unsubscribe()
    await nc.publish(subject, b"late")
    go_on.set()
    # It is known until then: draining the connection waits for it.
    await nc.drain()
    assert got == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("inside", [False, True], ids=["from_outside", "by_a_callback"])
async def test_callbacks_may_answer_what_had_come_before_close(nats_url: str, subject: str, inside: bool) -> None:
    answered: list[bytes] = []
    told = []
    all_there, closed = asyncio.Event(), asyncio.Event()

    async def error(found: Exception) -> None:
        told.append(found)

    async def on_close() -> None:
        closed.set()

    async with await jetarrow.connect(nats_url) as other:
        answers = await other.subscribe(f"answers.{subject}")
        await other.flush()
        nc = await jetarrow.connect(nats_url, error_cb=error, closed_cb=on_close)

        async def answer(msg: Msg) -> None:
            await all_there.wait()
            if inside and msg.data == b"0":
                await nc.close()
            if not nc.is_closed or not inside:
                await msg.respond(msg.data)
            answered.append(msg.data)

        await nc.subscribe(subject, cb=answer)
        for number in range(5):
            await nc.publish(subject, b"%d" % number, reply=f"answers.{subject}")
        await nc.flush()
        all_there.set()
        if not inside:
            await nc.close()
        await asyncio.wait_for(closed.wait(), 10)
        await until(lambda: len(answered) == 5)
        await other.flush()
        assert (answered, told) == ([b"0", b"1", b"2", b"3", b"4"], [])
        assert answers.delivered == (0 if inside else 5)


async def test_close_gives_up_a_callback_that_does_not_end(
    nats_url: str, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jetarrow.core.connect.LAST_CALLBACKS_TIMEOUT", 0.05)
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def endless(_: Msg) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    nc = await jetarrow.connect(nats_url)
    await nc.subscribe(subject, cb=endless)
    await nc.publish(subject)
    await begun.wait()
    await asyncio.wait_for(nc.close(), 20)
    await asyncio.wait_for(cancelled.wait(), 20)


async def test_two_callbacks_that_close_do_not_wait_for_each_other(
    nats_url: str, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than the test waits.
    monkeypatch.setattr("jetarrow.core.connect.LAST_CALLBACKS_TIMEOUT", 2 * PATIENCE)
    nc = await jetarrow.connect(nats_url)
    done = []
    both = asyncio.Barrier(2)

    async def close(_: Msg) -> None:
        await both.wait()
        await nc.close()
        done.append(1)

    for _ in range(2):
        await nc.subscribe(subject, cb=close)
    await nc.publish(subject)
    await until(lambda: len(done) == 2)


async def test_drain_loses_nothing_under_load(nats_url: str, subject: str) -> None:
    async with await jetarrow.connect(nats_url) as nc, await jetarrow.connect(nats_url) as other:
        stop = False
        sent = 0

        async def load() -> None:
            nonlocal sent
            while not stop:
                for _ in range(100):
                    await other.publish(subject, b"%d" % sent)
                    sent += 1
                await asyncio.sleep(0)

        loading = asyncio.create_task(load())
        for _ in range(3):
            seen: list[int] = []
            enough = asyncio.Event()

            async def note(msg: Msg, seen: list[int] = seen, enough: asyncio.Event = enough) -> None:
                seen.append(int(msg.data))
                if len(seen) == 2_000:
                    enough.set()

            sub = await nc.subscribe(subject, cb=note)
            await asyncio.wait_for(enough.wait(), 10)
            await sub.drain()
            assert len(seen) >= 2_000
            assert seen == list(range(seen[0], seen[-1] + 1))
        stop = True
        await loading


async def test_draining_the_client_finishes_the_callbacks(nats_url: str, subject: str) -> None:
    nc = await jetarrow.connect(nats_url)
    seen = 0

    async def slow(msg: Msg) -> None:
        nonlocal seen
        await asyncio.sleep(0)
        seen += 1

    await nc.subscribe(subject, cb=slow)
    for _ in range(1_000):
        await nc.publish(subject)
    await nc.flush()
    await nc.drain()
    assert seen == 1_000
    assert nc.is_closed
    with pytest.raises(errors.ConnectionClosedError):
        await nc.publish(subject)


async def test_waiting_for_messages_ends_with_the_connection(nats_url: str, subject: str) -> None:
    nc = await jetarrow.connect(nats_url)
    sub = await nc.subscribe(subject)
    waiting = asyncio.create_task(sub.next_msg(timeout=30))
    iterating = asyncio.create_task(anext(sub.messages, None))
    await nc.flush()
    await nc.close()
    with pytest.raises(errors.ConnectionClosedError):
        await asyncio.wait_for(waiting, 20)
    assert await asyncio.wait_for(iterating, 20) is None


async def test_a_forgotten_client_goes_with_its_subscriptions(nats_url: str, subject: str) -> None:
    nc = await jetarrow.connect(nats_url)
    sub = await nc.subscribe(subject)
    await nc.flush()
    gone = weakref.ref(nc)
    del nc, sub
    gc.collect()
    assert gone() is None
