"""Ordered consumers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from ..case import Case


async def _stream(case: Case, count: int = 6) -> tuple[Any, Any]:
    js = await case.context()
    stream = await js.create_stream(name=case.name, subjects=[f"{case.name}.>"], storage="memory")
    for number in range(count):
        await js.publish(f"{case.name}.{number % 2}", b"%d" % number)
    return js, stream


async def _data(batch: Any) -> list[bytes]:
    return [message.data async for message in batch]


async def fetches_continue(case: Case) -> None:
    _, stream = await _stream(case)
    consumer = await stream.ordered_consumer(name_prefix="p")
    case.note("name", (consumer.name, consumer.stream_name, consumer.info.config))
    case.note("first", await _data(await consumer.fetch(max_messages=2, max_wait=5)))
    case.note("second", await _data(await consumer.fetch(max_messages=2, max_wait=5)))
    case.note("next", (await consumer.next(max_wait=5)).data)
    case.note("rest", await _data(await consumer.fetch_nowait(max_messages=5)))
    await case.call("late", consumer.next(max_wait=0.1))
    await consumer.close()


async def unread_messages_come_again(case: Case) -> None:
    _, stream = await _stream(case)
    consumer = await stream.ordered_consumer()
    batch = await consumer.fetch(max_messages=4, max_wait=5)
    case.note("first", (await anext(batch)).data)
    case.note("again", await _data(await consumer.fetch(max_messages=3, max_wait=5)))
    await consumer.close()


async def all_messages(case: Case) -> None:
    js, stream = await _stream(case)
    consumer = await stream.ordered_consumer()
    messages = await consumer.messages()
    case.note("stored", [(await anext(messages)).data for _ in range(6)])
    await js.publish(f"{case.name}.x", b"later")
    message = await anext(messages)
    case.note("later", (message.data, message.metadata.sequence.stream))
    await messages.stop()
    case.note("stopped", await anext(messages, "ended"))
    await consumer.close()


async def a_consumer_that_is_deleted(case: Case) -> None:
    js, stream = await _stream(case, 3)
    consumer = await stream.ordered_consumer(name_prefix="p")
    messages = await consumer.messages(heartbeat=0.2)
    case.note("stored", [(await anext(messages)).data for _ in range(3)])
    await js.delete_consumer(case.name, consumer.name)
    waiting = asyncio.ensure_future(anext(messages))
    await js.publish(f"{case.name}.x", b"later")
    case.note("later", (await asyncio.wait_for(waiting, 25)).data)
    await messages.stop()
    await consumer.close()


async def starts(case: Case) -> None:
    js, stream = await _stream(case)
    for key, options in {
        "all": {},
        "sequence": {"deliver_policy": "by_start_sequence", "opt_start_seq": 4},
        "sequence without policy": {"opt_start_seq": 4},
        "last": {"deliver_policy": "last"},
        "last of each": {"deliver_policy": "last_per_subject"},
        "new": {"deliver_policy": "new"},
        "subject": {"filter_subjects": [f"{case.name}.1"]},
        "subjects": {"filter_subjects": [f"{case.name}.0", f"{case.name}.1"]},
        "headers": {"headers_only": True, "inactive_threshold": timedelta(seconds=30), "metadata": {"a": "b"}},
    }.items():
        async with await stream.ordered_consumer(**options) as consumer:
            case.note(key, await _data(await consumer.fetch_nowait(max_messages=10)))
    config = case.jetstream.OrderedConsumerConfig(filter_subjects=[f"{case.name}.0"])
    async with await js.ordered_consumer(case.name, config) as consumer:
        case.note("object", await _data(await consumer.fetch_nowait(max_messages=10)))


async def after_the_end(case: Case) -> None:
    _, stream = await _stream(case, 1)
    consumer = await stream.ordered_consumer(name_prefix="p")
    await case.call("reset", consumer.reset())
    await consumer.close()
    await consumer.close()
    case.note("name", consumer.name)
    await case.call("info", lambda: consumer.info)
    await case.call("get_info", consumer.get_info())
    await case.call("fetch", consumer.fetch(max_messages=1))
    await case.call("fetch_nowait", consumer.fetch_nowait(max_messages=1))
    await case.call("next", consumer.next())
    await case.call("messages", consumer.messages())
