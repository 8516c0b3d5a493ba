"""Reads whose waits are cancelled: no batch is lost, and nothing is left of an abandoned read."""

from __future__ import annotations

import asyncio
import gc

import jetarrow.sync
import pytest
from jetarrow.js.client import JetStreamContext

from .tools import fill, numbers, until


async def test_a_batch_that_arrives_while_its_wait_is_cancelled_is_the_next(
    js: JetStreamContext, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    await fill(js, stream, 1)
    reader = js.read(stream, follow=True)
    assert (await anext(reader)).seqs.to_pylist() == [1]
    for number in (2, 3):
        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.sleep(0)
        # In the thread of the loop: the batch arrives, and the loop runs first when the wait is cancelled.
        sync_js.publish_batch(f"{stream}.a", numbers(1)).raise_for_errors()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await asyncio.wait_for(anext(reader), 30)).seqs.to_pylist() == [number]
    await reader.close()


async def test_timeouts_of_a_read_that_follows_lose_nothing(js: JetStreamContext, stream: str) -> None:
    reader = js.read(stream, follow=True)
    seen: list[int] = []

    async def publish() -> None:
        for _ in range(200):
            await js.publish(f"{stream}.a", b"x")

    publishing = asyncio.create_task(publish())
    while len(seen) < 200:
        try:
            seen += (await asyncio.wait_for(anext(reader), 0.001)).seqs.to_pylist()
        except TimeoutError:
            continue
    await publishing
    await reader.close()
    assert seen == list(range(1, 201))


async def test_tasks_that_share_a_reader_get_each_batch_once(js: JetStreamContext, stream: str) -> None:
    """Also while one of them is cancelled again and again."""
    await fill(js, stream, 2_000)
    reader = js.read(stream, batch_rows=7)
    seen: list[int | None] = []

    async def read() -> None:
        async for batch in reader:
            seen.extend(batch.seqs.to_pylist())
            await asyncio.sleep(0)

    async def read_with_timeouts() -> None:
        while True:
            waiting = asyncio.ensure_future(anext(reader))
            await asyncio.sleep(0)
            waiting.cancel()
            try:
                seen.extend((await waiting).seqs.to_pylist())
            except asyncio.CancelledError:
                continue
            except StopAsyncIteration:
                return

    await asyncio.wait_for(asyncio.gather(read(), read(), read_with_timeouts()), 60)
    assert sorted(seen) == list(range(1, 2_001))  # type: ignore[type-var]  # all have a sequence


async def test_an_abandoned_read_leaves_no_consumer(js: JetStreamContext, stream: str) -> None:
    reader = js.read(stream, follow=True)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(anext(reader), 0.2)
    del reader
    gc.collect()

    async def none_is_left() -> bool:
        return (await js.stream_info(stream)).state.consumer_count == 0

    await until(none_is_left)
