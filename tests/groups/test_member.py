"""Members of consumer groups on a real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jetarrow.sync
import pytest
from jetarrow.jetstream.groups.member import GroupMember
from jetarrow.jetstream.groups.partitions import partition_of
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import (
    GroupChangedError,
    GroupConfigError,
    GroupError,
    GroupMemberError,
    GroupPinLostError,
    NotFoundError,
)
from jetarrow.server import NatsServer

from ..tools import until
from .tools import ACK_WAIT, elastic, member

Batches = AsyncIterator[Any]


@pytest.fixture
async def js(own: JetStreamContext) -> JetStreamContext:
    await own.add_stream(name="ORDERS", subjects=["orders.>"])
    return own


async def publish(js: JetStreamContext, keys: int, rounds: range) -> None:
    for number in rounds:
        for key in range(keys):
            await js.publish(f"orders.k{key}", f"{key} {number}".encode())


@asynccontextmanager
async def iterating(source: GroupMember, **options: Any) -> AsyncIterator[Batches]:
    """An iteration that is closed before its member."""
    batches = source.batches(**{"rows": 100, "seconds": 0.05, **options})
    try:
        yield batches
    finally:
        await batches.aclose()  # type: ignore[attr-defined]  # a generator


async def texts(batches: Batches, count: int) -> list[tuple[int, str]]:
    """The next messages, acknowledged: partition and payload."""
    found: list[tuple[int, str]] = []
    while len(found) < count:
        batch = await asyncio.wait_for(anext(batches), 30)
        texts = [(batch.partition, message.data.decode()) for message in batch]
        try:
            await batch.ack_sync()
        except GroupPinLostError:
            # A rebalance came first: they are delivered again.
            continue
        found += texts
    return found


async def test_batches_have_one_partition_each_and_subjects_without_it(js: JetStreamContext) -> None:
    await elastic(js, "m1")
    await publish(js, 7, range(3))
    seen = 0
    async with member(js) as one, iterating(one) as batches:
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
        info = await js.consumer_info("ORDERS-G", "m1")
        assert info.num_ack_pending == 0
        assert (await js.stream_info("ORDERS-G")).state.messages == 0
        with pytest.raises(GroupError, match="is iterated already"):
            await anext(aiter(one.batches()))
    assert one.is_closed
    with pytest.raises(GroupError, match="was closed"):
        await one.open()


async def test_the_consumer_is_that_of_pcgroups(js: JetStreamContext) -> None:
    await elastic(js, "m1", partitions=2, filter="orders.*")
    async with member(js, ack_wait=2.0, max_ack_pending=1):
        config = (await js.consumer_info("ORDERS-G", "m1")).config.as_dict()
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


async def test_later_rows_of_a_partition_wait_for_a_rejected_one(js: JetStreamContext) -> None:
    await elastic(js, "m1")
    await publish(js, 1, range(12))
    await publish(js, 7, range(12, 13))
    async with member(js) as one, iterating(one, rows=4) as batches:
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


async def test_a_confirmation_of_a_deleted_consumer_is_refused(js: JetStreamContext) -> None:
    """As a rebalance deletes it; a program that undoes its work then gets the rows again."""
    await elastic(js, "m1")
    await publish(js, 1, range(6))
    async with member(js) as one, iterating(one, rows=3) as batches:
        batch = await anext(batches)
        assert [message.data for message in batch] == [b"0 0", b"0 1", b"0 2"]
        await js.delete_consumer("ORDERS-G", "m1")
        with pytest.raises(GroupPinLostError):
            await batch.ack_sync()
        assert [text for _, text in await texts(batches, 6)] == [f"0 {number}" for number in range(6)]


async def test_a_dropped_batch_is_redelivered_before_later_rows(js: JetStreamContext) -> None:
    await elastic(js, "m1")
    await publish(js, 1, range(6))
    async with member(js) as one, iterating(one, rows=2) as batches:
        batch = await anext(batches)
        assert [message.data for message in batch] == [b"0 0", b"0 1"]
        del batch
        assert [text for _, text in await texts(batches, 6)] == [f"0 {number}" for number in range(6)]


async def test_members_share_partitions_as_the_membership_changes(js: JetStreamContext) -> None:
    group = await elastic(js, "m1")
    async with member(js, "m1") as one, member(js, "m2") as two:
        assert (one.partitions, two.partitions) == ([0, 1, 2, 3, 4, 5], [])
        async with iterating(one) as first, iterating(two) as second:
            await publish(js, 7, range(1))
            assert len(await texts(first, 7)) == 7
            waiting = asyncio.ensure_future(texts(second, 1))
            await group.add_member("m2")
            more = asyncio.ensure_future(texts(first, 1))
            await until(lambda: (one.partitions, two.partitions) == ([0, 1, 2], [3, 4, 5]))
            await publish(js, 7, range(1, 2))
            assert {partition for partition, _ in await waiting} <= {3, 4, 5}
            assert {partition for partition, _ in await more} <= {0, 1, 2}
            last = asyncio.ensure_future(texts(second, 1))
            await group.remove_member("m1")
            await until(lambda: (one.partitions, two.partitions) == ([], [0, 1, 2, 3, 4, 5]))
            await publish(js, 7, range(2, 3))
            await last
            with pytest.raises(NotFoundError):
                await js.consumer_info("ORDERS-G", "m1")


async def test_a_rebalance_waits_for_acknowledgements_on_the_way(
    js: JetStreamContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that is deleted between a confirmation and its answer never answers."""
    monkeypatch.setattr("jetarrow.jetstream.groups.member.ACK_GRACE", 30.0)
    group = await elastic(js, "m1")
    await publish(js, 1, range(1))
    async with member(js, "m1", ack_wait=120.0) as one, iterating(one) as batches:
        batch = await anext(batches)
        gate, deletions = asyncio.Event(), []
        run, delete = batch._session.run, js.delete_consumer

        async def slow(call: Any, *more: Any) -> Any:
            if asyncio.current_task() is sent:
                await gate.wait()
            return await run(call, *more)

        async def delete_consumer(stream: str, consumer: str) -> bool:
            deletions.append(sent.done())
            return await delete(stream, consumer)

        monkeypatch.setattr(batch._session, "run", slow)
        monkeypatch.setattr(js, "delete_consumer", delete_consumer)
        sent = asyncio.ensure_future(batch.ack_sync())
        await until(lambda: bool(one._sending))
        await group.add_member("m2")

        async def follow() -> None:
            # The entry may arrive later than the answer to the change.
            while not deletions:
                await one._follow()
                await asyncio.sleep(0.01)

        following = asyncio.ensure_future(follow())
        await until(lambda: one._order.epoch != batch._release.epoch)
        with pytest.raises(GroupPinLostError):
            await batch.in_progress()
        gate.set()
        await sent
        await asyncio.wait_for(following, 30)
        assert deletions == [True]


async def test_a_batch_of_before_a_rebalance_is_refused(js: JetStreamContext) -> None:
    group = await elastic(js, "m1")
    await publish(js, 1, range(1))
    async with member(js, "m1") as one, iterating(one) as batches:
        batch = await anext(batches)
        await group.add_member("m2")
        await until(lambda: one.partitions == [0, 1, 2])
        for verb in (batch.ack, batch.ack_sync, batch.nak, batch.term, batch.in_progress):
            with pytest.raises(GroupPinLostError, match="member 'm1' of group 'G'"):
                await verb()
        async with member(js, "m2") as two, iterating(two) as others:
            assert await texts(others, 1) == [(4, "0 0")]


async def test_a_deleted_consumer_is_made_anew(js: JetStreamContext) -> None:
    await elastic(js, "m1")
    async with member(js) as one, iterating(one) as batches:
        await publish(js, 2, range(1))
        await texts(batches, 2)
        await js.delete_consumer("ORDERS-G", "m1")
        await publish(js, 2, range(1, 2))
        assert {text for _, text in await texts(batches, 2)} == {"0 1", "1 1"}


async def test_the_iteration_ends_with_the_group(js: JetStreamContext) -> None:
    group = await elastic(js, "m1")
    async with member(js) as one, iterating(one) as batches:
        waiting = asyncio.ensure_future(anext(batches, None))
        await until(lambda: one._is_iterating)
        await group.delete()
        assert await asyncio.wait_for(waiting, 30) is None
        assert one.is_closed


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (b"no JSON", GroupConfigError),
        (b'{"max_members":0,"partitioning_filters":[]}', GroupConfigError),
        (b'{"max_members":7,"partitioning_filters":[],"members":["m1"]}', GroupChangedError),
    ],
)
async def test_an_entry_that_ends_members(entry: bytes, error: type[Exception], js: JetStreamContext) -> None:
    group = await elastic(js, "m1", filter=None, partition_by=None)
    async with member(js) as one, iterating(one) as batches:
        waiting = asyncio.ensure_future(anext(batches))
        await until(lambda: one._is_iterating)
        await (await js.key_value("elastic-consumer-groups")).put(group.key, entry)
        with pytest.raises(error):
            await asyncio.wait_for(waiting, 30)
        assert one.is_closed


async def test_one_of_two_programs_of_a_member_reads(js: JetStreamContext) -> None:
    await elastic(js, "m1")
    async with member(js) as one, iterating(one) as first:
        await publish(js, 7, range(1))
        await texts(first, 7)
        created = (await js.consumer_info("ORDERS-G", "m1")).created
        async with member(js) as two, iterating(two) as second:
            waiting = asyncio.ensure_future(texts(second, 1))
            for number in range(1, 4):
                await publish(js, 1, range(number, number + 1))
                assert await texts(first, 1) == [(4, f"0 {number}")]
            assert (one.is_pinned, two.is_pinned) == (True, False)
            assert (await js.consumer_info("ORDERS-G", "m1")).created == created
            await one.close()
            await publish(js, 1, range(4, 5))
            assert await waiting == [(4, "0 4")]
            assert two.is_pinned


async def test_step_down_hands_unacknowledged_rows_to_the_other_program(js: JetStreamContext) -> None:
    await elastic(js, "m1")
    async with member(js) as one, member(js) as two, iterating(one, rows=2) as first, iterating(two) as second:
        await publish(js, 1, range(5))
        batch = await anext(first)
        waiting = asyncio.ensure_future(texts(second, 5))
        await until(lambda: two._is_iterating)
        await one.step_down()
        with pytest.raises(GroupPinLostError):
            await batch.ack()
        assert [text for _, text in await waiting] == [f"0 {number}" for number in range(5)]


async def test_a_hang_of_the_program_refuses_its_acks(js: JetStreamContext) -> None:
    await elastic(js, "m1")
    await publish(js, 1, range(3))
    async with member(js) as one, iterating(one, rows=3) as batches:
        batch = await anext(batches)
        # The event loop hangs: neither pulls nor in-progress acks.
        time.sleep(2.2 * ACK_WAIT)  # noqa: ASYNC251
        with pytest.raises(GroupPinLostError):
            await batch.ack()
        assert [text for _, text in await texts(batches, 3)] == ["0 0", "0 1", "0 2"]


async def test_long_work_keeps_pin_and_messages(js: JetStreamContext) -> None:
    await elastic(js, "m1")
    await publish(js, 1, range(3))
    async with member(js) as one, member(js) as other, iterating(one) as batches, iterating(other) as others:
        batch = await anext(batches)
        waiting = asyncio.ensure_future(texts(others, 1))
        await asyncio.sleep(3 * ACK_WAIT)
        await batch.ack_sync()
        assert not waiting.done()
        waiting.cancel()
        info = await js.consumer_info("ORDERS-G", "m1")
        assert (info.num_ack_pending, info.num_redelivered) == (0, 0)


async def test_mappings(js: JetStreamContext) -> None:
    group = await elastic(js, mappings={"a": [0, 2, 4], "b": [1, 3, 5]}, members=())
    async with member(js, "a") as one, iterating(one) as batches:
        assert one.partitions == [0, 2, 4]
        await publish(js, 7, range(1))
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
        js = nc.jetstream()
        js.add_stream(name="ORDERS", subjects=["orders.>"])
        group = js.create_consumer_group(
            "ORDERS", "G", partitions=6, filter="orders.*", partition_by=[1], members=["m1"]
        )
        js.publish_batch("orders.k0", [b"1", b"2", b"3"]).raise_for_errors()
        with js.consumer_group("ORDERS", "G", member="m1", ack_wait=ACK_WAIT) as one:
            found = []
            for batch in one.batches(rows=2, seconds=0.05):
                found += [message.data for message in batch]
                # Longer than the pinned time: a thread keeps pin and messages.
                time.sleep(1.5 * ACK_WAIT)
                batch.ack_sync()
                assert batch.partition == 4
                if len(found) == 3:
                    break
            assert found == [b"1", b"2", b"3"]
            assert (one.name, one.partitions, one.is_closed) == ("m1", [0, 1, 2, 3, 4, 5], False)
            assert group.members() == {"m1": True}
        assert one.is_closed
