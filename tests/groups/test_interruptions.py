"""Members of consumer groups whose requests fail or are cancelled in the middle of a change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from jetarrow.errors import TimeoutError
from jetarrow.jetstream.groups.member import GroupMember
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import ServiceUnavailableError

from ..tools import until
from .tools import elastic, iterating, member, publish, texts

Breaks = Callable[[Any, str], None]


@pytest.fixture(params=[TimeoutError("slow"), ServiceUnavailableError(description="restarting")], ids=["late", "503"])
def fails_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Breaks:
    """Makes the next call of a method fail, as during a restart of the server."""

    def patch(target: Any, name: str) -> None:
        function = getattr(target, name)

        async def fail(*more: Any, **options: Any) -> Any:
            monkeypatch.setattr(target, name, function)
            raise request.param

        monkeypatch.setattr(target, name, fail)

    return patch


@pytest.fixture
def cancels_once(monkeypatch: pytest.MonkeyPatch) -> Breaks:
    """Makes the next call of a method cancel its task."""

    def patch(target: Any, name: str) -> None:
        function = getattr(target, name)

        async def cancel(*more: Any, **options: Any) -> Any:
            monkeypatch.setattr(target, name, function)
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

        monkeypatch.setattr(target, name, cancel)

    return patch


def place(place: str, orders: JetStreamContext, one: GroupMember) -> tuple[Any, str]:
    return {
        "check": (one._membership, "pinned_id"),
        "deletion": (orders, "delete_consumer"),
        "creation": (one._membership, "_create"),
        "next entry": (one._membership, "_rebalance"),
    }[place]


@asynccontextmanager
async def cancelled_rebalance(
    where: str, orders: JetStreamContext, cancels_once: Breaks
) -> AsyncIterator[tuple[Any, GroupMember, AsyncIterator[Any]]]:
    """A group, its member and its batches, after m2 was added and the rebalance was cancelled.

    The long ack_wait: no other task of the member follows the entry.
    """
    group = await elastic(orders, "m1")
    await publish(orders, 7, range(1))
    async with member(orders, ack_wait=120.0) as one, iterating(one) as batches:
        await texts(batches, 7)
        cancels_once(*place(where, orders, one))
        await group.add_member("m2")
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.ensure_future(follow(one)), 15)
        yield group, one, batches


async def follow(one: GroupMember) -> None:
    """Follows the entry until a task that does so is cancelled, or the member has its new partitions."""
    while True:
        await one._follow()
        if one.partitions == [0, 1, 2]:
            return
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("where", ["check", "deletion", "creation"])
async def test_a_rebalance_that_failed_is_repeated(where: str, orders: JetStreamContext, fails_once: Breaks) -> None:
    group = await elastic(orders, "m1")
    await publish(orders, 7, range(1))
    async with member(orders) as one, iterating(one) as batches:
        await texts(batches, 7)
        fails_once(*place(where, orders, one))
        await group.add_member("m2")
        await until(lambda: one.partitions == [0, 1, 2], 15)
        async with member(orders, "m2") as two:
            await until(lambda: two.partitions == [3, 4, 5], 15)


@pytest.mark.parametrize("where", ["check", "deletion", "creation", "next entry"])
async def test_a_rebalance_whose_task_is_cancelled_is_repeated(
    where: str, orders: JetStreamContext, cancels_once: Breaks
) -> None:
    async with cancelled_rebalance(where, orders, cancels_once) as (_, one, _):
        await asyncio.wait_for(follow(one), 15)
        info = await orders.consumer_info("ORDERS-G", "m1")
        assert info.config.filter_subjects == ["0.orders.*", "1.orders.*", "2.orders.*"]


async def test_a_program_that_leaves_the_membership_repeats_the_deletion(
    orders: JetStreamContext, fails_once: Breaks
) -> None:
    """Otherwise the others wait for its partitions until the server deletes the idle consumer."""
    group = await elastic(orders, "m1", "m2")
    await publish(orders, 7, range(1))
    async with member(orders, ack_wait=120.0) as one, iterating(one) as batches:
        await texts(batches, 3)
        fails_once(orders, "delete_consumer")
        await group.remove_member("m1")
        following = asyncio.ensure_future(anext(batches))

        async def gone() -> bool:
            return not await orders.consumers_info("ORDERS-G")

        await until(gone, 15)
        following.cancel()
        await asyncio.wait([following])


@pytest.mark.parametrize("where", ["check", "creation"])
async def test_a_change_that_is_undone_after_an_interruption_leaves_a_consumer(
    where: str, orders: JetStreamContext, cancels_once: Breaks
) -> None:
    async with cancelled_rebalance(where, orders, cancels_once) as (group, _, batches):
        await group.remove_member("m2")
        await publish(orders, 7, range(1, 2))
        assert len(await asyncio.wait_for(texts(batches, 7), 15)) == 7


async def rest(batches: AsyncIterator[Any], count: int) -> set[str]:
    """The texts of the next messages, of which none may be missing."""
    return {text for _, text in await asyncio.wait_for(texts(batches, count), 15)}


async def test_a_second_iteration_gets_the_batches_that_the_first_one_did_not_take(orders: JetStreamContext) -> None:
    await elastic(orders, "m1")
    await publish(orders, 7, range(2))
    async with member(orders) as one:
        async with iterating(one) as first:
            batch = await anext(first)
            await batch.ack_sync()
            found = {message.data.decode() for message in batch}
        async with iterating(one, rows=1) as second:
            found |= await rest(second, 14 - len(found))
    assert found == {f"{key} {number}" for key in range(7) for number in range(2)}


async def test_a_cancelled_check_of_the_pin_loses_no_batch(orders: JetStreamContext, cancels_once: Breaks) -> None:
    await elastic(orders, "m1")
    await publish(orders, 7, range(2))
    async with member(orders) as one:
        cancels_once(one, "_check_pin")
        with pytest.raises(asyncio.CancelledError):
            async with iterating(one) as first:
                await asyncio.ensure_future(anext(first))
        async with iterating(one) as second:
            assert len(await rest(second, 14)) == 14


async def test_batches_behind_one_in_work_are_kept_from_redelivery(orders: JetStreamContext) -> None:
    await elastic(orders, "m1")
    await publish(orders, 7, range(2))
    async with member(orders) as one, iterating(one) as batches:
        batch = await anext(batches)
        begun = one._ticks
        # An in-progress ack every half `ack_wait`; a redelivery would come after one.
        await until(lambda: one._ticks - begun > 8)
        assert not (await orders.consumer_info("ORDERS-G", "m1")).num_redelivered
        await batch.ack_sync()
        await rest(batches, 14 - len(batch))


async def test_a_member_that_closes_returns_the_batches_that_were_not_taken(orders: JetStreamContext) -> None:
    """Without the return they would be delivered after `ack_wait` only."""
    await elastic(orders, "m1")
    await publish(orders, 7, range(2))
    async with member(orders, ack_wait=120.0) as one, member(orders, ack_wait=120.0) as two:
        async with iterating(one) as first:
            batch = await anext(first)
            await batch.ack_sync()
            await one.close()
        async with iterating(two) as second:
            await rest(second, 14 - len(batch))
