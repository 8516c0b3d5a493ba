"""Resends after a disconnect: in the order of publishing, and only within the stream's duplicate window."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.js import errors as js_errors
from jetarrow.server import NatsServer

from ..tools import until, wait_until
from .proxy import Proxy
from .tools import places, rss, trimmed_rss


async def test_messages_are_resent_in_the_order_of_publishing(own_server: NatsServer) -> None:
    """The order is kept although the slots of the futures were used before, in another order."""
    async with await jetarrow.connect(
        own_server.url, ping_interval=60, reconnect_time_wait=0.05, max_reconnect_attempts=-1
    ) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        await asyncio.gather(*[await js.publish_async("s.a", b"%d" % i) for i in range(200)])
        count = 200
        for _ in range(2):
            own_server.pause()
            rows = range(count, count + 150)
            futures = [await js.publish_async("s.a", b"%d" % i, msg_id=str(i)) for i in rows]
            await asyncio.sleep(0.1)  # in flight; whether all are does not matter
            own_server.kill()
            own_server.start()
            for future in futures:
                await future
            count += 150
        found = await places(js, "S")
        assert [found[seq] for seq in sorted(found)][200:] == list(range(200, count))


async def test_a_batch_is_resent_in_its_order(own_server: NatsServer) -> None:
    """The order is kept over several disconnects; rows that the socket does not accept wait behind earlier ones."""
    async with await jetarrow.connect(
        own_server.url, ping_interval=60, reconnect_time_wait=0.05, max_reconnect_attempts=-1
    ) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        rows = [b"%d" % i for i in range(3_000)]
        own_server.pause()
        call = asyncio.create_task(
            js.publish_batch("s.a", rows, msg_ids=[str(i) for i in range(3_000)], max_inflight=500)
        )
        for _ in range(3):
            await asyncio.sleep(0.1)
            own_server.kill()
            own_server.start()
            own_server.pause()
        own_server.kill()
        own_server.start()
        (await call).raise_for_errors()
        found = await places(js, "S")
        assert [found[seq] for seq in sorted(found)] == list(range(3_000))


@pytest.mark.parametrize("verb", ["publish_async", "publish_batch"])
async def test_messages_are_not_resent_after_the_duplicate_window(own_server: NatsServer, verb: str) -> None:
    async with (
        Proxy(own_server.port) as proxy,
        await jetarrow.connect(proxy.url, reconnect_time_wait=0.05, max_reconnect_attempts=-1) as nc,
    ):
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], duplicate_window=1)
        assert (await js.publish("s.a", b"before")).seq == 1
        proxy.deaf = True
        result: asyncio.Future[Any]
        if verb == "publish_async":
            result = await js.publish_async("s.a", b"x", msg_id="1")
        else:
            result = asyncio.create_task(js.publish_batch("s.a", [b"x"], msg_ids=["1"]))
        async with await jetarrow.connect(own_server.url) as other:
            looks = other.jetstream()

            async def stored() -> bool:
                return (await looks.stream_info("S")).state.messages == 2

            await until(stored)
            await asyncio.sleep(1.5)  # longer than the duplicate window
            proxy.deaf = False
            proxy.cut()
            if isinstance(result, asyncio.Task):
                error: BaseException | None = (await result).errors[0].error
            else:
                error = (await asyncio.gather(result, return_exceptions=True))[0]
            assert isinstance(error, js_errors.PublishUnconfirmedError)
            assert "duplicate_window" in str(error)
            assert (await looks.stream_info("S")).state.messages == 2


async def test_messages_resent_in_the_duplicate_window_are_stored_once(own_server: NatsServer) -> None:
    async with (
        Proxy(own_server.port) as proxy,
        await jetarrow.connect(proxy.url, reconnect_time_wait=0.05, max_reconnect_attempts=-1) as nc,
    ):
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], duplicate_window=60)
        proxy.deaf = True
        futures = [await js.publish_async("s.a", b"%d" % i, msg_id=str(i)) for i in range(10)]
        await asyncio.sleep(0.3)
        proxy.deaf = False
        proxy.cut()
        acks = [await future for future in futures]
        assert [ack.seq for ack in acks] == list(range(1, 11))


@pytest.mark.parametrize("msg_id", [None, "1"])
@pytest.mark.parametrize("state", ["paused", "killed"])
async def test_publish_ends_with_its_own_timeout(own_server: NatsServer, state: str, msg_id: str | None) -> None:
    async with await jetarrow.connect(
        own_server.url, ping_interval=60, reconnect_time_wait=0.05, max_reconnect_attempts=-1
    ) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        await js.publish("s.a", b"")
        if state == "paused":
            own_server.pause()
        else:
            own_server.kill()
            await until(lambda: not nc.is_connected)
        begun = time.monotonic()
        with pytest.raises(jetarrow.errors.TimeoutError):
            await js.publish("s.a", b"x", timeout=0.5, msg_id=msg_id)
        # Its default is 5 s.
        assert time.monotonic() - begun < 4.5
        if state == "paused":
            # The close would wait for the server.
            own_server.resume()


async def test_a_batch_into_a_stalled_server_stays_in_its_byte_window(own_server: NatsServer) -> None:
    """800 rows share one payload of 1 MiB: only the copies that are sent take memory."""
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        rows = [b"x" * ((1 << 20) - 1)] * 800
        own_server.pause()
        before = trimmed_rss()
        grown = 0.0
        call = asyncio.create_task(js.publish_batch("s.a", rows, timeout=2))
        begun = time.monotonic()
        while not call.done():
            await asyncio.sleep(0.02)
            grown = max(grown, rss() - before)
        assert time.monotonic() - begun < 8
        assert (await call).stored == 0
        assert grown < 64 * 1.5
        own_server.resume()


@pytest.mark.parametrize(("mode", "pace"), [("window", 0.0), ("fast", 0.0), ("fast", 0.001), ("atomic", 0.0)])
async def test_a_batch_ends_in_time_when_the_server_stops_reading(
    own_server: NatsServer, mode: str, pace: float
) -> None:
    """The batch is larger than its sockets and our buffer; rows that were stored before keep their result."""
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], allow_batched=True, allow_atomic=True)
        sent, before = 0, nc.stats["in_msgs"]

        def blocks() -> Iterator[pa.RecordBatch]:
            nonlocal sent
            # A feed that is slower than the connection has its rows sent as they arrive, one by one.
            rows = 1 if pace else 20
            for _ in range(800 // rows):
                if sent == 20 and mode != "atomic":
                    # These rows are stored before the server stops.
                    wait_until(lambda: looks.stream_info("S").state.messages == 20)
                    if mode == "window":
                        wait_until(lambda: nc.stats["in_msgs"] >= before + 20)
                    own_server.pause()
                time.sleep(pace)
                sent += rows
                yield pa.record_batch({"data": [b"x" * 500_000] * rows})

        looks = jetarrow.sync.connect(own_server.url).jetstream()
        schema = pa.schema({"data": pa.binary()})
        reader = pa.RecordBatchReader.from_batches(schema, blocks())
        if mode == "atomic":
            own_server.pause()
            # The lookup of the stream is not answered.
            with pytest.raises(jetarrow.errors.TimeoutError):
                await asyncio.wait_for(js.publish_batch("s.a", reader, mode=mode, timeout=1), 15)
            own_server.resume()
            return
        begun = time.monotonic()
        result = await asyncio.wait_for(js.publish_batch("s.a", reader, mode=mode, timeout=4), 60)
        assert time.monotonic() - begun < 25
        own_server.resume()
        # The server acknowledges a fast batch only after more rows, so the outcome of the first ones is unknown.
        assert result.stored == (20 if mode == "window" else 0)
        assert (result.count, len(result.errors)) == (sent, sent - result.stored)
