"""Core messaging: publish, subscribe, request, drain."""

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
    assert [int((await sub.next_msg()).data) for _ in range(3000)] == list(range(3000))
    assert (sub.pending_msgs, sub.pending_bytes, sub.delivered, sub.dropped) == (0, 0, 3000, 0)


async def test_headers_keep_all_values_and_the_callers_dict(nc: Client, subject: str) -> None:
    sub = await nc.subscribe(subject)
    given = {" One ": " a\r\nb ", "Two": ["x", "y"]}
    await nc.publish(subject, b"", reply="answer.here", headers=given)
    msg = await sub.next_msg()
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
        await asyncio.wait_for(slow.wait(), 5)
        assert (by_number.pending_msgs, by_number.dropped, by_number.delivered) == (10, 40, 50)
        assert (by_bytes.pending_bytes, by_bytes.dropped) == (100, 40)
        assert isinstance(told[0], errors.SlowConsumerError)


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
    await asyncio.wait_for(nc.close(), 5)
    await asyncio.wait_for(cancelled.wait(), 5)


async def test_two_callbacks_that_close_do_not_wait_for_each_other(nats_url: str, subject: str) -> None:
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
    await until(lambda: len(done) == 2, patience=1.5)


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


async def test_a_future_gets_the_first_message(nc: Client, subject: str) -> None:
    future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
    await nc.subscribe(subject, future=future)
    await nc.publish(subject, b"first")
    assert (await asyncio.wait_for(future, 5)).data == b"first"


async def test_waiting_for_messages_ends_with_the_connection(nats_url: str, subject: str) -> None:
    nc = await jetarrow.connect(nats_url)
    sub = await nc.subscribe(subject)
    waiting = asyncio.create_task(sub.next_msg(timeout=30))
    iterating = asyncio.create_task(anext(sub.messages, None))
    await nc.flush()
    await nc.close()
    with pytest.raises(errors.ConnectionClosedError):
        await asyncio.wait_for(waiting, 5)
    assert await asyncio.wait_for(iterating, 5) is None


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


async def test_a_forgotten_client_goes_with_its_subscriptions(nats_url: str, subject: str) -> None:
    nc = await jetarrow.connect(nats_url)
    sub = await nc.subscribe(subject)
    await nc.flush()
    gone = weakref.ref(nc)
    del nc, sub
    gc.collect()
    assert gone() is None


def test_blocking(nats_url: str, subject: str) -> None:
    with jetarrow.sync.connect(nats_url) as nc:
        sub = nc.subscribe(subject)
        for number in range(100):
            nc.publish(subject, b"%d" % number)
        nc.flush()
        assert sub.next_msg().data == b"0"
        assert sub.pending_msgs == 99
        sub.drain()
        assert [int(msg.data) for msg in sub] == list(range(1, 100))
        with pytest.raises(errors.NoRespondersError):
            nc.request(subject)
        with pytest.raises(errors.TimeoutError):
            nc.subscribe(subject).next_msg(timeout=0.05)
        with pytest.raises(TypeError):
            nc.subscribe(subject, cb=print)
        assert 0 < nc.rtt() < 5
