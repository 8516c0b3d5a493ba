"""`unsubscribe(limit)` and the counters of push subscriptions: messages count, heartbeats and replacements do not."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from jetarrow import errors
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg
from jetarrow.jetstream import push
from jetarrow.jetstream.push import PushSubscription
from jetarrow.js.client import JetStreamContext

from .tools import fill, until


async def read_to_the_end(sub: PushSubscription) -> list[int | None]:
    return [msg.seq async for msg in sub.messages]


async def ordered(js: JetStreamContext, stream: str) -> PushSubscription:
    sub = await js.subscribe(f"{stream}.>", ordered_consumer=True)
    assert isinstance(sub, PushSubscription)
    return sub


@pytest.mark.parametrize("is_ordered", [False, True])
async def test_heartbeats_do_not_count(nc: Client, js: JetStreamContext, stream: str, is_ordered: bool) -> None:
    sub = await js.subscribe(f"{stream}.>", ordered_consumer=is_ordered, idle_heartbeat=0.1)
    assert isinstance(sub, PushSubscription)
    before = nc.stats["in_msgs"]
    await until(lambda: nc.stats["in_msgs"] >= before + 5)
    await sub.unsubscribe(limit=4)
    await fill(js, stream, 10)
    assert await asyncio.wait_for(read_to_the_end(sub), 30) == [1, 2, 3, 4]
    assert sub.delivered == 4


async def test_a_limit_of_received_messages_ends_it_after_them(js: JetStreamContext, stream: str) -> None:
    sub = await ordered(js, stream)
    await fill(js, stream, 10)
    await until(lambda: sub.pending_msgs == 10)
    await sub.unsubscribe(limit=4)
    assert await asyncio.wait_for(read_to_the_end(sub), 30) == list(range(1, 11))


async def test_a_limit_holds_over_replacements(js: JetStreamContext, stream: str) -> None:
    sub = await ordered(js, stream)
    await fill(js, stream, 5)
    assert [(await sub.next_msg(timeout=30)).seq for _ in range(2)] == [1, 2]
    await until(lambda: sub.pending_msgs == 3)
    await sub.unsubscribe(limit=12)
    for number in range(2):
        assert await sub._replace(sub._newest, sure=True)
        await fill(js, stream, 5)
        await until(lambda number=number: sub.delivered == min(10 + 5 * number, 12))
    assert sub.pending_msgs == 10
    assert sub.pending_bytes == 10
    assert await asyncio.wait_for(read_to_the_end(sub), 30) == list(range(3, 13))


async def test_a_limit_that_is_reached_before_a_replacement_ends_it(js: JetStreamContext, stream: str) -> None:
    sub = await ordered(js, stream)
    await sub.unsubscribe(limit=3)
    native = sub._newest
    await fill(js, stream, 5)
    await until(lambda: native.delivered == 3)
    await sub._replace(native, sure=True)
    assert await asyncio.wait_for(read_to_the_end(sub), 30) == [1, 2, 3]


async def test_a_limit_below_what_was_consumed_ends_it(js: JetStreamContext, stream: str) -> None:
    sub = await ordered(js, stream)
    await fill(js, stream, 5)
    assert [(await sub.next_msg(timeout=30)).seq for _ in range(5)] == [1, 2, 3, 4, 5]
    assert await sub._replace(sub._newest, sure=True)
    await sub.unsubscribe(limit=5)
    assert sub.is_closed
    assert await asyncio.wait_for(read_to_the_end(sub), 30) == []


async def test_drain_after_a_replacement_delivers_what_was_received(js: JetStreamContext, stream: str) -> None:
    seen: list[int | None] = []
    may_go = asyncio.Event()

    async def note(msg: Msg) -> None:
        await may_go.wait()
        seen.append(msg.seq)

    sub = await js.subscribe(f"{stream}.>", ordered_consumer=True, cb=note)
    assert isinstance(sub, PushSubscription)
    await fill(js, stream, 5)
    await until(lambda: sub.delivered == 5)
    assert await sub._replace(sub._newest, sure=True)
    await fill(js, stream, 5)
    await until(lambda: sub.delivered == 10)
    draining = asyncio.create_task(sub.drain())
    may_go.set()
    await asyncio.wait_for(draining, 30)
    await until(lambda: sub._task is not None and sub._task.done())
    assert seen == list(range(1, 11))
    assert sub.is_closed


class HeldConsumer:
    """Holds the first request that creates a consumer, after the server has answered it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made, self.go_on = asyncio.Event(), asyncio.Event()
        original = push.put_consumer

        async def held(*given: Any) -> Any:
            info = await original(*given)
            self.made.set()
            await self.go_on.wait()
            return info

        monkeypatch.setattr(push, "put_consumer", held)


@pytest.mark.parametrize("ending", ["unsubscribe", "limit", "drain"])
async def test_one_that_is_ended_while_it_is_replaced_ends(
    js: JetStreamContext, stream: str, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    sub = await ordered(js, stream)
    await fill(js, stream, 3)
    await until(lambda: sub.pending_msgs == 3)
    held = HeldConsumer(monkeypatch)
    replacing = asyncio.create_task(sub._replace(sub._newest, sure=True))
    await asyncio.wait_for(held.made.wait(), 30)
    reading = asyncio.create_task(read_to_the_end(sub))
    if ending == "unsubscribe":
        await sub.unsubscribe()
    elif ending == "limit":
        await sub.unsubscribe(limit=3)
    else:
        await sub.drain()
    await fill(js, stream, 3)
    held.go_on.set()
    await asyncio.wait_for(replacing, 30)
    assert await asyncio.wait_for(reading, 30) == [1, 2, 3]

    async def no_consumer_is_left() -> bool:
        # The first one ends some seconds after its interest.
        return [name async for name in js.stream(stream).consumer_names()] == []

    await until(no_consumer_is_left)


async def test_polls_without_a_wait_follow_a_replacement(js: JetStreamContext, stream: str) -> None:
    sub = await ordered(js, stream)
    assert await sub._replace(sub._newest, sure=True)
    await fill(js, stream, 1)
    await until(lambda: sub.pending_msgs == 1)
    seen: list[int | None] = []

    async def polled() -> bool:
        with suppress(errors.TimeoutError):
            seen.append((await sub.next_msg(timeout=0)).seq)
        return bool(seen)

    await until(polled)
    assert seen == [1]


async def test_a_watch_that_is_only_polled_replaces_its_consumer(
    js: JetStreamContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    kv = await js.create_key_value(bucket="polled-watch")
    try:
        async with await kv.watchall() as watcher:
            assert await watcher.updates() is None
            monkeypatch.setattr(watcher._sub, "_silence", 0.3)
            await js.delete_consumer("KV_polled-watch", watcher._sub._consumer)
            await kv.put("a", b"1")
            seen: list[int] = []

            async def polled() -> bool:
                with suppress(errors.TimeoutError):
                    entry = await watcher.updates(timeout=0)
                    assert entry is not None
                    seen.append(entry.revision)
                return bool(seen)

            await until(polled)
            assert seen == [1]
    finally:
        await js.delete_key_value("polled-watch")
