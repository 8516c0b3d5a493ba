"""Core messaging: publish, subscribe, request, drain."""

from __future__ import annotations

import asyncio
import uuid

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg
from jetarrow.server import NatsServer

from .tools import until


@pytest.fixture
def subject() -> str:
    return f"core.{uuid.uuid4().hex[:10]}"


async def test_messages_come_in_order(nc: Client, subject: str) -> None:
    sub = await nc.subscribe(subject)
    for number in range(3000):
        await nc.publish(subject, str(number))
    await nc.flush()
    assert [int((await sub.next_msg(timeout=10)).data) for _ in range(3000)] == list(range(3000))
    assert (sub.pending_msgs, sub.pending_bytes, sub.delivered, sub.dropped) == (0, 0, 3000, 0)


async def test_headers_keep_all_values_and_the_callers_dict(nc: Client, subject: str) -> None:
    sub = await nc.subscribe(subject)
    given = {" One ": " a\r\nb ", "Two": ["x", "y"]}
    await nc.publish(subject, b"", reply="answer.here", headers=given)
    msg = await sub.next_msg(timeout=10)
    assert given == {" One ": " a\r\nb ", "Two": ["x", "y"]}
    assert msg.headers == {"One": "a  b", "Two": "y"}
    assert msg.headers_all == {"One": ["a  b"], "Two": ["x", "y"]}
    assert msg.reply == "answer.here"
    with pytest.raises(errors.BadHeaderError):
        await nc.publish(subject, b"", headers={"a:b": "c"})


async def test_callbacks_of_one_subscription_never_overlap(nc: Client, subject: str) -> None:
    inside = most = 0
    seen: list[int] = []
    done = asyncio.Event()

    async def one(msg: Msg) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        seen.append(int(msg.data))
        if len(seen) == 200:
            done.set()

    await nc.subscribe(subject, cb=one)
    for number in range(200):
        await nc.publish(subject, b"%d" % number)
    await asyncio.wait_for(done.wait(), 10)
    assert seen == list(range(200))
    assert most == 1


async def test_callbacks_of_two_subscriptions_do(nc: Client, subject: str) -> None:
    both = asyncio.Barrier(2)

    async def meet(msg: Msg) -> None:
        await both.wait()
        await nc.publish(msg.reply, b"met")

    await nc.subscribe(subject, cb=meet)
    await nc.subscribe(subject, cb=meet)
    assert (await nc.request(subject, timeout=5)).data == b"met"


async def test_an_error_in_a_callback_does_not_end_it(
    nc: Client, subject: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(msg: Msg) -> None:
        if msg.data == b"bad":
            raise ValueError("no")
        await nc.publish(msg.reply, b"good")

    await nc.subscribe(subject, cb=fail)
    await nc.publish(subject, b"bad")
    assert (await nc.request(subject, b"", timeout=5)).data == b"good"
    assert "ValueError: no" in caplog.text


async def test_a_callback_that_never_waits_leaves_the_loop_its_turns(nc: Client, subject: str) -> None:
    turns = 0
    done = asyncio.Event()
    count = 0

    async def greedy(msg: Msg) -> None:
        nonlocal count
        count += 1
        if count == 20_000:
            done.set()

    async def tick() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    sub = await nc.subscribe(subject, cb=greedy)
    ticker = asyncio.create_task(tick())
    for _ in range(20_000):
        await nc.publish(subject, b"")
    await asyncio.wait_for(done.wait(), 20)
    await ticker
    assert turns > 20
    assert sub.delivered == 20_000


async def test_queue_group_members_share(nc: Client, subject: str) -> None:
    subs = [await nc.subscribe(subject, queue="workers") for _ in range(3)]
    for _ in range(300):
        await nc.publish(subject)
    await nc.flush()
    counts = [sub.pending_msgs for sub in subs]
    assert sum(counts) == 300
    assert all(counts)


async def test_limits_count_exactly_what_they_drop(nats_url: str, subject: str) -> None:
    told: list[Exception] = []
    slow = asyncio.Event()

    async def error(err: Exception) -> None:
        told.append(err)
        slow.set()

    async with await jetarrow.connect(nats_url, error_cb=error) as nc:
        by_number = await nc.subscribe(subject, pending_msgs_limit=10)
        by_bytes = await nc.subscribe(subject, pending_bytes_limit=100)
        for _ in range(50):
            await nc.publish(subject, b"x" * 10)
        await nc.flush()
        await asyncio.wait_for(slow.wait(), 20)
        assert (by_number.pending_msgs, by_number.dropped, by_number.delivered) == (10, 40, 50)
        assert (by_bytes.pending_bytes, by_bytes.dropped) == (100, 40)
        assert isinstance(told[0], errors.SlowConsumerError)


async def test_a_future_gets_the_first_message(nc: Client, subject: str) -> None:
    future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
    await nc.subscribe(subject, future=future)
    await nc.publish(subject, b"first")
    assert (await asyncio.wait_for(future, 20)).data == b"first"


async def test_the_buffer_is_bounded_while_disconnected(own_server: NatsServer, subject: str) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        sub = await nc.subscribe(subject)
        await nc.flush()
        own_server.stop()
        await until(lambda: not nc.is_connected)
        with pytest.raises(errors.OutboundBufferLimitError):
            for _ in range(10_000):
                await nc.publish(subject, b"x" * 1_000)
        assert 1_000_000 < nc.pending_data_size <= 2 * 1024 * 1024
        own_server.restart()
        await asyncio.wait_for(sub.next_msg(timeout=20), 20)


@pytest.mark.parametrize("bad", ["", "a b", "a..b", ".a", "a.", "a\r\nPUB b 0", "a.>.b"])
async def test_bad_subjects(nc: Client, bad: str) -> None:
    with pytest.raises(errors.BadSubjectError):
        await nc.subscribe(bad)
    with pytest.raises(errors.BadSubjectError):
        await nc.publish(bad)
    with pytest.raises(errors.BadSubjectError):
        await nc.request(bad)
    with pytest.raises(errors.BadSubjectError):
        await nc.publish("good", reply=bad or " ")
    await nc.flush()


async def test_callbacks_must_be_coroutine_functions(nc: Client, subject: str) -> None:
    with pytest.raises(errors.Error):
        await nc.subscribe(subject, cb=lambda msg: None)  # type: ignore[arg-type,return-value]


def test_blocking(nats_url: str, subject: str) -> None:
    with jetarrow.sync.connect(nats_url) as nc:
        sub = nc.subscribe(subject)
        for number in range(100):
            nc.publish(subject, b"%d" % number)
        nc.flush()
        assert sub.next_msg(timeout=10).data == b"0"
        assert sub.pending_msgs == 99
        sub.drain()
        assert [int(msg.data) for msg in sub] == list(range(1, 100))
        with pytest.raises(errors.NoRespondersError):
            nc.request(subject, timeout=30)
        with pytest.raises(errors.TimeoutError):
            nc.subscribe(subject).next_msg(timeout=0.05)
        with pytest.raises(TypeError):
            nc.subscribe(subject, cb=print)
        assert 0 < nc.rtt() < 5
