"""Closing of a reader while another task or thread waits for its next batch."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .slow_link import slow_link
from .tools import PATIENCE, fill, fill_sync, no_consumer_stays, time_without_processor, until


async def test_close_ends_pending_next(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3)
    reader = js.read(stream, follow=True)
    assert (await anext(reader)).seqs.to_pylist() == [1, 2, 3]
    pending = [asyncio.ensure_future(anext(reader)) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.wait_for(reader.close(), 20)
    for result in await asyncio.wait_for(asyncio.gather(*pending, return_exceptions=True), 20):
        assert isinstance(result, StopAsyncIteration)
    assert reader.position == 4
    await reader.close()
    assert await js.consumers_info(stream) == []


def test_close_ends_pending_next_of_other_thread(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 3)
    reader = sync_js.read(stream, follow=True)
    seen: list[int | None] = []
    first = threading.Event()

    def follow() -> None:
        for batch in reader:
            seen.extend(batch.seqs.to_pylist())
            first.set()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert first.wait(PATIENCE)
    reader.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert seen == [1, 2, 3]


def test_closed_arrow_stream_raises_error(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 3)
    reader = sync_js.read(stream, follow=True)
    ends: list[Any] = []
    first = threading.Event()

    def follow() -> None:
        try:
            with pa.RecordBatchReader.from_stream(reader) as batches:
                for _ in batches:
                    first.set()
            ends.append("end")
        except Exception as error:
            ends.append(error)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert first.wait(PATIENCE)
    reader.close()
    thread.join(PATIENCE)
    assert "the reader was closed" in str(ends[0])


async def test_read_all_of_closed_reader_raises_error(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3)
    reader = js.read(stream, follow=True, columns=["seq"])
    reading = asyncio.ensure_future(reader.read_all())
    await until(lambda: reader.position == 4)
    await reader.close()
    with pytest.raises(jetarrow.errors.Error, match="closed"):
        await asyncio.wait_for(reading, 20)


async def test_close_ends_a_read_that_opens(js: JetStreamContext, nats_url: str, stream: str) -> None:
    async with slow_link(nats_url, 0.1) as link, await jetarrow.connect(link.url) as nc:
        reader = nc.jetstream().read(stream, follow=True)
        pending = asyncio.ensure_future(anext(reader))
        # The request for the stream's state has no response yet.
        await until(lambda: link.asked("STREAM.INFO"))
        assert reader.position is None
        await reader.close()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(pending, 20)
    await no_consumer_stays(js, stream)


async def test_close_does_not_wait_for_silent_server(js: JetStreamContext, nats_url: str, stream: str) -> None:
    await fill(js, stream, 3)
    async with slow_link(nats_url, 0) as link, await jetarrow.connect(link.url) as nc:
        link.swallowed = b"CONSUMER.CREATE"
        reader = nc.jetstream().read(stream)
        pending = asyncio.ensure_future(anext(reader))
        # The range is known: the request for the consumer was sent, and has no response.
        await until(lambda: reader.position == 1)
        begin = time.monotonic()
        await reader.close()
        with pytest.raises(StopAsyncIteration):
            await pending
        # Other requests wait for 5 s.
        assert time.monotonic() - begin < 4.5


async def test_close_deletes_consumer_during_its_creation(js: JetStreamContext, nats_url: str, stream: str) -> None:
    """Over a slow link: the request was sent, and has no response yet."""
    await fill(js, stream, 3)
    async with slow_link(nats_url, 0.04) as link, await jetarrow.connect(link.url) as nc:
        for _ in range(3):
            reader = nc.jetstream().read(stream)
            pending = asyncio.ensure_future(anext(reader))
            await until(lambda reader=reader: reader.position == 1)  # type: ignore[misc]
            await reader.close()
            with pytest.raises(StopAsyncIteration):
                await pending
    assert await js.consumers_info(stream) == []


async def test_close_waits_for_pending_consumer_deletion(js: JetStreamContext, nats_url: str, stream: str) -> None:
    """The range ended before the reader was closed."""
    await fill(js, stream, 3)
    async with slow_link(nats_url, 0.02) as link, await jetarrow.connect(link.url) as nc:
        for read in (nc.jetstream().read, nc.jetstream().latest):
            async with read(stream) as reader:
                while await anext(reader, None) is not None:
                    pass
            # The close waits a quarter of a second for the answer, which a busy machine may exceed.
            await no_consumer_stays(js, stream)


@pytest.mark.parametrize("stage", ["opening", "reading", "following"])
async def test_client_close_ends_read_at_once(own_server: NatsServer, own: JetStreamContext, stage: str) -> None:
    """The server sends nothing more: the close does not wait for messages."""
    await own.add_stream(name="S", subjects=["s.>"])
    # More messages than the two outstanding requests ask for.
    await own.publish_batch("s.a", [b"x" * 100] * 30_000)
    nc = await jetarrow.connect(own_server.url)
    reader = nc.jetstream().read("S", batch_rows=1_000, follow=stage == "following")
    if stage != "opening":
        await anext(reader)

    async def rest() -> None:
        async for _ in reader:
            pass

    own_server.pause()
    try:
        reading = asyncio.ensure_future(rest())
        await asyncio.sleep(0.3)
        closing = asyncio.ensure_future(nc.close())
        begun, waited = time.monotonic(), time_without_processor(os.getpid())
        with pytest.raises(jetarrow.errors.ConnectionClosedError):
            await reading
        waited = time_without_processor(os.getpid()) - waited
        # The close itself waits for 2 s.
        assert time.monotonic() - begun - waited < 1.8
        await closing
    finally:
        own_server.resume()


async def test_read_uses_timeout_of_context(own_server: NatsServer, own: JetStreamContext) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        own_server.pause()
        try:
            begun = time.monotonic()
            with pytest.raises(jetarrow.errors.TimeoutError, match="within 1 s"):
                await nc.jetstream(timeout=1).read("S").read_all()
            # The default is 5 s.
            assert time.monotonic() - begun < 4.5
        finally:
            own_server.resume()
