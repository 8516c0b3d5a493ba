"""STALLED: the server is frozen while a client publishes at full speed, and resumed later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import jetarrow
import pyarrow as pa
from jetarrow.server import NatsServer

from ..survive.tools import FLAT, Ticker, places, rss, trimmed_rss
from .figures import Figure, said

# Fewer messages of 64 KiB, so that no more bytes are in flight. The kernel decides how many bytes a frozen server's
# socket accepts (9 to 16 MiB were measured); bytes that it does not accept are not in flight.
FULL: dict[str, Any] = {"stop": 60.0, "sizes": {1_024: (60_000, 5_000), 65_536: (6_000, 75)}}
SHORT: dict[str, Any] = {"stop": 10.0, "sizes": {1_024: (60_000, 5_000)}}
# Seconds that a tick of the event loop may be late.
LATE = 0.1
AT_REST = "the process, with all in flight"


async def sit_out(
    server: NatsServer, ticker: Ticker, stop: float, window: int, state: Callable[[], tuple[int, int]]
) -> list[Figure]:
    """Waits until a frozen server's client makes no progress, and `stop` seconds more; then resumes the server.

    `state` returns the number of unanswered and of answered messages.
    """
    before, patience = None, time.monotonic() + 30
    # A busy machine may pause while the window is filled.
    while state()[0] < window and time.monotonic() < patience:
        await asyncio.sleep(0.05)
    while before != (before := state()):
        await asyncio.sleep(0.3)
    until = time.monotonic() + stop
    height, peak, moved = trimmed_rss(), 0.0, 0
    ticker.worst()
    while time.monotonic() < until:
        await asyncio.sleep(0.1)
        peak = max(peak, rss())
        moved += state() != before
    late = ticker.worst()
    server.resume()
    return [
        said("frozen", stop, "s"),
        said(AT_REST, height, "MiB"),
        Figure("in flight too few", max(0, window - before[0]), 0),
        Figure("answered while frozen", moved, 0),
        Figure("growth while frozen", peak - height, FLAT, "MiB"),
        Figure("worst tick of the loop", late, LATE, "s"),
    ]


def at_rest(figures: list[Figure]) -> float:
    return next(figure.value for figure in figures if figure.name == AT_REST)


async def batch(server: NatsServer, ticker: Ticker, stop: float, size: int, count: int, window: int) -> list[Figure]:
    """Rows have no id, so a row that is sent twice is stored twice."""
    block = window // 5
    frozen = asyncio.Event()
    loop = asyncio.get_running_loop()
    given = done = 0

    def progress(rows: int, total: int | None) -> None:
        nonlocal done
        done = rows

    def blocks(rows: int) -> Iterator[pa.RecordBatch]:
        for first in range(0, rows, block):
            yield pa.record_batch({"data": [f"{i:0{size}}" for i in range(first, first + block)]})

    def freezing() -> Iterator[pa.RecordBatch]:
        nonlocal given
        for rows in blocks(count):
            if given >= count // 3 and not frozen.is_set():
                server.pause()
                loop.call_soon_threadsafe(frozen.set)
            given += block
            yield rows

    schema = pa.schema({"data": pa.string()})
    # With the default pings, a server that is frozen for 20 s counts as disconnected (see HALF-OPEN).
    async with await jetarrow.connect(server.url, ping_interval=2 * stop) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        # Warm-up, so that memory retained by the allocators of Arrow and Python is not counted as growth.
        warm = pa.RecordBatchReader.from_batches(schema, blocks(count // 3))
        (await js.publish_batch("s.a", warm, max_inflight=window)).raise_for_errors()
        await js.purge_stream("S")
        reader = pa.RecordBatchReader.from_batches(schema, freezing())
        timeout = 2 * stop + 30
        before = trimmed_rss()
        task = asyncio.ensure_future(
            js.publish_batch("s.a", reader, max_inflight=window, timeout=timeout, progress=progress)
        )
        await frozen.wait()
        figures = await sit_out(server, ticker, stop, window, lambda: (given - done, done))
        in_flight = 2 * window * size / 2**20 + 16
        result = await task
        result.raise_for_errors()
        found = await places(js, "S")
        await js.delete_stream("S")
    return [
        said(f"publish_batch of {size} bytes: rows", count),
        *figures,
        Figure("growth in all", at_rest(figures) - before, in_flight, "MiB"),
        Figure("lost or doubled", abs(len(found) - count), 0),
        Figure("out of order", sum(found.get(seq or 0) != row for row, seq in enumerate(result.seqs.to_pylist())), 0),
    ]


async def publisher(
    server: NatsServer, ticker: Ticker, stop: float, size: int, count: int, window: int
) -> list[Figure]:
    async with await jetarrow.connect(server.url, ping_interval=2 * stop) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        async with js.publisher("s.a", max_inflight=window, ack_timeout=2 * stop + 30) as publisher:
            frozen = asyncio.Event()

            async def publish() -> list[int]:
                futures = []
                for i in range(count):
                    if i == count // 3:
                        server.pause()
                        frozen.set()
                    futures.append(await publisher.publish(f"{i:0{size}}"))
                await publisher.flush()
                return [future.result().seq for future in futures]

            task = asyncio.ensure_future(publish())
            await frozen.wait()
            figures = await sit_out(server, ticker, stop, window, lambda: (publisher.pending, publisher.stats.stored))
            seqs = await task
        failed = count - publisher.stats.stored
        found = await places(js, "S")
        await js.delete_stream("S")
    return [
        said(f"publisher of {size} bytes: messages", count),
        *figures,
        Figure("not stored once, without an error", failed, 0),
        Figure("lost or doubled", abs(len(found) - count), 0),
        Figure("out of order", sum(found.get(seq) != row for row, seq in enumerate(seqs)), 0),
    ]


async def measure(stop: float, sizes: dict[int, tuple[int, int]]) -> list[Figure]:
    ticker = Ticker()
    ticking = asyncio.ensure_future(ticker.run())
    figures = []
    with NatsServer() as server:
        for size, (count, window) in sizes.items():
            for form in (batch, publisher):
                figures += await form(server, ticker, stop, size, count, window)
    ticking.cancel()
    return figures
