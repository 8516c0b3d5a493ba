"""Push subscriptions of JetStream, and pull subscriptions by other names."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.aio.msg import Msg
from jetarrow.js import api
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import Error, NotFoundError
from jetarrow.server import NatsServer

from .tools import fill, store, until


async def test_callbacks_acknowledge_what_they_processed(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 50)
    seen: list[int] = []
    done = asyncio.Event()

    async def note(msg: Msg) -> None:
        seen.append(int(msg.data))
        if len(seen) == 50:
            done.set()

    sub = await js.subscribe(f"{stream}.>", durable="auto", cb=note)
    await asyncio.wait_for(done.wait(), 10)
    assert seen == list(range(1, 51))
    await sub.drain()

    async def all_known() -> bool:
        # The server processes acks asynchronously: a request sent after them may be answered before.
        info = await js.consumer_info(stream, "auto")
        return (info.num_ack_pending, info.ack_floor.stream_seq if info.ack_floor else None) == (0, 50)

    await until(all_known)


async def test_subscribe_accepts_synchronous_callback(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3)
    seen: list[bytes] = []
    await js.subscribe(f"{stream}.>", cb=lambda msg: seen.append(msg.data))
    await until(lambda: len(seen) >= 3)
    assert seen == [b"1", b"2", b"3"]


async def test_manual_acks(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 2)
    sub = await js.subscribe(f"{stream}.>", durable="manual", manual_ack=True)
    first = await sub.next_msg(timeout=5)
    await first.ack()
    with pytest.raises(errors.MsgAlreadyAckdError):
        await first.ack()
    second = await sub.next_msg(timeout=5)
    assert (second.seq, second.metadata.num_delivered) == (2, 1)
    await second.ack_sync(timeout=5)
    assert (await sub.consumer_info()).num_ack_pending == 0


async def test_queue_members_share_one_consumer(js: JetStreamContext, stream: str) -> None:
    subs = [await js.subscribe(f"{stream}.>", queue="workers") for _ in range(3)]
    await fill(js, stream, 300)
    await until(lambda: sum(sub.delivered for sub in subs) == 300)
    assert all(sub.delivered for sub in subs)
    with pytest.raises(Error, match="deliver group"):
        await js.subscribe(f"{stream}.>", durable="workers")


async def test_a_bound_consumer_is_refused(js: JetStreamContext, stream: str) -> None:
    await js.subscribe(f"{stream}.>", durable="mine")
    with pytest.raises(Error, match="already bound"):
        await js.subscribe(f"{stream}.>", durable="mine")


async def test_bind_in_both_spellings(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 2)
    info = await js.add_consumer(stream, durable_name="push", deliver_subject=f"deliver.{stream}")
    sub = await js.subscribe_bind(stream, "push")
    assert (await sub.next_msg(timeout=5)).data == b"1"
    await sub.unsubscribe()
    sub = await js.subscribe_bind(stream, info.config, "push")
    assert (await sub.consumer_info()).name == "push"
    pulled = await js.add_consumer(stream, durable_name="pulled")
    with pytest.raises(TypeError):
        await js.subscribe_bind(stream, pulled.name)


async def test_flow_control_with_a_slow_reader(js: JetStreamContext, stream: str) -> None:
    payload = b"x" * 1024
    await store(js, f"{stream}.a", [payload] * 20_000)
    sub = await js.subscribe(f"{stream}.>", flow_control=True, idle_heartbeat=0.5, ack_policy="none")
    await until(lambda: sub.pending_msgs)
    seen = 0
    async for _ in sub.messages:
        seen += 1
        if seen == 20_000:
            break
    assert (sub.dropped, sub.delivered) == (0, 20_000)


async def test_ordered_sees_everything_once(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 20_000)
    sub = await js.subscribe(f"{stream}.>", ordered_consumer=True)
    numbers: list[int] = []
    async for msg in sub.messages:
        numbers.append(int(msg.data))
        if len(numbers) == 20_000:
            break
    assert numbers == list(range(1, 20_001))
    assert (await sub.consumer_info()).config.ack_policy == api.AckPolicy.NONE


async def test_ordered_begins_anew_when_its_limits_dropped_something(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 5_000)
    sub = await js.subscribe(f"{stream}.>", ordered_consumer=True, pending_msgs_limit=100)
    numbers: list[int] = []
    async for msg in sub.messages:
        numbers.append(int(msg.data))
        if len(numbers) == 5_000:
            break
    assert numbers == list(range(1, 5_001))


async def test_ordered_begins_anew_when_its_consumer_is_gone(js: JetStreamContext, stream: str) -> None:
    sub = await js.subscribe(f"{stream}.>", ordered_consumer=True, idle_heartbeat=1)
    await fill(js, stream, 10)
    assert [int((await sub.next_msg(timeout=5)).data) for _ in range(10)] == list(range(1, 11))
    first = (await sub.consumer_info()).name
    waiting = asyncio.create_task(sub.next_msg(timeout=20))
    await js.delete_consumer(stream, first)

    async def anew() -> bool:
        return [name async for name in js.stream(stream).consumer_names()] not in ([], [first])

    await until(anew)
    await js.publish(f"{stream}.a", b"11")
    assert (await waiting).seq == 11
    assert (sub.delivered, (await sub.consumer_info()).name != first) == (11, True)


async def test_ordered_lives_through_a_restart(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["S.>"])
        await fill(js, "S", 100)
        sub = await js.subscribe("S.>", ordered_consumer=True, idle_heartbeat=0.3)
        seen: list[int | None] = []

        async def collect() -> None:
            async for msg in sub.messages:
                seen.append(msg.seq)
                if len(seen) == 200:
                    return

        collecting = asyncio.create_task(collect())
        await until(lambda: len(seen) >= 50)
        own_server.kill()
        await until(lambda: not nc.is_connected)
        own_server.restart()
        await until(lambda: nc.is_connected)
        await fill(js, "S", 100)
        await asyncio.wait_for(collecting, 20)
        assert seen == list(range(1, 201))


async def test_ordered_ends_when_the_stream_is_deleted(js: JetStreamContext) -> None:
    await js.add_stream(name="GONE", subjects=["gone.>"])
    sub = await js.subscribe("gone.>", ordered_consumer=True, idle_heartbeat=0.2)
    iterating = asyncio.create_task(anext(sub.messages, None))
    await asyncio.sleep(0)
    await js.delete_stream("GONE")
    assert await asyncio.wait_for(iterating, 10) is None


async def test_pull_bind_in_both_orders(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 4)
    await js.add_consumer(stream, durable_name="c")
    for sub in (
        await js.pull_subscribe_bind("c", stream),
        await js.pull_subscribe_bind(stream, "c"),
        await js.pull_subscribe_bind(consumer="c", stream=stream),
        await js.pull_subscribe_bind(durable="c", stream=stream),
    ):
        [msg] = await sub.fetch(1, timeout=5)
        await msg.ack()
    with pytest.raises(ValueError, match="stream name is required"):
        await js.pull_subscribe_bind("c")
    with pytest.raises(NotFoundError):
        await (await js.pull_subscribe_bind("none", stream)).consumer_info()


async def test_iteration_yields_what_pull_asked_for(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 10)
    sub = await js.pull_subscribe(f"{stream}.>", durable="asked")
    sub.pull(3, expires=5)
    seen: list[int | None] = []
    async for msg in sub:
        await msg.ack_sync(timeout=20)
        seen.append(msg.seq)
        if len(seen) == 3:
            assert (await sub.consumer_info()).num_pending == 7
            sub.pull(batch=2)
        if len(seen) == 5:
            break
    assert seen == [1, 2, 3, 4, 5]
    info = await sub.consumer_info()
    assert (info.num_pending, info.num_ack_pending) == (5, 0)


def test_sync_push_and_pull_subscriptions(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    for number in range(20):
        sync_js.publish(f"{stream}.a", b"%d" % number)
    sub = sync_js.subscribe(f"{stream}.>", ordered_consumer=True)
    assert [int(next(iter(sub)).data) for _ in range(20)] == list(range(20))
    with pytest.raises(TypeError):
        sync_js.subscribe(f"{stream}.>", cb=print)
    pull = sync_js.pull_subscribe(f"{stream}.>", durable="p")
    pull.pull(5)
    asked = [msg.data for msg in pull]
    assert len(asked) == 5
    consumed = pull.consume(4)
    assert len([next(consumed).ack() for _ in range(8)]) == 8
    assert sync_js.pull_subscribe_bind(stream, "p").consumer_info().name == "p"
    with pytest.raises(errors.TimeoutError):
        sync_js.subscribe(f"{stream}.>", durable="d", deliver_policy="new").next_msg(timeout=0.1)


async def test_the_prefix_of_the_api_has_two_names(nats_url: str, stream: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        for options in ({"prefix": "$JS.API"}, {"api_prefix": "$JS.API"}):
            assert (await nc.jetstream(**options).stream_info(stream)).config.name == stream
        with pytest.raises(TypeError, match="one of them"):
            nc.jetstream(prefix="a", api_prefix="b")


@pytest.mark.parametrize("taken", [0, 2, 5], ids=["none_taken", "some_taken", "all_taken"])
async def test_a_deleted_ordered_consumer_is_made_anew_while_nobody_reads(
    js: JetStreamContext, stream: str, taken: int
) -> None:
    await fill(js, stream, 5)
    sub = await js.subscribe(f"{stream}.>", ordered_consumer=True, idle_heartbeat=1)
    await until(lambda: sub.delivered == 5)
    got = [(await sub.next_msg(timeout=5)).data for _ in range(taken)]
    for _ in range(2):
        (before,) = await js.consumers_info(stream)
        await js.delete_consumer(stream, before.name)

        async def anew(gone: str = before.name) -> bool:
            # The server lists the new consumer before the subscription uses it.
            with suppress(NotFoundError):
                name = (await sub.consumer_info()).name
                return name != gone and [info.name for info in await js.consumers_info(stream)] == [name]
            return False

        await until(anew)
    await store(js, f"{stream}.a", [b"6", b"7"])
    got += [(await sub.next_msg(timeout=5)).data for _ in range(7 - taken)]
    assert got == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    assert sub.delivered == 7
    await sub.unsubscribe()
    await until(lambda: len(asyncio.all_tasks()) == 1)


@pytest.mark.parametrize("ordered", [True, False])
async def test_heartbeats_do_not_prolong_a_wait(js: JetStreamContext, stream: str, ordered: bool) -> None:
    """Heartbeats that arrive more often than the timeout do not restart it."""
    sub = await js.subscribe(f"{stream}.>", ordered_consumer=ordered, idle_heartbeat=0.1)
    with pytest.raises(errors.TimeoutError):
        await asyncio.wait_for(sub.next_msg(timeout=0.35), 20)
    await sub.unsubscribe()


async def test_deleted_ordered_consumer_is_detected_across_short_waits(js: JetStreamContext, stream: str) -> None:
    """Each wait is shorter than the silence after which the consumer counts as lost, and ends at its own timeout."""
    sub = await js.subscribe(f"{stream}.>", ordered_consumer=True, idle_heartbeat=0.5)
    await js.delete_consumer(stream, (await sub.consumer_info()).name)
    await fill(js, stream, 1)
    found = []

    async def come() -> bool:
        # A call that hangs raises Python's own TimeoutError, which is not suppressed.
        with suppress(errors.TimeoutError):
            found.append(await asyncio.wait_for(sub.next_msg(timeout=0.2), 20))
        return bool(found)

    await until(come)
    assert [msg.data for msg in found] == [b"1"]
