"""Pull subscriptions: the same with both clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ..tools import until
from .face import Face, asked, make_stream, spread, subject


def data(msgs: list[Any]) -> list[bytes]:
    return [msg.data for msg in msgs]


async def ack_all(msgs: list[Any]) -> list[bytes]:
    for msg in msgs:
        await msg.ack()
    return data(msgs)


async def test_fetch(js: Any, stream: str) -> None:
    await spread(js, stream, 5)
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    found = [await ack_all(await sub.fetch()), await ack_all(await sub.fetch(3)), await ack_all(await sub.fetch(10))]
    assert found == [[b"0"], [b"1", b"2", b"3"], [b"4"]]
    assert (sub.pending_msgs, sub.pending_bytes) == (0, 0)


async def test_many_at_once(js: Any, stream: str) -> None:
    await asyncio.gather(*(js.publish(f"{stream}.a", b"%d" % number) for number in range(300)))
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    found: list[bytes] = []
    while len(found) < 300:
        found += await ack_all(await sub.fetch(100, timeout=5))
    assert sorted(int(item) for item in found) == list(range(300))


@pytest.mark.parametrize("batch", [1, 5])
async def test_nothing_comes(face: Face, js: Any, stream: str, batch: int) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    loop = asyncio.get_running_loop()
    begin = loop.time()
    with pytest.raises(face.late):
        await sub.fetch(batch, timeout=0.3)
    # The default is 5 s.
    assert 0.2 < loop.time() - begin < 4.5
    with pytest.raises(asyncio.TimeoutError):
        await sub.fetch(batch, timeout=0.05)


@pytest.mark.parametrize("batch", [1, 5])
async def test_nothing_comes_but_heartbeats(face: Face, js: Any, stream: str, batch: int) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    failure = await face.failure(sub.fetch(batch, timeout=5, heartbeat=0.1))
    assert failure == "js.errors.FetchTimeoutError"
    await asked(sub, 0)  # nats-py may give up before the server does, and a message in between is lost
    await spread(js, stream, 1)
    if face.name == "nats":
        # On a busy machine its last request has too little time left for such heartbeats, and the server's word on that
        # comes to the next call of the subscription.
        sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    assert data(await sub.fetch(batch, timeout=5, heartbeat=1)) == [b"0"]


async def test_it_waits_for_the_first(js: Any, stream: str) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    waiting = asyncio.create_task(sub.fetch(1, timeout=5))
    await asked(sub, 1)
    await spread(js, stream, 1)
    assert data(await waiting) == [b"0"]


async def test_without_a_timeout(js: Any, stream: str) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    waiting = asyncio.create_task(sub.fetch(1, timeout=None))
    await asked(sub, 1)
    await spread(js, stream, 1)
    assert data(await asyncio.wait_for(waiting, 20)) == [b"0"]


@pytest.mark.parametrize("options", [{"batch": 0}, {"batch": -1}, {"timeout": 0}, {"timeout": -1}])
async def test_what_makes_no_sense(face: Face, js: Any, stream: str, options: dict[str, Any]) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    assert await face.failure(sub.fetch(**options)) == "ValueError"


async def test_a_durable_is_taken_up_again(js: Any, stream: str) -> None:
    await spread(js, stream, 4)
    first = await js.pull_subscribe(f"{stream}.>", durable="work")
    found = await ack_all(await first.fetch(2))
    await first.unsubscribe()
    second = await js.pull_subscribe(f"{stream}.>", durable="work")
    assert found + await ack_all(await second.fetch(2)) == [b"0", b"1", b"2", b"3"]


async def test_two_share_a_consumer(face: Face, stream: str) -> None:
    first, second = (await face.connect()).jetstream(), (await face.connect()).jetstream()
    await spread(first, stream, 6)
    subs = [await js.pull_subscribe(f"{stream}.>", durable="work") for js in (first, second)]
    found = await ack_all(await subs[0].fetch(3)) + await ack_all(await subs[1].fetch(3))
    assert found == [b"%d" % number for number in range(6)]


async def test_an_ephemeral(js: Any, stream: str) -> None:
    await spread(js, stream, 1)
    sub = await js.pull_subscribe(f"{stream}.>")
    assert await ack_all(await sub.fetch()) == [b"0"]
    info = await sub.consumer_info()
    assert (info.config.durable_name, info.config.deliver_subject) == (None, None)
    assert len(info.name) > 0


@pytest.mark.parametrize("name", ["consumer", "durable", "name"])
async def test_bind(js: Any, stream: str, name: str) -> None:
    await spread(js, stream, 2)
    await js.add_consumer(stream, durable_name="work", ack_policy="explicit")
    sub = await js.pull_subscribe_bind(stream=stream, **{name: "work"})
    assert await ack_all(await sub.fetch(2)) == [b"0", b"1"]
    assert (await sub.consumer_info()).name == "work"


async def test_bind_by_position(js: Any, stream: str) -> None:
    await spread(js, stream, 1)
    await js.add_consumer(stream, durable_name="work", ack_policy="explicit")
    sub = await js.pull_subscribe_bind("work", stream)
    assert await ack_all(await sub.fetch(1)) == [b"0"]


async def test_bind_needs_a_stream(face: Face, js: Any) -> None:
    assert await face.failure(js.pull_subscribe_bind("work")) == "ValueError"


async def test_configuration(face: Face, js: Any, stream: str) -> None:
    await spread(js, stream, 6)
    config = face.api.ConsumerConfig(ack_wait=7, max_deliver=3, max_ack_pending=2, description="all of it")
    sub = await js.pull_subscribe(f"{stream}.1", "work", config=config)
    assert await ack_all(await sub.fetch(2)) == [b"1", b"4"]
    found = (await sub.consumer_info()).config
    told = (found.ack_wait, found.max_deliver, found.max_ack_pending, found.description, found.filter_subject)
    assert told == (7, 3, 2, "all of it", f"{stream}.1")


async def test_several_filters(face: Face, js: Any, stream: str) -> None:
    await spread(js, stream, 6)
    config = face.api.ConsumerConfig(filter_subjects=[f"{stream}.0", f"{stream}.2"])
    sub = await js.pull_subscribe("", "work", stream=stream, config=config)
    assert await ack_all(await sub.fetch(4)) == [b"0", b"2", b"3", b"5"]


async def test_too_many_unacknowledged(face: Face, js: Any, stream: str) -> None:
    await spread(js, stream, 4)
    sub = await js.pull_subscribe(f"{stream}.>", "work", config=face.api.ConsumerConfig(max_ack_pending=2))
    held = await sub.fetch(4, timeout=5)
    nothing = await face.nothing_comes(sub.fetch(1, timeout=0.2))
    assert (data(held), nothing) == ([b"0", b"1"], True)
    await ack_all(held)
    assert data(await sub.fetch(1)) == [b"2"]


async def test_no_such_stream(face: Face, js: Any) -> None:
    kinds = [
        await face.failure(js.pull_subscribe(subject(), durable="work")),
        await face.failure(js.pull_subscribe(subject(), stream="NONE")),
    ]
    assert kinds == ["js.errors.NotFoundError"] * 2


async def test_a_cancelled_fetch(js: Any, stream: str) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    task = asyncio.create_task(sub.fetch(1, timeout=5))
    await asked(sub, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # nats-py leaves its request at the server, where it ends by itself.
    await asked(sub, 0)
    await spread(js, stream, 1)
    assert data(await sub.fetch(1)) == [b"0"]


async def test_unsubscribe(face: Face, js: Any, stream: str) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    await sub.unsubscribe()
    assert (await js.consumer_info(stream, "work")).name == "work"
    assert await face.failure(sub.unsubscribe()) == "errors.BadSubscriptionError"


async def test_what_expired_while_nobody_asked(js: Any) -> None:
    stream = await make_stream(js, max_age=0.5)
    await spread(js, stream, 2)
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")

    async def empty() -> bool:
        return (await js.stream_info(stream)).state.messages == 0

    await until(empty)
    await js.publish(f"{stream}.a", b"new")
    assert data(await sub.fetch(1)) == [b"new"]


async def test_headers_come_with_it(js: Any, stream: str) -> None:
    await js.publish(f"{stream}.a", b"x", headers={"Name": "value"})
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    msg = (await sub.fetch())[0]
    assert (msg.headers, msg.subject, msg.data) == ({"Name": "value"}, f"{stream}.a", b"x")


async def test_delivered_counts(js: Any, stream: str) -> None:
    await spread(js, stream, 3)
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    await sub.fetch(1)
    await sub.fetch(1)
    assert sub.delivered == 2
