"""Members of consumer groups whose requests fail or are cancelled in the middle of a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from jetarrow.errors import TimeoutError
from jetarrow.jetstream.groups.member import GroupMember
from jetarrow.js.client import JetStreamContext

from ..tools import until
from .tools import elastic, iterating, member, publish, texts

Breaks = Callable[[Any, str], None]


@pytest.fixture
def fails_once(monkeypatch: pytest.MonkeyPatch) -> Breaks:
    """Makes the next call of a method time out."""

    def patch(target: Any, name: str) -> None:
        function = getattr(target, name)

        async def fail(*more: Any, **options: Any) -> Any:
            monkeypatch.setattr(target, name, function)
            raise TimeoutError("made by the test")

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


async def follow(one: GroupMember) -> None:
    """Follows the entry until a task that does so is cancelled, or the member has its new partitions."""
    while True:
        await one._follow()
        if one.partitions == [0, 1, 2]:
            return
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("where", ["check", "deletion", "creation"])
async def test_a_rebalance_that_timed_out_is_repeated(where: str, orders: JetStreamContext, fails_once: Breaks) -> None:
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
    group = await elastic(orders, "m1")
    await publish(orders, 7, range(1))
    # The long ack_wait: no other task of the member follows the entry.
    async with member(orders, ack_wait=120.0) as one, iterating(one) as batches:
        await texts(batches, 7)
        cancels_once(*place(where, orders, one))
        await group.add_member("m2")
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.ensure_future(follow(one)), 15)
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
    group = await elastic(orders, "m1")
    await publish(orders, 7, range(1))
    async with member(orders, ack_wait=120.0) as one, iterating(one) as batches:
        await texts(batches, 7)
        cancels_once(*place(where, orders, one))
        await group.add_member("m2")
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.ensure_future(follow(one)), 15)
        await group.remove_member("m2")
        await publish(orders, 7, range(1, 2))
        assert len(await asyncio.wait_for(texts(batches, 7), 15)) == 7
