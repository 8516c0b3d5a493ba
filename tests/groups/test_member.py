"""Members of consumer groups on a real server."""

from __future__ import annotations

import asyncio
import time

import jetarrow.sync
import pytest
from jetarrow.jetstream.groups.partitions import partition_of
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import (
    GroupChangedError,
    GroupConfigError,
    GroupError,
    GroupMemberError,
    GroupPinLostError,
)
from jetarrow.server import NatsServer

from ..tools import until
from .tools import ACK_WAIT, elastic, iterating, member, publish, texts

# An ack_wait, in seconds, that outlasts the pauses of a busy machine.
LONG = 4.0


async def test_batches_have_one_partition_each_and_subjects_without_it(orders: JetStreamContext) -> None:
    await elastic(orders, "m1")
    await publish(orders, 7, range(3))
    seen = 0
    async with member(orders, ack_wait=30) as one, iterating(one) as batches:
        assert one.partitions == [0, 1, 2, 3, 4, 5]
        while seen < 21:
            batch = await anext(batches)
            subjects = [message.subject for message in batch]
            assert {partition_of(subject, [2], 6) for subject in subjects} == {batch.partition}
            assert batch.to_pyarrow()["subject"].to_pylist() == subjects
            assert one.is_pinned
            await batch.in_progress()
            await batch.ack_sync()
            seen += len(batch)
        info = await orders.consumer_info("ORDERS-G", "m1")
        assert info.num_ack_pending == 0
        assert (await orders.stream_info("ORDERS-G")).state.messages == 0
        with pytest.raises(GroupError, match="is iterated already"):
            await anext(aiter(one.batches()))
    assert one.is_closed
    with pytest.raises(GroupError, match="was closed"):
        await one.open()


async def test_the_consumer_is_that_of_pcgroups(orders: JetStreamContext) -> None:
    await elastic(orders, "m1", partitions=2, filter="orders.*")
    async with member(orders, ack_wait=2.0, max_ack_pending=1):
        config = (await orders.consumer_info("ORDERS-G", "m1")).config.as_dict()
    expected = {
        "name": "m1",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": 2_000_000_000,
        "replay_policy": "instant",
        "max_ack_pending": 1,
        "inactive_threshold": 2_000_000_000,
        "filter_subjects": ["0.orders.*", "1.orders.*"],
        "priority_policy": "pinned_client",
        "priority_timeout": 2_000_000_000,
        "priority_groups": ["PCG"],
    }
    assert {name: config.get(name) for name in expected} == expected
    assert not config.get("durable_name")


async def test_later_rows_of_a_partition_wait_for_a_rejected_one(orders: JetStreamContext) -> None:
    await elastic(orders, "m1")
    await publish(orders, 1, range(12))
    await publish(orders, 7, range(12, 13))
    async with member(orders, ack_wait=30) as one, iterating(one, rows=4) as batches:
        # k0 is in partition 4.
        order: list[str] = []
        others: list[str] = []
        rejected = False
        while len(order) < 14 or len(others) < 6:
            batch = await asyncio.wait_for(anext(batches), 30)
            found = [message.data.decode() for message in batch]
            (order if batch.partition == 4 else others).extend(found)
            if not rejected and batch.partition == 4:
                rejected = True
                await batch.nak([1], delay=0.3)
                await batch.ack([0, *range(2, len(batch))])
                first = len(batch)
            else:
                await batch.ack()
    # The rejected row is delivered again before any that was not released with it.
    assert order[first] == "0 1"
    assert order[:first] + order[first + 1 :] == [f"0 {number}" for number in range(13)]


async def test_a_confirmation_of_a_deleted_consumer_is_refused(orders: JetStreamContext) -> None:
    """As a rebalance deletes it; a program that undoes its work then gets the rows again."""
    await elastic(orders, "m1")
    await publish(orders, 1, range(6))
    async with member(orders) as one, iterating(one, rows=3) as batches:
        batch = await anext(batches)
        assert [message.data for message in batch] == [b"0 0", b"0 1", b"0 2"]
        await orders.delete_consumer("ORDERS-G", "m1")
        with pytest.raises(GroupPinLostError):
            await batch.ack_sync()
        assert [text for _, text in await texts(batches, 6)] == [f"0 {number}" for number in range(6)]


async def test_a_dropped_batch_is_redelivered_before_later_rows(orders: JetStreamContext) -> None:
    await elastic(orders, "m1")
    await publish(orders, 1, range(6))
    async with member(orders) as one, iterating(one, rows=2) as batches:
        batch = await anext(batches)
        assert [message.data for message in batch] == [b"0 0", b"0 1"]
        del batch
        assert [text for _, text in await texts(batches, 6)] == [f"0 {number}" for number in range(6)]


async def test_one_of_two_programs_of_a_member_reads(orders: JetStreamContext) -> None:
    await elastic(orders, "m1")
    async with member(orders, ack_wait=30) as one, iterating(one) as first:
        await publish(orders, 7, range(1))
        await texts(first, 7)
        created = (await orders.consumer_info("ORDERS-G", "m1")).created
        async with member(orders, ack_wait=30) as two, iterating(two) as second:
            waiting = asyncio.ensure_future(texts(second, 1))
            for number in range(1, 4):
                await publish(orders, 1, range(number, number + 1))
                assert await texts(first, 1) == [(4, f"0 {number}")]
            assert (one.is_pinned, two.is_pinned) == (True, False)
            assert (await orders.consumer_info("ORDERS-G", "m1")).created == created
            await one.close()
            await publish(orders, 1, range(4, 5))
            assert await waiting == [(4, "0 4")]
            assert two.is_pinned


async def test_step_down_hands_unacknowledged_rows_to_the_other_program(orders: JetStreamContext) -> None:
    await elastic(orders, "m1")
    async with member(orders) as one, member(orders) as two, iterating(one, rows=2) as first, iterating(two) as second:
        await publish(orders, 1, range(5))
        batch = await anext(first)
        waiting = asyncio.ensure_future(texts(second, 5))
        await until(lambda: two._is_iterating)
        await one.step_down()
        with pytest.raises(GroupPinLostError):
            await batch.ack()
        assert [text for _, text in await waiting] == [f"0 {number}" for number in range(5)]


async def test_a_hang_of_the_program_refuses_its_acks(orders: JetStreamContext) -> None:
    await elastic(orders, "m1")
    await publish(orders, 1, range(3))
    async with member(orders) as one, iterating(one, rows=3) as batches:
        batch = await anext(batches)
        # The event loop hangs: neither pulls nor in-progress acks.
        time.sleep(2.2 * ACK_WAIT)  # noqa: ASYNC251
        with pytest.raises(GroupPinLostError):
            await batch.ack()
        assert [text for _, text in await texts(batches, 3)] == ["0 0", "0 1", "0 2"]


async def test_long_work_keeps_pin_and_messages(orders: JetStreamContext) -> None:
    await elastic(orders, "m1")
    await publish(orders, 1, range(3))
    async with (
        member(orders, ack_wait=LONG) as one,
        member(orders, ack_wait=LONG) as other,
        iterating(one) as batches,
        iterating(other) as others,
    ):
        batch = await anext(batches)
        waiting = asyncio.ensure_future(texts(others, 1))
        await asyncio.sleep(1.5 * LONG)
        await batch.ack_sync()
        assert not waiting.done()
        waiting.cancel()
        info = await orders.consumer_info("ORDERS-G", "m1")
        # The first batch has what had been sourced by then.
        assert (info.num_ack_pending + info.num_pending, info.num_redelivered) == (3 - len(batch), 0)


async def test_mappings(orders: JetStreamContext) -> None:
    group = await elastic(orders, mappings={"a": [0, 2, 4], "b": [1, 3, 5]}, members=())
    async with member(orders, "a") as one, iterating(one) as batches:
        assert one.partitions == [0, 2, 4]
        await publish(orders, 7, range(1))
        found = await texts(batches, 4)
        assert {partition for partition, _ in found} == {4, 0, 2}
        waiting = asyncio.ensure_future(texts(batches, 1))
        await group.set_mappings({"a": [5], "b": [0, 1, 2, 3, 4]})
        assert {partition for partition, _ in await waiting} == {5}
        assert one.partitions == [5]


async def test_a_static_group(own: JetStreamContext) -> None:
    transform = {"src": "meter.*", "dest": "{{Partition(4,1)}}.meter.{{Wildcard(1)}}"}
    await own.add_stream(name="METERS", subjects=["meter.*"], subject_transform=transform)
    group = await own.create_consumer_group(
        "METERS", "audit", kind="static", partitions=4, filter="meter.*", members=["m1", "m2"]
    )
    with pytest.raises(GroupMemberError, match="no partition for member 'm3'"):
        await own.consumer_group("METERS", "audit", member="m3").open()
    for meter in range(8):
        await own.publish(f"meter.{meter}", b"%d" % meter)
    async with own.consumer_group("METERS", "audit", member="m1", ack_wait=ACK_WAIT) as one:
        assert (one.partitions, (await own.consumer_info("METERS", "audit-m1")).config.durable_name) == (
            [0, 1],
            "audit-m1",
        )
        other = own.consumer_group("METERS", "audit", member="m1", ack_wait=ACK_WAIT, max_ack_pending=3)
        with pytest.raises(GroupConfigError, match="other settings"):
            await other.open()
        async with iterating(one) as batches:
            batch = await anext(batches)
            assert batch.partition in (0, 1)
            assert all(message.subject.startswith("meter.") for message in batch)
            await batch.ack()
            bucket = await own.key_value("static-consumer-groups")
            await bucket.put(group.key, b'{"max_members":4,"filters":["meter.*"],"members":["m2","m1"]}')
            with pytest.raises(GroupChangedError, match="members"):
                while True:
                    await asyncio.wait_for(anext(batches), 30)


def test_members_without_a_loop(own_server: NatsServer) -> None:
    with jetarrow.sync.connect(own_server.url) as nc:
        orders = nc.jetstream()
        orders.add_stream(name="ORDERS", subjects=["orders.>"])
        group = orders.create_consumer_group(
            "ORDERS", "G", partitions=6, filter="orders.*", partition_by=[1], members=["m1"]
        )
        orders.publish_batch("orders.k0", [b"1", b"2", b"3"]).raise_for_errors()
        with orders.consumer_group("ORDERS", "G", member="m1", ack_wait=LONG) as one:
            found = []
            for batch in one.batches(rows=2, seconds=0.05):
                found += [message.data for message in batch]
                # Longer than the pinned time: a thread keeps pin and messages.
                time.sleep(1.5 * LONG)
                batch.ack_sync()
                assert batch.partition == 4
                if len(found) == 3:
                    break
            assert found == [b"1", b"2", b"3"]
            assert (one.name, one.partitions, one.is_closed) == ("m1", [0, 1, 2, 3, 4, 5], False)
            assert group.members() == {"m1": True}
        assert one.is_closed
