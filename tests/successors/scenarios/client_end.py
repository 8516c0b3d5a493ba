"""The end of subscriptions and connections, and calls after it."""

from __future__ import annotations

import asyncio
from typing import Any

from ..case import Case, until


async def _received(case: Case, client: Any, count: int) -> Any:
    sub = await client.subscribe(case.name)
    for number in range(count):
        await client.publish(case.name, b"%d" % number)
    await until(lambda: sub.pending[0] == count)
    return sub


async def unsubscribe_discards_queued_messages(case: Case) -> None:
    client = await case.connect()
    sub = await _received(case, client, 3)
    await case.call("unsubscribe", sub.unsubscribe())
    case.note("closed", sub.closed)
    await case.call("next", sub.next())
    await case.call("next in time", sub.next(timeout=1))
    case.note("iterated", [message.data async for message in sub])
    await case.call("again", sub.unsubscribe())
    await case.call("drain", sub.drain())
    await client.publish(case.name, b"more")
    await case.call("flush", client.flush())


async def drain_of_a_subscription_keeps_queued_messages(case: Case) -> None:
    client = await case.connect()
    sub = await _received(case, client, 3)
    await case.call("drain", sub.drain())
    case.note("closed", sub.closed)
    await case.call("next", sub.next())
    case.note("iterated", [message.data async for message in sub])
    await case.call("after the last", sub.next(timeout=1))
    await case.call("unsubscribe", sub.unsubscribe())


async def unsubscribe_ends_waiting_calls(case: Case) -> None:
    client = await case.connect()
    sub, other = await client.subscribe(case.name), await client.subscribe(f"{case.name}.b")

    async def iterate() -> list[Any]:
        return [message async for message in other]

    tasks = [asyncio.create_task(sub.next()), asyncio.create_task(sub.next(timeout=20)), asyncio.create_task(iterate())]
    await client.flush()
    await sub.unsubscribe()
    await other.drain()
    for key, task in zip(("next", "next in time", "iteration"), tasks, strict=True):
        await case.call(key, task)


async def subscription_block_unsubscribes_after_an_error(case: Case) -> None:
    client = await case.connect()

    async def block() -> None:
        async with await client.subscribe(case.name) as sub:
            subs.append(sub)
            raise LookupError

    subs: list[Any] = []
    await case.call("error", block())
    case.note("closed", subs[0].closed)


async def close_ends_everything(case: Case) -> None:
    client = await case.connect()
    sub = await _received(case, client, 2)
    waiting = asyncio.create_task((await client.subscribe(f"{case.name}.b")).next())
    await client.flush()
    await case.call("close", client.close())
    case.note("status", client.status)
    case.note("subscription", sub.closed)
    await case.call("waiting", waiting)
    await case.call("next", sub.next())
    await case.call("publish", client.publish(case.name, b""))
    await case.call("subscribe", client.subscribe(case.name))
    await case.call("request", client.request(case.name, b""))
    await case.call("flush", client.flush())
    await case.call("rtt", client.rtt())
    await case.call("drain", client.drain())
    await case.call("close again", client.close())
    await case.call("unsubscribe", sub.unsubscribe())
    case.note("inbox", client.new_inbox())
    case.note("stats", client.stats())
    case.note("server", client.server_info is not None)


async def close_sends_what_was_published(case: Case) -> None:
    client, other = await case.connect(), await case.connect()
    sub = await other.subscribe(case.name)
    await other.flush()
    for number in range(100):
        await client.publish(case.name, b"%d" % number)
    await client.close()
    case.note("received", [int((await sub.next(timeout=5)).data) for _ in range(100)] == list(range(100)))


async def client_block_closes(case: Case) -> None:
    async with await case.client.connect(case.url) as client:
        case.note("inside", client.status)
    case.note("outside", client.status)


async def drain_of_the_client(case: Case) -> None:
    client, other = await case.connect(), await case.connect()
    watched = await other.subscribe(f"{case.name}.b")
    await other.flush()
    sub = await _received(case, client, 3)
    await client.publish(f"{case.name}.b", b"last")
    await case.call("drain", client.drain())
    case.note("status", client.status)
    case.note("last", (await watched.next(timeout=5)).data)
    case.note("subscription", sub.closed)
    case.note("iterated", [message.data async for message in sub])
    await case.call("publish", client.publish(case.name, b""))
    await case.call("again", client.drain())


async def bad_subjects(case: Case) -> None:
    client = await case.connect()
    for subject in ("", "a b", "a..b", ".a", "a."):
        await case.call(f"publish {subject!r}", client.publish(subject, b""))
    case.note("status", client.status)
