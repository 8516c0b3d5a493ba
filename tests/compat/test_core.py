"""Core publish and subscribe: the same with both clients."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from typing import Any

import pytest

from ..tools import settle, until
from .face import Collector, Face, arrived, subject

LARGE = "x" * 70_000


async def test_a_callback_gets_messages_in_order(nc: Any) -> None:
    got, where = Collector(), subject()
    sub = await nc.subscribe(where, cb=got.callback)
    for number in range(500):
        await nc.publish(where, b"%d" % number)
    await got.wait(500)
    assert got.data == [b"%d" % number for number in range(500)]
    assert (sub.delivered, sub.pending_msgs, sub.pending_bytes) == (500, 0, 0)


async def test_what_a_message_has(nc: Any) -> None:
    where = subject()
    sub = await nc.subscribe(f"{where}.*")
    await nc.publish(f"{where}.one", b"data", reply="answers.here")
    await nc.publish(f"{where}.two")
    msgs = [await sub.next_msg(timeout=10), await sub.next_msg(timeout=10)]
    found = [(msg.subject.removeprefix(where), msg.reply, msg.data, msg.headers, msg.header) for msg in msgs]
    assert found == [(".one", "answers.here", b"data", None, None), (".two", "", b"", None, None)]
    assert [type(msg.data) for msg in msgs] == [bytes, bytes]
    assert (sub.subject, sub.queue, msgs[0].is_acked) == (f"{where}.*", "", False)


@pytest.mark.parametrize("payload", [b"", b"\r\n\r\n", bytes(range(256)), LARGE.encode()], ids=len)
async def test_payloads(nc: Any, payload: bytes) -> None:
    sub = await nc.subscribe(where := subject())
    await nc.publish(where, payload)
    assert (await sub.next_msg(timeout=10)).data == payload


async def test_wildcards(nc: Any) -> None:
    where = subject()
    names = ["one", "one.two", "one.two.three"]
    filters = [f"{where}.>", f"{where}.*", f"{where}.*.two", f"{where}.one.two"]
    subs = [await nc.subscribe(name) for name in filters]
    for name in names:
        await nc.publish(f"{where}.{name}")
    await arrived(subs[0], 3)
    await settle(nc)
    assert [sub.pending_msgs for sub in subs] == [3, 1, 1, 1]


async def test_next_msg(face: Face, nc: Any) -> None:
    sub = await nc.subscribe(where := subject())
    failures = [await face.failure(sub.next_msg(timeout=0.05))]
    await nc.publish(where, b"late")
    assert (await sub.next_msg(timeout=None)).data == b"late"
    with_callback = await nc.subscribe(where, cb=Collector().callback)
    failures.append(await face.failure(with_callback.next_msg()))
    assert failures == ["errors.TimeoutError", "errors.Error"]


async def test_a_timeout_is_also_asyncio_s(face: Face, nc: Any) -> None:
    sub = await nc.subscribe(subject())
    with pytest.raises(asyncio.TimeoutError):
        await sub.next_msg(timeout=0.01)
    with pytest.raises(face.errors.Error):
        await sub.next_msg(timeout=0.01)


async def test_iteration_ends_with_the_subscription(face: Face) -> None:
    async def read(sub: Any) -> list[bytes]:
        return [msg.data async for msg in sub.messages]

    async def run(end: str) -> list[bytes]:
        nc = await face.connect()
        sub = await nc.subscribe(where := subject())
        reading = asyncio.create_task(read(sub))
        for number in range(3):
            await nc.publish(where, b"%d" % number)
        await arrived(sub, 3)
        await until(lambda: not sub.pending_msgs)
        await (nc.close() if end == "close" else getattr(sub, end)())
        return await asyncio.wait_for(reading, 20)

    assert [await run(end) for end in ("unsubscribe", "drain", "close")] == [[b"0", b"1", b"2"]] * 3


async def test_no_iteration_beside_a_callback(face: Face, nc: Any) -> None:
    sub = await nc.subscribe(subject(), cb=Collector().callback)
    with pytest.raises(face.errors.Error):
        _ = sub.messages


async def test_next_msg_ends_when_the_connection_is_closed(face: Face, nc: Any) -> None:
    sub = await nc.subscribe(subject())
    waiting = asyncio.create_task(face.failure(sub.next_msg(timeout=5)))
    await asyncio.sleep(0.01)
    await nc.close()
    assert await waiting == "errors.ConnectionClosedError"


async def test_a_queue_group_shares(face: Face) -> None:
    where, got = subject(), [Collector() for _ in range(3)]
    first, second = await face.connect(), await face.connect()
    members = [
        await nc.subscribe(where, queue="workers", cb=one.callback)
        for nc, one in zip((first, second, second), got, strict=True)
    ]
    everything = Collector()
    await second.subscribe(where, "others", everything.callback)
    await settle(second)
    for number in range(300):
        await first.publish(where, b"%d" % number)
    await everything.wait(300)
    await until(lambda: sum(len(one.all) for one in got) >= 300)
    counts = Counter(data for one in got for data in one.data)
    assert set(counts.values()) == {1}
    assert all(one.all for one in got)
    assert {sub.queue for sub in members} == {"workers"}


async def test_callbacks_of_a_subscription_take_turns(nc: Any) -> None:
    where, log = subject(), Collector()

    def slow(name: str) -> Any:
        async def run(msg: Any) -> None:
            log.add(f"{name} begins")
            await asyncio.sleep(0.02)
            log.add(f"{name} ends")

        return run

    await nc.subscribe(where, cb=slow("one"))
    await nc.subscribe(where, cb=slow("two"))
    await nc.publish(where)
    await nc.publish(where)
    lines = await log.wait(8)
    assert [line for line in lines if "one" in line] == ["one begins", "one ends"] * 2
    assert [line for line in lines if "two" in line] == ["two begins", "two ends"] * 2
    assert sorted(lines[:2]) == ["one begins", "two begins"]


async def test_a_callback_that_fails(face: Face) -> None:
    errors, got, where = Collector(), Collector(), subject()
    nc = await face.connect(error_cb=errors.callback)

    async def fail(msg: Any) -> None:
        if msg.data == b"bad":
            raise KeyError("no such thing")
        got.add(msg)

    await nc.subscribe(where, cb=fail)
    await nc.publish(where, b"bad")
    await nc.publish(where, b"good")
    await got.wait(1)
    assert (got.data, [repr(error) for error in errors.all]) == ([b"good"], ["KeyError('no such thing')"])


async def test_what_may_be_a_callback(face: Face, nc: Any) -> None:
    got, where = Collector(), subject()

    async def named(msg: Any, name: str) -> None:
        got.add((name, msg.data))

    class Handler:
        async def method(self, msg: Any) -> None:
            got.add(("method", msg.data))

    await nc.subscribe(where, cb=functools.partial(named, name="partial"))
    await nc.subscribe(where, cb=Handler().method)
    await nc.publish(where, b"x")
    assert sorted(await got.wait(2)) == [("method", b"x"), ("partial", b"x")]
    assert await face.failure(nc.subscribe(where, cb=lambda msg: None)) == "errors.Error"


async def test_a_callback_may_publish_and_subscribe(nc: Any) -> None:
    where, got = subject(), Collector()

    async def relay(msg: Any) -> None:
        inner = await nc.subscribe(f"{where}.answer", cb=got.callback)
        await nc.publish(f"{where}.answer", msg.data * 2)
        await settle(nc)
        await inner.unsubscribe()

    await nc.subscribe(where, cb=relay)
    await nc.publish(where, b"ab")
    await got.wait(1)
    assert got.data == [b"abab"]


async def test_a_future_gets_the_first_message(nc: Any) -> None:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    await nc.subscribe(where := subject(), future=future, max_msgs=1)
    await nc.publish(where, b"first")
    assert (await asyncio.wait_for(future, 20)).data == b"first"


async def test_unsubscribe(face: Face, nc: Any) -> None:
    where, got = subject(), Collector()
    sub = await nc.subscribe(where, cb=got.callback)
    await nc.publish(where, b"one")
    await got.wait(1)
    await sub.unsubscribe()
    await nc.publish(where, b"two")
    await settle(nc)
    kinds = [await face.failure(call) for call in (sub.unsubscribe(), sub.drain())]
    assert (got.data, kinds) == ([b"one"], ["errors.BadSubscriptionError"] * 2)


async def test_unsubscribe_after_so_many(face: Face, nc: Any) -> None:
    where, got = subject(), Collector()
    by_callback = await nc.subscribe(where, cb=got.callback)
    by_iteration = await nc.subscribe(where)
    for sub in (by_callback, by_iteration):
        await sub.unsubscribe(limit=3)
    for number in range(6):
        await nc.publish(where, b"%d" % number)
    await settle(nc)
    iterated = [msg.data async for msg in by_iteration.messages]
    await got.wait(3)
    await settle(nc)
    assert iterated == got.data == [b"0", b"1", b"2"]
    assert (by_callback.delivered, by_iteration.delivered) == (3, 3)


async def test_unsubscribe_after_fewer_than_came(nc: Any) -> None:
    where = subject()
    sub = await nc.subscribe(where)
    for number in range(4):
        await nc.publish(where, b"%d" % number)
    await arrived(sub, 4)
    got = [(await sub.next_msg(timeout=10)).data for _ in range(4)]
    await sub.unsubscribe(limit=2)
    await nc.publish(where, b"more")
    await settle(nc)
    assert (got, sub.pending_msgs) == ([b"0", b"1", b"2", b"3"], 0)


async def test_max_msgs(nc: Any) -> None:
    where = subject()
    sub = await nc.subscribe(where, max_msgs=2)
    for number in range(4):
        await nc.publish(where, b"%d" % number)
    await settle(nc)
    assert [msg.data async for msg in sub.messages] == [b"0", b"1"]


async def test_drain_of_a_subscription(face: Face, nc: Any) -> None:
    where, got = subject(), Collector()

    async def slow(msg: Any) -> None:
        await asyncio.sleep(0.005)
        got.add(msg)

    sub = await nc.subscribe(where, cb=slow)
    for number in range(10):
        await nc.publish(where, b"%d" % number)
    await arrived(sub, 10)
    await sub.drain()
    after = list(got.data)
    await nc.publish(where, b"late")
    await settle(nc)
    assert after == got.data == [b"%d" % number for number in range(10)]
    assert await face.failure(sub.drain()) == "errors.BadSubscriptionError"
    assert nc.is_connected


async def test_pending(nc: Any) -> None:
    sub = await nc.subscribe(where := subject())
    for size in (10, 20, 30):
        await nc.publish(where, b"x" * size)
    await arrived(sub, 3)
    before = (sub.pending_msgs, sub.pending_bytes, sub.delivered)
    await sub.next_msg(timeout=10)
    assert (before, (sub.pending_msgs, sub.pending_bytes, sub.delivered)) == ((3, 60, 3), (2, 50, 3))


async def test_slow_consumer_by_messages(face: Face) -> None:
    errors = Collector()
    nc = await face.connect(error_cb=errors.callback)
    sub = await nc.subscribe(where := subject(), pending_msgs_limit=5)
    for number in range(12):
        await nc.publish(where, b"%d" % number)
    await arrived(sub, 12)
    found = await errors.wait(1)
    told = {(face.kind(error), error.subject, error.sub is sub) for error in found}
    assert told == {("errors.SlowConsumerError", where, True)}
    assert (sub.pending_msgs, sub.delivered) == (5, 12)
    assert [(await sub.next_msg(timeout=10)).data for _ in range(5)] == [b"%d" % number for number in range(5)]
    await nc.publish(where, b"again")
    assert (await sub.next_msg(timeout=10)).data == b"again"


async def test_slow_consumer_by_bytes(face: Face) -> None:
    errors = Collector()
    nc = await face.connect(error_cb=errors.callback)
    sub = await nc.subscribe(where := subject(), pending_bytes_limit=100)
    unlimited = await nc.subscribe(where, pending_bytes_limit=0)
    for _ in range(5):
        await nc.publish(where, b"x" * 40)
    await arrived(sub, 5)
    await arrived(unlimited, 5)
    assert {face.kind(error) for error in await errors.wait(1)} == {"errors.SlowConsumerError"}
    assert [(s.pending_msgs, s.pending_bytes) for s in (sub, unlimited)] == [(2, 80), (5, 200)]


async def test_slow_consumer_with_a_callback(face: Face) -> None:
    errors, got, go_on = Collector(), Collector(), asyncio.Event()
    nc = await face.connect(error_cb=errors.callback)

    async def wait(msg: Any) -> None:
        got.add(msg)
        await go_on.wait()

    sub = await nc.subscribe(where := subject(), cb=wait, pending_msgs_limit=3)
    await nc.publish(where, b"0")
    await got.wait(1)
    for number in range(1, 7):
        await nc.publish(where, b"%d" % number)
    await errors.wait(1)
    await arrived(sub, 7)
    go_on.set()
    await got.wait(4)
    await settle(nc)
    assert (got.data, sub.delivered) == ([b"0", b"1", b"2", b"3"], 7)


async def test_a_flush_brings_what_is_on_its_way(nc: Any) -> None:
    sub = await nc.subscribe(where := subject())
    for _ in range(1000):
        await nc.publish(where)
    await settle(nc)
    assert (sub.pending_msgs, sub.delivered) == (1000, 1000)
