"""Ordered push subscriptions that replace their consumer while messages arrive: each message once, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from jetarrow import errors
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg
from jetarrow.jetstream.push import PushSubscription
from jetarrow.js.client import JetStreamContext

from .tools import fill, numbers, until


class HeldReset:
    """Holds the replacement of a subscription's consumer between its decision and its begin."""

    def __init__(self, sub: PushSubscription, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decided, self.go_on = asyncio.Event(), asyncio.Event()
        original: Callable[..., Any] = sub._reset_once
        silence = sub._silence

        async def held(*given: Any) -> bool:
            sub._silence = silence
            self.decided.set()
            await self.go_on.wait()
            return await original(*given)

        monkeypatch.setattr(sub, "_reset_once", held)
        # Shorter than the interval of heartbeats: a silence is noticed although nothing is lost.
        monkeypatch.setattr(sub, "_silence", 0.05)


async def test_messages_that_arrive_before_a_replacement_reach_the_callback(
    js: JetStreamContext, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int | None] = []

    async def note(msg: Msg) -> None:
        seen.append(msg.seq)

    sub = await js.subscribe(f"{stream}.>", ordered_consumer=True, cb=note)
    assert isinstance(sub, PushSubscription)
    held = HeldReset(sub, monkeypatch)
    await fill(js, stream, 10)
    await asyncio.wait_for(held.decided.wait(), 30)
    first = sub._native
    await fill(js, stream, 100)
    await until(lambda: len(seen) + first.pending_msgs == 110)
    held.go_on.set()
    await until(lambda: sub._native is not first)
    await fill(js, stream, 10)
    await until(lambda: len(seen) >= 120)
    await sub.unsubscribe()
    assert seen == list(range(1, 121))


async def test_messages_that_arrive_before_the_end_of_the_stream_are_returned(
    js: JetStreamContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int | None] = []

    async def note(msg: Msg) -> None:
        seen.append(msg.seq)

    await js.add_stream(name="ENDS", subjects=["ENDS.>"])
    sub = await js.subscribe("ENDS.>", ordered_consumer=True, cb=note)
    assert isinstance(sub, PushSubscription)
    held = HeldReset(sub, monkeypatch)
    await fill(js, "ENDS", 10)
    await asyncio.wait_for(held.decided.wait(), 30)
    first = sub._native
    await fill(js, "ENDS", 100)
    await until(lambda: len(seen) + first.pending_msgs == 110)
    await js.delete_stream("ENDS")
    held.go_on.set()
    await until(lambda: sub.is_closed and sub._task is not None and sub._task.done())
    assert seen == list(range(1, 111))


async def test_changes_that_arrive_before_a_replacement_reach_the_watcher(
    js: JetStreamContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    kv = await js.create_key_value(bucket="late-changes", history=64)
    try:
        async with await kv.watchall() as watcher:
            assert await watcher.updates() is None
            held = HeldReset(watcher._sub, monkeypatch)
            waiting = asyncio.create_task(watcher.updates(None))
            await asyncio.wait_for(held.decided.wait(), 30)
            first = watcher._sub._native
            for number in range(10):
                await kv.put("a", b"%d" % number)
            await until(lambda: first.pending_msgs == 10)
            held.go_on.set()
            entries = [await waiting, *[await watcher.updates(30) for _ in range(9)]]
            assert [entry and entry.revision for entry in entries] == list(range(1, 11))
            with pytest.raises(errors.TimeoutError):
                await watcher.updates(0)
            assert await kv.put("a", b"last") == 11
            entry = await watcher.updates(30)
            assert entry is not None
            assert entry.revision == 11
            assert watcher._sub._native is not first
    finally:
        await js.delete_key_value("late-changes")


async def test_replacements_while_messages_arrive_repeat_none(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 20_000)
    sub = await js.subscribe(f"{stream}.>", ordered_consumer=True)
    assert isinstance(sub, PushSubscription)
    seen: list[bytes] = []
    replaced = 0

    async def collect() -> None:
        async for msg in sub.messages:
            seen.append(msg.data)
            if len(seen) == 20_000:
                return

    collecting = asyncio.create_task(collect())
    while not collecting.done():
        before = sub._newest
        # Within a delivery: some messages are received, and others are on their way.
        await until(lambda before=before: before.last_seq or collecting.done())
        if await sub._replace(before, sure=True):
            replaced += 1
    await collecting
    assert replaced > 1
    assert seen == numbers(20_000)


async def test_the_last_sequence_of_an_ended_subscription_is_final(
    nc: Client, js: JetStreamContext, stream: str
) -> None:
    await fill(js, stream, 20_000)
    finals = []
    for _ in range(5):
        sub = await js.subscribe(f"{stream}.>", ordered_consumer=True)
        native = sub._native
        await until(lambda native=native: native.last_seq)
        native.end()
        seen = (native.last_seq, native.pending_msgs, native.delivered)
        # The answer follows the messages that the server has sent.
        await nc.flush(30)
        finals.append(seen[0])
        assert (native.last_seq, native.pending_msgs, native.delivered) == seen
        await sub.unsubscribe()
    assert min(finals) < 20_000
