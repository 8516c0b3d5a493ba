"""Acknowledgements of stream messages behave alike in both clients."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest

from ..tools import until
from .face import Face, make_stream, spread


async def pull(js: Any, count: int = 1, **config: Any) -> Any:
    """Return a pull subscription to a new stream with `count` messages."""
    stream = await make_stream(js)
    await spread(js, stream, count)
    await js.add_consumer(stream, durable_name="work", ack_policy="explicit", **config)
    return await js.pull_subscribe_bind(consumer="work", stream=stream)


async def one(sub: Any) -> Any:
    return (await sub.fetch(1, timeout=5))[0]


async def left(sub: Any) -> tuple[int, int, int]:
    """Return the numbers of unacknowledged, redelivered and pending messages."""
    info = await sub.consumer_info()
    return info.num_ack_pending, info.num_redelivered, info.num_pending


async def test_metadata(js: Any) -> None:
    sub = await pull(js, 3)
    await (await one(sub)).ack()
    msg = await one(sub)
    meta = msg.metadata
    assert meta == msg.metadata
    assert (meta.sequence.stream, meta.sequence.consumer) == (2, 2)
    assert (meta.num_pending, meta.num_delivered, meta.consumer) == (1, 1, "work")
    assert msg.subject == f"{meta.stream}.1"
    assert meta.timestamp.tzinfo == datetime.UTC
    assert abs((datetime.datetime.now(datetime.UTC) - meta.timestamp).total_seconds()) < 60
    assert not meta.domain


async def test_ack(js: Any) -> None:
    sub = await pull(js)
    msg = await one(sub)
    before = (msg.is_acked, await left(sub))
    assert await msg.ack() is None

    async def settled() -> bool:
        return await left(sub) == (0, 0, 0)

    await until(settled)
    assert (before, msg.is_acked) == ((False, (1, 0, 0)), True)


async def test_ack_sync(js: Any) -> None:
    sub = await pull(js)
    msg = await one(sub)
    await msg.ack_sync(timeout=20)
    assert (await left(sub), msg.is_acked) == ((0, 0, 0), True)


@pytest.mark.parametrize("verb", ["ack", "nak", "term", "ack_sync"])
async def test_second_final_ack_raises_already_acked(face: Face, js: Any, verb: str) -> None:
    msg = await one(await pull(js))
    await getattr(msg, verb)()
    kinds = [await face.failure(second) for second in (msg.ack, msg.nak, msg.term, msg.ack_sync)]
    assert kinds == ["errors.MsgAlreadyAckdError"] * 4
    assert await face.failure(msg.in_progress()) == "nothing"


async def test_second_ack_raises_when_awaited(face: Face, js: Any) -> None:
    msg = await one(await pull(js))
    await msg.ack()
    results = await asyncio.gather(msg.ack(), msg.term(), return_exceptions=True)
    assert [face.kind(result) for result in results if result] == ["errors.MsgAlreadyAckdError"] * 2


async def test_nak_redelivers_message(js: Any) -> None:
    sub = await pull(js)
    first = await one(sub)
    await first.nak()
    second = await one(sub)
    deliveries = [(msg.data, msg.metadata.num_delivered, msg.metadata.sequence.stream) for msg in (first, second)]
    assert deliveries == [(b"0", 1, 1), (b"0", 2, 1)]
    assert (await sub.consumer_info()).num_redelivered == 1


async def test_nak_with_a_delay(face: Face, js: Any) -> None:
    sub = await pull(js)
    await (await one(sub)).nak(delay=3)
    assert await face.nothing_comes(sub.fetch(1, timeout=0.5))
    assert (await one(sub)).metadata.num_delivered == 2


async def test_term(face: Face, js: Any) -> None:
    sub = await pull(js, ack_wait=2)
    await (await one(sub)).term()
    assert await face.nothing_comes(sub.fetch(1, timeout=3))
    assert await left(sub) == (0, 0, 0)


async def test_message_is_redelivered_after_ack_wait(js: Any) -> None:
    sub = await pull(js, ack_wait=0.2)
    deliveries = [(await one(sub)).metadata.num_delivered for _ in range(3)]
    assert deliveries == [1, 2, 3]


async def test_in_progress_gives_more_time(face: Face, js: Any) -> None:
    sub = await pull(js, ack_wait=3)
    msg = await one(sub)
    for _ in range(4):
        await msg.in_progress()
        assert await face.nothing_comes(sub.fetch(1, timeout=1))
    assert msg.is_acked is False
    await msg.ack_sync(timeout=20)
    assert await left(sub) == (0, 0, 0)


async def test_max_deliver_ends_redelivery(face: Face, js: Any) -> None:
    sub = await pull(js, max_deliver=2, ack_wait=0.2)
    assert [(await one(sub)).metadata.num_delivered for _ in range(2)] == [1, 2]
    assert await face.nothing_comes(sub.fetch(1, timeout=0.5))


async def test_ack_all(face: Face, js: Any) -> None:
    stream = await make_stream(js)
    await spread(js, stream, 5)
    sub = await js.pull_subscribe(f"{stream}.>", "work", config=face.api.ConsumerConfig(ack_policy="all"))
    msgs = await sub.fetch(5)
    await msgs[3].ack_sync(timeout=20)
    assert (await sub.consumer_info()).num_ack_pending == 1


async def test_ack_none(face: Face, js: Any) -> None:
    stream = await make_stream(js)
    await spread(js, stream, 2)
    sub = await js.pull_subscribe(f"{stream}.>", "work", config=face.api.ConsumerConfig(ack_policy="none"))
    assert [msg.data for msg in await sub.fetch(2)] == [b"0", b"1"]
    assert await left(sub) == (0, 0, 0)


async def test_a_workqueue_forgets_what_is_acknowledged(js: Any) -> None:
    stream = await make_stream(js, retention="workqueue")
    await spread(js, stream, 3)
    sub = await js.pull_subscribe(f"{stream}.>", "work")
    for msg in await sub.fetch(2):
        await msg.ack_sync(timeout=20)
    assert (await js.stream_info(stream)).state.messages == 1
