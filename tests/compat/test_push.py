"""Push subscriptions of JetStream: the same with both clients."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from ..tools import settle, until
from .face import Collector, Face, arrived, make_stream, spread, subject


async def next_data(sub: Any, count: int) -> list[bytes]:
    """Read and acknowledge `count` messages, and return their payloads."""
    found = []
    for _ in range(count):
        msg = await sub.next_msg(timeout=5)
        await msg.ack()
        found.append(msg.data)
    return found


async def nothing_unacknowledged(sub: Any) -> None:
    async def settled() -> bool:
        info = await sub.consumer_info()
        return (info.num_ack_pending, info.num_pending) == (0, 0)

    await until(settled)


async def test_message_is_acknowledged_after_callback(js: Any, stream: str) -> None:
    await spread(js, stream, 5)
    got = Collector()
    sub = await js.subscribe(f"{stream}.>", cb=got.callback)
    await got.wait(5)
    assert got.data == [b"%d" % number for number in range(5)]
    await nothing_unacknowledged(sub)
    info = await sub.consumer_info()
    assert (info.ack_floor.stream_seq, info.config.ack_policy, info.config.deliver_policy) == (5, "explicit", "all")
    assert all(msg.is_acked for msg in got.all)


async def test_explicit_ack_in_callback_causes_no_error(face: Face, stream: str) -> None:
    errors, done = Collector(), Collector()
    js = (await face.connect(error_cb=errors.callback)).jetstream()
    await spread(js, stream, 3)

    async def acknowledge(msg: Any) -> None:
        await msg.ack()
        done.add(msg)

    sub = await js.subscribe(f"{stream}.>", cb=acknowledge)
    await done.wait(3)
    await nothing_unacknowledged(sub)
    assert errors.all == []


async def test_a_callback_that_fails_does_not_acknowledge(face: Face, stream: str) -> None:
    errors = Collector()
    js = (await face.connect(error_cb=errors.callback)).jetstream()
    await spread(js, stream, 1)

    async def fail(msg: Any) -> None:
        raise KeyError("no such thing")

    sub = await js.subscribe(f"{stream}.>", cb=fail)
    await errors.wait(1)
    assert (await sub.consumer_info()).num_ack_pending == 1


async def test_manual_ack(js: Any, stream: str) -> None:
    await spread(js, stream, 2)
    got = Collector()
    sub = await js.subscribe(f"{stream}.>", cb=got.callback, manual_ack=True)
    msgs = await got.wait(2)
    assert (await sub.consumer_info()).num_ack_pending == 2
    for msg in msgs:
        await msg.ack()
    await nothing_unacknowledged(sub)


async def test_without_a_callback_nothing_is_acknowledged(js: Any, stream: str) -> None:
    await spread(js, stream, 4)
    sub = await js.subscribe(f"{stream}.>")
    assert [(await sub.next_msg(timeout=10)).data for _ in range(2)] == [b"0", b"1"]

    async def are_pending() -> bool:
        return bool((await sub.consumer_info()).num_ack_pending == 4)

    await until(are_pending)
    iterated = []
    async for msg in sub.messages:
        iterated.append(msg.data)
        if len(iterated) == 2:
            break
    assert iterated == [b"2", b"3"]


async def test_next_msg_times_out(face: Face, js: Any, stream: str) -> None:
    sub = await js.subscribe(f"{stream}.>")
    assert await face.failure(sub.next_msg(timeout=0.05)) == "errors.TimeoutError"
    await js.publish(f"{stream}.a", b"x")
    assert await next_data(sub, 1) == [b"x"]


async def test_durable_resumes_after_resubscribe(js: Any, stream: str) -> None:
    await spread(js, stream, 4)
    sub = await js.subscribe(f"{stream}.>", durable="mine")
    assert await next_data(sub, 2) == [b"0", b"1"]
    await nothing_unacknowledged_before(sub, 2)
    await sub.unsubscribe()
    await unbound(js, stream, "mine")
    again = await js.subscribe(f"{stream}.>", durable="mine")
    await spread(js, stream, 1)
    # Unacknowledged messages are redelivered after their ack wait; new ones are delivered immediately.
    assert (await again.next_msg(timeout=10)).data == b"0"
    info = await again.consumer_info()
    assert (info.name, info.config.durable_name, info.ack_floor.stream_seq) == ("mine", "mine", 2)


async def unbound(js: Any, stream: str, consumer: str) -> None:
    """Wait until the server reports that the consumer has no subscriber."""

    async def left() -> bool:
        return not (await js.consumer_info(stream, consumer)).push_bound

    await until(left)


async def nothing_unacknowledged_before(sub: Any, seq: int) -> None:
    async def reached() -> bool:
        return bool((await sub.consumer_info()).ack_floor.stream_seq >= seq)

    await until(reached)


async def test_unsubscribe_keeps_durable_consumer(js: Any, stream: str) -> None:
    durable = await js.subscribe(f"{stream}.>", durable="mine")
    ephemeral = await js.subscribe(f"{stream}.>")
    info = await ephemeral.consumer_info()
    assert (info.config.durable_name, len(info.name) > 0) == (None, True)
    await durable.unsubscribe()
    assert (await js.consumer_info(stream, "mine")).name == "mine"


async def test_a_durable_serves_one_subscription(face: Face, nc: Any, js: Any, stream: str) -> None:
    bound = await js.subscribe(f"{stream}.>", durable="mine")

    async def is_known() -> bool:
        """The server learns of it after the subscription was opened."""
        return bool((await bound.consumer_info()).push_bound)

    await until(is_known)
    error = await face.raised(js.subscribe(f"{stream}.>", durable="mine"))
    assert face.kind(error) == "js.errors.Error"
    assert "already bound" in str(error)


async def test_queue_members_share_messages(face: Face, stream: str) -> None:
    first, second = (await face.connect()).jetstream(), (await face.connect()).jetstream()
    got = [Collector(), Collector()]
    subs = [
        await js.subscribe(f"{stream}.>", queue="workers", cb=one.callback)
        for js, one in zip((first, second), got, strict=True)
    ]
    await spread(first, stream, 60)
    await until(lambda: sum(len(one.all) for one in got) >= 60)
    assert sorted(int(data) for one in got for data in one.data) == list(range(60))
    assert all(one.all for one in got)
    infos = [await sub.consumer_info() for sub in subs]
    assert {(info.name, info.config.durable_name, info.config.deliver_group) for info in infos} == {("workers",) * 3}


async def test_conflicting_queue_and_durable_names_raise(face: Face, nc: Any, js: Any, stream: str) -> None:
    where = f"{stream}.>"
    await js.subscribe(where, queue="workers")
    await js.subscribe(where, durable="alone")
    await settle(nc)
    kinds = [
        await face.failure(js.subscribe(where, queue="workers", durable="other")),
        await face.failure(js.subscribe(where, durable="workers")),
        await face.failure(js.subscribe(where, queue="alone")),
    ]
    # A queue on a durable of another name is an error in nats-py alone: see test_differences.
    assert kinds == ["js.errors.Error" if face.name == "nats" else "nothing", *["js.errors.Error"] * 2]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("all", [b"0", b"1", b"2"]), ("last", [b"2"]), ("last_per_subject", [b"1", b"2"]), ("new", [])],
)
async def test_deliver_policy_selects_first_message(
    face: Face, js: Any, stream: str, policy: str, expected: list[bytes]
) -> None:
    for number, name in enumerate("aab"):
        await js.publish(f"{stream}.{name}", b"%d" % number)
    sub = await js.subscribe(f"{stream}.>", deliver_policy=face.api.DeliverPolicy(policy))
    await js.publish(f"{stream}.c", b"later")
    assert await next_data(sub, len(expected) + 1) == [*expected, b"later"]


async def test_begin_at_a_sequence(face: Face, js: Any, stream: str) -> None:
    await spread(js, stream, 5)
    policy = face.api.DeliverPolicy.BY_START_SEQUENCE
    config = face.api.ConsumerConfig(deliver_policy=policy, opt_start_seq=4)
    sub = await js.subscribe(f"{stream}.>", config=config)
    assert await next_data(sub, 2) == [b"3", b"4"]


async def test_filters(face: Face, js: Any, stream: str) -> None:
    await spread(js, stream, 6)
    one = await js.subscribe(f"{stream}.1")
    config = face.api.ConsumerConfig(filter_subjects=[f"{stream}.0", f"{stream}.2"])
    two = await js.subscribe("", stream=stream, config=config)
    assert (await next_data(one, 2), await next_data(two, 4)) == ([b"1", b"4"], [b"0", b"2", b"3", b"5"])


async def test_headers_only(js: Any, stream: str) -> None:
    await js.publish(f"{stream}.a", b"12345", headers={"Name": "value"})
    sub = await js.subscribe(f"{stream}.>", headers_only=True)
    msg = await sub.next_msg(timeout=10)
    assert (msg.data, msg.headers) == (b"", {"Name": "value", "Nats-Msg-Size": "5"})


async def test_ordered_consumer(js: Any, stream: str) -> None:
    await spread(js, stream, 50)
    by_callback = Collector()
    await js.subscribe(f"{stream}.>", ordered_consumer=True, cb=by_callback.callback)
    sub = await js.subscribe(f"{stream}.>", ordered_consumer=True)
    read = [(await sub.next_msg(timeout=10)).data for _ in range(50)]
    await by_callback.wait(50)
    assert read == by_callback.data == [b"%d" % number for number in range(50)]
    config = (await sub.consumer_info()).config
    assert (config.ack_policy, config.flow_control, config.max_deliver, config.mem_storage) == ("none", True, 1, True)
    assert (config.idle_heartbeat, config.num_replicas) == (5, 1)


async def test_ordered_consumer_is_recreated_after_deletion(js: Any, stream: str) -> None:
    await spread(js, stream, 3)
    sub = await js.subscribe(f"{stream}.>", ordered_consumer=True, idle_heartbeat=1)
    first = [(await sub.next_msg(timeout=5)).data for _ in range(3)]
    await js.delete_consumer(stream, (await sub.consumer_info()).name)
    for number in range(3, 6):
        await js.publish(f"{stream}.a", b"%d" % number)
    rest = [(await sub.next_msg(timeout=20)).data for _ in range(3)]
    assert first + rest == [b"%d" % number for number in range(6)]


async def test_flow_control_and_heartbeats(js: Any) -> None:
    stream = await make_stream(js)
    await spread(js, stream, 10)
    for _ in range(40):
        await js.publish(f"{stream}.a", b"x" * 100_000)
    sub = await js.subscribe(f"{stream}.>", flow_control=True, idle_heartbeat=0.3)
    sizes = [len(data) for data in await next_data(sub, 50)]
    assert sizes == [1] * 10 + [100_000] * 40
    await asyncio.sleep(0.7)
    await js.publish(f"{stream}.a", b"later")
    assert await next_data(sub, 1) == [b"later"]
    config = (await sub.consumer_info()).config
    assert (config.flow_control, config.idle_heartbeat) == (True, 0.3)


async def test_inactive_threshold(js: Any, stream: str) -> None:
    sub = await js.subscribe(f"{stream}.>", inactive_threshold=7)
    assert (await sub.consumer_info()).config.inactive_threshold == 7


async def test_bind_to_a_consumer(js: Any, stream: str) -> None:
    await spread(js, stream, 2)
    info = await js.add_consumer(stream, durable_name="mine", deliver_subject=subject(), ack_policy="explicit")
    sub = await js.subscribe_bind(stream=stream, config=info.config, consumer="mine")
    assert await next_data(sub, 2) == [b"0", b"1"]
    assert (await sub.consumer_info()).name == "mine"


async def test_no_such_stream(face: Face, js: Any) -> None:
    kinds = [
        await face.failure(js.subscribe(subject())),
        await face.failure(js.subscribe(subject(), stream="NONE")),
        await face.failure(js.subscribe(subject(), stream="NONE", durable="mine")),
    ]
    assert kinds == ["js.errors.NotFoundError"] * 3


async def test_pending_limit_drops_messages_and_reports_slow_consumer(face: Face, stream: str) -> None:
    errors = Collector()
    js = (await face.connect(error_cb=errors.callback)).jetstream()
    await spread(js, stream, 10)
    sub = await js.subscribe(f"{stream}.>", pending_msgs_limit=4)
    found = await errors.wait(1)
    await arrived(sub, 10)
    assert {face.kind(error) for error in found} == {"errors.SlowConsumerError"}
    assert [(await sub.next_msg(timeout=10)).data for _ in range(4)] == [b"%d" % number for number in range(4)]


async def test_unsubscribe(face: Face, js: Any, stream: str) -> None:
    got = Collector()
    sub = await js.subscribe(f"{stream}.>", cb=got.callback)
    await spread(js, stream, 1)
    await got.wait(1)
    await sub.unsubscribe()
    await spread(js, stream, 1)
    assert got.data == [b"0"]
    assert await face.failure(sub.unsubscribe()) == "errors.BadSubscriptionError"


async def test_drain(js: Any, stream: str) -> None:
    await spread(js, stream, 10)
    got = Collector()

    async def slow(msg: Any) -> None:
        await asyncio.sleep(0.005)
        got.add(msg)

    sub = await js.subscribe(f"{stream}.>", cb=slow, durable="mine")
    await arrived(sub, 10)
    await sub.drain()
    assert got.data == [b"%d" % number for number in range(10)]

    async def all_acknowledged() -> bool:
        return bool((await js.consumer_info(stream, "mine")).num_ack_pending == 0)

    await until(all_acknowledged)


async def test_a_partial_is_a_callback(js: Any, stream: str) -> None:
    got = Collector()

    async def named(msg: Any, name: str) -> None:
        got.add((name, msg.data))

    await js.subscribe(f"{stream}.>", cb=functools.partial(named, name="partial"))
    await spread(js, stream, 1)
    assert await got.wait(1) == [("partial", b"0")]


async def test_status_messages(face: Face, js: Any) -> None:
    make = face.load("aio.msg").Msg
    messages = [make(None, headers={"Status": "408"}), make(None, headers={"a": "b"}), make(None), None]
    assert [js.is_status_msg(msg) for msg in messages] == ["408", None, None, None]
