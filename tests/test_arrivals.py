"""Waits without a limit in time: many subscriptions of one loop, cancelled waits, and ends of every kind."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import jetarrow
import pytest
from jetarrow import errors
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg

SUBSCRIPTIONS = 500


async def following(subscription: Any) -> Msg:
    """The next message, by an iteration of its own."""
    async for message in subscription.messages:
        return cast(Msg, message)
    raise EOFError


async def test_each_of_many_subscriptions_is_woken_for_its_messages(nc: Client, nats_url: str) -> None:
    got: dict[int, list[bytes]] = {number: [] for number in range(SUBSCRIPTIONS)}
    rounds = 20

    async def take(number: int, subscription: Any) -> None:
        async for message in subscription.messages:
            got[number].append(message.data)
            if len(got[number]) == rounds:
                return

    subscriptions = [await nc.subscribe(f"arrivals.{number}") for number in range(SUBSCRIPTIONS)]
    tasks = [asyncio.ensure_future(take(number, subscription)) for number, subscription in enumerate(subscriptions)]
    await nc.flush()
    async with await jetarrow.connect(nats_url) as sender:
        for round_number in range(rounds):
            for number in range(SUBSCRIPTIONS):
                await sender.publish(f"arrivals.{number}", b"%d" % round_number)
        await asyncio.gather(*tasks)
    assert list(got.values()) == [[b"%d" % number for number in range(rounds)]] * SUBSCRIPTIONS


async def test_a_cancelled_wait_takes_no_message_from_others(nc: Client) -> None:
    subscription = await nc.subscribe("cancelled")
    for _ in range(50):
        waits = [asyncio.ensure_future(following(subscription)) for _ in range(3)]
        await asyncio.sleep(0)
        waits[1].cancel()
        for payload in (b"first", b"second"):
            await nc.publish("cancelled", payload)
        first, cancelled, second = await asyncio.gather(*waits, return_exceptions=True)
        assert isinstance(cancelled, asyncio.CancelledError)
        assert isinstance(first, Msg)
        assert isinstance(second, Msg)
        assert sorted([first.data, second.data]) == [b"first", b"second"]
    assert subscription.pending_msgs == 0


async def test_a_wait_that_is_cancelled_as_its_message_arrives_loses_none(nc: Client) -> None:
    subscription = await nc.subscribe("late")
    for number in range(200):
        wait = asyncio.ensure_future(following(subscription))
        await asyncio.sleep(0)
        await nc.publish("late", b"%d" % number)
        await asyncio.sleep(0.001 if number % 2 else 0)
        wait.cancel()
        try:
            message = await wait
        except asyncio.CancelledError:
            message = await subscription.next_msg(timeout=10)
        assert message.data == b"%d" % number


async def test_a_wait_ends_with_its_subscription(nc: Client) -> None:
    for end in ("unsubscribe", "drain"):
        subscription = await nc.subscribe("ends")
        iterated = asyncio.ensure_future(anext(aiter(subscription.messages), None))
        waited = asyncio.ensure_future(subscription.next_msg(timeout=None))
        await asyncio.sleep(0.01)
        await getattr(subscription, end)()
        assert await iterated is None
        with pytest.raises(errors.BadSubscriptionError):
            await waited


async def test_a_wait_ends_with_its_connection(nats_url: str) -> None:
    nc = await jetarrow.connect(nats_url)
    subscription = await nc.subscribe("ends")
    iterated = asyncio.ensure_future(anext(aiter(subscription.messages), None))
    waited = asyncio.ensure_future(subscription.next_msg(timeout=None))
    await asyncio.sleep(0.01)
    await nc.close()
    with pytest.raises(errors.ConnectionClosedError):
        await waited
    assert await iterated is None


async def test_one_subscription_is_awaited_by_two_loops(nc: Client) -> None:
    """Each wait is resolved in the loop of its own."""
    subscription = await nc.subscribe("loops")

    async def other() -> bytes:
        message = await following(subscription)
        return bytes(message.data)

    here = asyncio.ensure_future(other())
    there = asyncio.ensure_future(asyncio.to_thread(asyncio.run, other()))
    await asyncio.sleep(0.05)
    for payload in (b"one", b"two"):
        await nc.publish("loops", payload)
    assert sorted(await asyncio.gather(here, there)) == [b"one", b"two"]
