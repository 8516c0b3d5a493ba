"""Pull consumers: fetch, fetch_nowait, next and messages."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ..case import Case


async def _consumer(case: Case, count: int, **options: Any) -> tuple[Any, Any]:
    js = await case.context()
    stream = await js.create_stream(name=case.name, subjects=[f"{case.name}.>"], storage="memory")
    for number in range(count):
        await js.publish(
            f"{case.name}.{number % 2}", b"%d" % number, headers={"N": str(number)} if number % 2 else None
        )
    return js, await stream.create_consumer(**{"name": "c", "ack_policy": "explicit", **options})


def _fields(message: Any) -> Any:
    meta = message.metadata
    reply = message.reply.split(".")[:2]
    return message.data, message.subject, message.headers, reply, meta


async def _all(batch: Any) -> list[bytes]:
    return [message.data async for message in batch]


async def fetch(case: Case) -> None:
    _, consumer = await _consumer(case, 5)
    batch = await consumer.fetch(max_messages=3, max_wait=5)
    case.note("messages", [_fields(message) async for message in batch])
    case.note("error", batch.error)
    rest = await consumer.fetch(max_messages=10, max_wait=4)
    case.note("rest", await _all(rest))
    case.note("error of the rest", rest.error)
    case.note("once more", await _all(rest))
    await case.call("next of an ended batch", anext(rest, "ended"))
    empty = await consumer.fetch(max_messages=10, max_wait=1)
    case.note("empty", (await _all(empty), empty.error))


async def messages_come_as_they_are_published(case: Case) -> None:
    js, consumer = await _consumer(case, 1)
    batch = await consumer.fetch(max_messages=3, max_wait=20)
    begin = time.monotonic()
    case.note("first", (await anext(batch)).data)
    await js.publish(f"{case.name}.x", b"second")
    case.note("second", (await anext(batch)).data)
    waiting = asyncio.ensure_future(anext(batch))
    await js.publish(f"{case.name}.x", b"third")
    case.note("third", (await waiting).data)
    case.note("end", await anext(batch, "ended"))
    case.note("without waiting", time.monotonic() - begin < 10)


async def fetch_of_bytes(case: Case) -> None:
    _, consumer = await _consumer(case, 0)
    js = await case.context()
    for size in (100, 100, 100, 5_000):
        await js.publish(f"{case.name}.a", bytes(size))
    sizes = [len(data) for data in await _all(await consumer.fetch(max_bytes=500, max_wait=4))]
    case.note("two or three", len(sizes) in (2, 3) and set(sizes) == {100})
    batch = await consumer.fetch_nowait(max_bytes=100_000)
    case.note("at least one", len(await _all(batch)) >= 1)


async def arguments(case: Case) -> None:
    _, consumer = await _consumer(case, 1)
    await case.call("neither", consumer.fetch())
    await case.call("both", consumer.fetch(max_messages=1, max_bytes=1))
    await case.call("neither without waiting", consumer.fetch_nowait())
    await case.call("both of a stream", consumer.messages(max_messages=1, max_bytes=1))
    batch = await consumer.fetch(max_messages=2, max_wait=1, heartbeat=0.9)
    case.note("heartbeat too long", (await _all(batch), batch.error))


async def fetch_nowait(case: Case) -> None:
    _, consumer = await _consumer(case, 3)
    batch = await consumer.fetch_nowait(max_messages=2)
    case.note("two", (await _all(batch), batch.error))
    batch = await consumer.fetch_nowait(max_messages=2)
    case.note("rest", (await _all(batch), batch.error))
    batch = await consumer.fetch_nowait(max_messages=2)
    case.note("none", (await _all(batch), batch.error))


async def next_message(case: Case) -> None:
    js, consumer = await _consumer(case, 2)
    for key in ("first", "second"):
        case.note(key, (await consumer.next(max_wait=5)).data)
    await case.call("late", consumer.next(max_wait=0.1))
    waiting = asyncio.ensure_future(consumer.next(max_wait=20))
    await js.publish(f"{case.name}.x", b"third")
    case.note("third", (await waiting).data)


async def all_messages(case: Case) -> None:
    js, consumer = await _consumer(case, 250)
    stream = await consumer.messages()
    case.note("active", stream.is_active)
    got = []
    async for message in stream:
        got.append(message.data)
        await message.ack()
        if len(got) == 250:
            break
    case.note("order", got == [b"%d" % number for number in range(250)])
    await js.publish(f"{case.name}.x", b"later")
    case.note("later", (await anext(stream)).data)
    await stream.stop()
    case.note("stopped", (stream.is_active, await anext(stream, "ended")))
    await stream.stop()


async def sizes_of_requests(case: Case) -> None:
    _, consumer = await _consumer(case, 30)
    for key, options in {
        "messages": {"max_messages": 7},
        "threshold": {"max_messages": 8, "threshold_messages": 2},
        "bytes": {"max_bytes": 10_000},
        "all": {"max_messages": 5, "max_wait": 5, "heartbeat": 1},
    }.items():
        stream = await consumer.messages(**options)
        data = []
        for _ in range(5):
            data.append((message := await anext(stream)).data)
            await message.double_ack(timeout=20)
        case.note(key, len(data))
        await stream.stop()


async def a_stream_is_stopped_while_it_waits(case: Case) -> None:
    _, consumer = await _consumer(case, 0)
    stream = await consumer.messages()
    waiting = asyncio.ensure_future(anext(stream, "ended"))
    await asyncio.sleep(0.05)
    await stream.stop()
    case.note("ended", await asyncio.wait_for(waiting, 10))


async def a_consumer_that_is_deleted(case: Case) -> None:
    js, consumer = await _consumer(case, 1)
    batch = await consumer.fetch(max_messages=2, max_wait=20)
    case.note("before", (await anext(batch)).data)
    waiting = asyncio.ensure_future(anext(batch, "ended"))
    stream = await consumer.messages()
    ended = asyncio.ensure_future(anext(stream, "ended"))
    await asyncio.sleep(0.1)
    await js.delete_consumer(case.name, "c")
    case.note("batch", await asyncio.wait_for(waiting, 10))
    case.note("error", type(batch.error).__name__)
    case.note("stream", await asyncio.wait_for(ended, 10))
    await case.call("next", consumer.next(max_wait=5))


async def priority_groups(case: Case) -> None:
    _, consumer = await _consumer(case, 4, priority_groups=["g"], priority_policy="overflow")
    batch = await consumer.fetch(max_messages=2, max_wait=5, priority_group="g", min_pending=1)
    case.note("group", (await _all(batch), batch.error))
    batch = await consumer.fetch(max_messages=2, max_wait=1, priority_group="g", min_pending=100)
    case.note("too few", (await _all(batch), batch.error))
    batch = await consumer.fetch(max_messages=2, max_wait=5)
    case.note("no group", (await _all(batch), batch.error))
    batch = await consumer.fetch(max_messages=2, max_wait=5, priority_group="x")
    case.note("another group", (await _all(batch), batch.error))


async def after_the_end(case: Case) -> None:
    client = await case.connect()
    js = case.jetstream.new(client)
    stream = await js.create_stream(name=case.name, subjects=[f"{case.name}.>"], storage="memory")
    consumer = await stream.create_consumer(name="c")
    batch, messages = await consumer.fetch(max_messages=2, max_wait=20), await consumer.messages()
    waiting = [asyncio.ensure_future(anext(each, "ended")) for each in (batch, messages)]
    await asyncio.sleep(0.05)
    await client.close()
    for key, call in zip(("batch", "stream"), waiting, strict=True):
        await case.call(key, asyncio.wait_for(call, 10))
    case.note("error", type(batch.error).__name__)
    await case.call("fetch", consumer.fetch(max_messages=1))
    await case.call("fetch_nowait", consumer.fetch_nowait(max_messages=1))
    await case.call("next", consumer.next())
    await case.call("messages", consumer.messages())
