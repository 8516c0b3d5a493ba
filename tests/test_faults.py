"""Tests with real kills and signals; the large ones are in `survive`."""

from __future__ import annotations

import asyncio
import time

import jetarrow
from jetarrow import errors
from jetarrow.js import errors as js_errors
from jetarrow.server import NatsServer

from .tools import until


async def test_kill_during_publish_batch(own_server: NatsServer) -> None:
    """Every row is stored, duplicate or failed; the same call again completes without loss or duplicates."""
    # Progress is reported ten times a second: the rows must not all be stored before the first report.
    count = 100_000
    payloads = [str(i) for i in range(count)]
    ids = [f"id-{i}" for i in range(count)]
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.1, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        await js.add_stream(name="KILL", subjects=["kill.>"])
        killed = asyncio.Event()

        def progress(done: int, total: int | None) -> None:
            if done > count // 10 and not killed.is_set():
                killed.set()
                own_server.kill()

        begin = time.monotonic()
        # A small window, so that the kill happens in the middle of the batch.
        task = asyncio.ensure_future(
            js.publish_batch("kill.a", payloads, msg_ids=ids, max_inflight=200, timeout=3, progress=progress)
        )
        await asyncio.wait_for(killed.wait(), 20)
        first = await task
        assert time.monotonic() - begin < 20
        assert first.stored + first.duplicates + len(first.errors) == count
        assert 0 < len(first.errors) < count
        assert {type(error) for _, error in first.errors} <= {
            errors.TimeoutError,
            js_errors.PublishUnconfirmedError,
        }

        await asyncio.to_thread(own_server.start)
        second = await js.publish_batch("kill.a", payloads, msg_ids=ids)
        second.raise_for_errors()
        assert second.stored + second.duplicates == count
        table = await js.read("KILL", columns=["seq", "data"]).read_all()
        assert sorted(int(data) for data in table.column("data").to_pylist()) == list(range(count))
        # Rows that were confirmed before the kill are stored at the sequences of their acks.
        place = dict(zip(table.column("seq").to_pylist(), table.column("data").to_pylist(), strict=True))
        confirmed = [(row, seq) for row, seq in enumerate(first.seqs.to_pylist()) if seq is not None]
        assert confirmed
        assert all(place[seq] == payloads[row].encode() for row, seq in confirmed)


async def test_rows_without_id_fail_as_unconfirmed_after_a_kill(own_server: NatsServer) -> None:
    # Progress is reported ten times a second: the rows must not all be stored before the first report.
    count = 200_000
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.1, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        await js.add_stream(name="KILL", subjects=["kill.>"])
        restarted: list[asyncio.Task[object]] = []

        async def restart() -> None:
            await asyncio.to_thread(own_server.kill)
            await asyncio.to_thread(own_server.start)

        def progress(done: int, total: int | None) -> None:
            if done > count // 10 and not restarted:
                # At once, so that rows are left, and something is in flight when the link breaks.
                own_server.pause()
                restarted.append(asyncio.ensure_future(restart()))

        result = await js.publish_batch("kill.a", ["x"] * count, max_inflight=100, progress=progress)
        await restarted[0]
        assert 0 < len(result.errors) <= 100
        assert all(isinstance(error, js_errors.PublishUnconfirmedError) for _, error in result.errors)
        stored = (await js.stream_info("KILL")).state.messages
        assert result.stored <= stored <= count


async def test_fetch_across_a_restart(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.1, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        await js.add_stream(name="KILL", subjects=["kill.>"])
        sub = await js.pull_subscribe("kill.>", durable="d", ack_wait=1)
        fetch = asyncio.ensure_future(sub.fetch_batch(10, timeout=20, min_messages=10))

        async def asked() -> bool:
            return bool((await sub.consumer_info()).num_waiting)

        await until(asked)
        await asyncio.to_thread(own_server.kill)
        await asyncio.to_thread(own_server.start)
        (await js.publish_batch("kill.a", [b"x"] * 10, msg_ids=[str(i) for i in range(10)])).raise_for_errors()
        begin = time.monotonic()
        batch = await fetch
        assert len(batch) == 10
        assert time.monotonic() - begin < 5


async def test_batch_into_a_frozen_server_ends_with_its_timeout(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        js = nc.jetstream()
        await js.add_stream(name="SLOW", subjects=["slow.>"])
        own_server.pause()
        begin = time.monotonic()
        result = await js.publish_batch("slow.a", ["x"] * 20_000, timeout=0.5)
        # The defaults are 5 and 30 s.
        assert time.monotonic() - begin < 4.5
        own_server.resume()
        assert len(result.errors) == 20_000
        assert isinstance(result.errors[0].error, errors.TimeoutError)
        assert (await js.publish("slow.a", b"still alive")).stream == "SLOW"


async def test_ordered_consumer_across_restarts(own_server: NatsServer) -> None:
    count = 40_000
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.1, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        await js.add_stream(name="KILL", subjects=["kill.>"])
        (await js.publish_batch("kill.a", [b"x"] * count)).raise_for_errors()
        seen = []
        async for msg in js.ordered_consumer("KILL"):
            seen.append(msg.seq)
            if len(seen) in (5_000, 20_000):
                await asyncio.to_thread(own_server.kill)
                await asyncio.to_thread(own_server.start)
            if len(seen) == count:
                break
        assert seen == list(range(1, count + 1))
