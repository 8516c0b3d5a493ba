"""A group of the stream ORDERS, and its members."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from jetarrow.jetstream.groups.member import GroupMember
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import GroupPinLostError, NotFoundError

from tests.tools import until

Batches = AsyncIterator[Any]
ACK_WAIT = 1.0


async def elastic(js: JetStreamContext, *members: str, **options: Any) -> Any:
    options = {"filter": "orders.*", "partition_by": [1], "partitions": 6, "members": members, **options}
    return await js.create_consumer_group("ORDERS", "G", **options)


def member(js: JetStreamContext, name: str = "m1", **options: Any) -> GroupMember:
    return js.consumer_group("ORDERS", "G", member=name, **{"ack_wait": ACK_WAIT, **options})


async def publish(js: JetStreamContext, keys: int, rounds: range) -> None:
    """Publishes, and waits until the group has the messages: a batch has those that were sourced by then."""
    last = 0
    for number in rounds:
        for key in range(keys):
            last = (await js.publish(f"orders.k{key}", f"{key} {number}".encode())).seq

    async def sourced() -> bool:
        try:
            return (await js.stream_info("ORDERS-G")).state.last_seq >= last
        except NotFoundError:
            return True

    await until(sourced)


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
