"""Members of consumer groups while the membership, the consumer or the group changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import (
    GroupChangedError,
    GroupConfigError,
    GroupPinLostError,
    NotFoundError,
)

from ..tools import until
from .tools import elastic, iterating, member, publish, texts


async def test_members_share_partitions_as_the_membership_changes(orders: JetStreamContext) -> None:
    group = await elastic(orders, "m1")
    async with member(orders, "m1") as one, member(orders, "m2") as two:
        assert (one.partitions, two.partitions) == ([0, 1, 2, 3, 4, 5], [])
        async with iterating(one) as first, iterating(two) as second:
            await publish(orders, 7, range(1))
            assert len(await texts(first, 7)) == 7
            waiting = asyncio.ensure_future(texts(second, 1))
            await group.add_member("m2")
            more = asyncio.ensure_future(texts(first, 1))
            await until(lambda: (one.partitions, two.partitions) == ([0, 1, 2], [3, 4, 5]))
            await publish(orders, 7, range(1, 2))
            assert {partition for partition, _ in await waiting} <= {3, 4, 5}
            assert {partition for partition, _ in await more} <= {0, 1, 2}
            last = asyncio.ensure_future(texts(second, 1))
            await group.remove_member("m1")
            await until(lambda: (one.partitions, two.partitions) == ([], [0, 1, 2, 3, 4, 5]))
            await publish(orders, 7, range(2, 3))
            await last
            with pytest.raises(NotFoundError):
                await orders.consumer_info("ORDERS-G", "m1")


async def test_a_rebalance_waits_for_acknowledgements_on_the_way(
    orders: JetStreamContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that is deleted between a confirmation and its answer never answers."""
    monkeypatch.setattr("jetarrow.jetstream.groups.member.ACK_GRACE", 30.0)
    group = await elastic(orders, "m1")
    await publish(orders, 1, range(1))
    async with member(orders, "m1", ack_wait=120.0) as one, iterating(one) as batches:
        batch = await anext(batches)
        gate, deletions = asyncio.Event(), []
        run, delete = batch._session.run, orders.delete_consumer

        async def slow(call: Any, *more: Any) -> Any:
            if asyncio.current_task() is sent:
                await gate.wait()
            return await run(call, *more)

        async def delete_consumer(stream: str, consumer: str) -> bool:
            deletions.append(sent.done())
            return await delete(stream, consumer)

        monkeypatch.setattr(batch._session, "run", slow)
        monkeypatch.setattr(orders, "delete_consumer", delete_consumer)
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


async def test_a_batch_of_before_a_rebalance_is_refused(orders: JetStreamContext) -> None:
    group = await elastic(orders, "m1")
    await publish(orders, 1, range(1))
    async with member(orders, "m1") as one, iterating(one) as batches:
        batch = await anext(batches)
        await group.add_member("m2")
        await until(lambda: one.partitions == [0, 1, 2])
        for verb in (batch.ack, batch.ack_sync, batch.nak, batch.term, batch.in_progress):
            with pytest.raises(GroupPinLostError, match="member 'm1' of group 'G'"):
                await verb()
        async with member(orders, "m2") as two, iterating(two) as others:
            assert await texts(others, 1) == [(4, "0 0")]


async def test_a_deleted_consumer_is_made_anew(orders: JetStreamContext) -> None:
    await elastic(orders, "m1")
    async with member(orders) as one, iterating(one) as batches:
        await publish(orders, 2, range(1))
        await texts(batches, 2)
        await orders.delete_consumer("ORDERS-G", "m1")
        await publish(orders, 2, range(1, 2))
        assert {text for _, text in await texts(batches, 2)} == {"0 1", "1 1"}


async def test_the_iteration_ends_with_the_group(orders: JetStreamContext) -> None:
    group = await elastic(orders, "m1")
    async with member(orders) as one, iterating(one) as batches:
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
async def test_an_entry_that_ends_members(entry: bytes, error: type[Exception], orders: JetStreamContext) -> None:
    group = await elastic(orders, "m1", filter=None, partition_by=None)
    async with member(orders) as one, iterating(one) as batches:
        waiting = asyncio.ensure_future(anext(batches))
        await until(lambda: one._is_iterating)
        await (await orders.key_value("elastic-consumer-groups")).put(group.key, entry)
        with pytest.raises(error):
            await asyncio.wait_for(waiting, 30)
        assert one.is_closed
