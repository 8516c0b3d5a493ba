"""Tasks of a worker's coroutine handlers."""

from __future__ import annotations

import asyncio
from typing import Any

import jetarrow
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.workers.ledger import Item, Ledger


async def test_a_message_that_arrives_as_the_last_task_ends_is_handled(
    js: JetStreamContext, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Neither the answer of a request nor, with the long ack_wait, the keeper wakes the tasks.
    monkeypatch.setattr("jetarrow.workers.loop_worker._REQUEST_TIME", 600.0)
    await js.publish(f"{stream}.b", b"late")
    other = await js.pull_subscribe(f"{stream}.b", durable="other")
    late = await other.fetch(1, timeout=30)
    handled: asyncio.Queue[bytes] = asyncio.Queue()

    async def handle(message: Any) -> None:
        handled.put_nowait(message.data)

    worker = jetarrow.worker(
        js, stream, durable="w", filter=f"{stream}.a", handler=handle, concurrency=1, ack_wait=600.0, signals=False
    )
    take = Ledger.take

    def arrive(message: Any) -> None:
        worker._core.arrive([message], 0.0)
        worker._runners.wake()

    def last_take(self: Ledger, now: float) -> Item | None:
        item = take(self, now)
        if item is None and late:
            # Between the end of the task and its callback, as the answer of a request may.
            asyncio.get_running_loop().call_soon(arrive, late.pop())
        return item

    monkeypatch.setattr(Ledger, "take", last_take)
    async with worker:
        await js.publish(f"{stream}.a", b"1")
        assert [await asyncio.wait_for(handled.get(), 15) for _ in range(2)] == [b"1", b"late"]
