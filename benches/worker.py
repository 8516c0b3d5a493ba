"""Measures `jetarrow.worker` against the loops that docs/worker.md has by hand, in one run.

    python benches/worker.py [MESSAGES]

Each program handles the same messages of 128 B with a handler that does nothing. The programs alternate; the figures
are the medians of five rounds, and the ratio is that of the medians. CPU is that of the client's process, which other
work on the machine disturbs less.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jetarrow
import jetarrow.sync
import pyarrow as pa
from jetarrow._jetarrow import __debug_build__
from jetarrow.server import NatsServer

ROUNDS = 5
# Messages in progress at a time, as in docs/worker.md.
LOOP_CONCURRENCY, THREAD_CONCURRENCY = 50, 20
BATCH_ROWS = 1000


class Count:
    """Counts handled messages, and calls a function after the last one."""

    def __init__(self, most: int) -> None:
        self.left = most
        self.stop: Callable[[], None] = lambda: None

    def add(self, count: int) -> None:
        """Adds handled messages."""
        self.left -= count
        if self.left <= 0:
            self.stop()


async def loop_by_hand(js: Any, durable: str, count: Count) -> None:
    """The asynchronous loop of the page."""

    async def handle(msg: Any) -> None:
        count.add(1)

    async def process(msg: Any) -> None:
        try:
            async with asyncio.timeout(30):
                await handle(msg)
        except Exception:
            await msg.nak(delay=1)
        else:
            await msg.ack()

    sub = await js.pull_subscribe("S.>", durable=durable, stream="S", ack_wait=60)
    while count.left > 0:
        await asyncio.gather(*map(process, await sub.fetch_batch(LOOP_CONCURRENCY, timeout=1)))
    await sub.unsubscribe()


async def loop_worker(js: Any, durable: str, count: Count) -> None:
    """The worker with the same handler and time limit."""

    async def handle(msg: Any) -> None:
        count.add(1)

    worker = jetarrow.worker(
        js, "S", durable=durable, handler=handle, concurrency=LOOP_CONCURRENCY, ack_wait=60, handler_timeout=30
    )
    count.stop = worker.stop
    await worker.run()


async def loop_worker_without_timeout(js: Any, durable: str, count: Count) -> None:
    """The worker as it is by default."""

    async def handle(msg: Any) -> None:
        count.add(1)

    worker = jetarrow.worker(js, "S", durable=durable, handler=handle, concurrency=LOOP_CONCURRENCY, ack_wait=60)
    count.stop = worker.stop
    await worker.run()


async def batches_by_hand(js: Any, durable: str, count: Count) -> None:
    """One batch after the other."""
    sub = await js.pull_subscribe("S.>", durable=durable, stream="S", ack_wait=60)
    while count.left > 0:
        batch = await sub.fetch_batch(BATCH_ROWS, timeout=1)
        count.add(len(batch))
        await batch.ack()
    await sub.unsubscribe()


async def batch_worker(js: Any, durable: str, count: Count) -> None:
    """The worker with a batch handler."""

    async def handle(batch: Any) -> None:
        count.add(len(batch))

    worker = jetarrow.worker(
        js, "S", durable=durable, batch_handler=handle, rows=BATCH_ROWS, concurrency=1, ack_wait=60
    )
    count.stop = worker.stop
    await worker.run()


def threads_by_hand(js: Any, durable: str, count: Count) -> None:
    """The blocking loop of the page."""

    def handle(msg: Any) -> None:
        count.add(1)

    def process(msg: Any) -> None:
        try:
            handle(msg)
        except Exception:
            msg.nak(delay=1)
        else:
            msg.ack()

    sub = js.pull_subscribe("S.>", durable=durable, stream="S", ack_wait=60)
    with ThreadPoolExecutor(THREAD_CONCURRENCY) as pool:
        while count.left > 0:
            for done in [pool.submit(process, msg) for msg in sub.fetch_batch(THREAD_CONCURRENCY, timeout=1)]:
                done.result()
    sub.unsubscribe()


def thread_worker(js: Any, durable: str, count: Count) -> None:
    """The blocking worker."""

    def handle(msg: Any) -> None:
        count.add(1)

    worker = jetarrow.sync.worker(js, "S", durable=durable, handler=handle, concurrency=THREAD_CONCURRENCY, ack_wait=60)
    count.stop = worker.stop
    worker.run()


PAIRS: dict[str, tuple[Any, Any]] = {
    "async handler": (loop_by_hand, loop_worker),
    "async handler, no handler_timeout": (loop_by_hand, loop_worker_without_timeout),
    "batch handler, 1000 rows": (batches_by_hand, batch_worker),
    "sync handler": (threads_by_hand, thread_worker),
}


def rate(url: str, program: Any, messages: int, durable: str) -> tuple[float, float]:
    """Messages per second of one program, and microseconds of CPU per message."""
    count = Count(messages)

    def since(begin: float, cpu: float) -> tuple[float, float]:
        took, used = time.perf_counter() - begin, time.process_time() - cpu
        return messages / took, used / messages * 1e6

    async def on_loop() -> tuple[float, float]:
        async with await jetarrow.connect(url) as nc:
            begin = time.perf_counter(), time.process_time()
            await program(nc.jetstream(), durable, count)
            return since(*begin)

    if asyncio.iscoroutinefunction(program):
        return asyncio.run(on_loop())
    with jetarrow.sync.connect(url) as nc:
        begin = time.perf_counter(), time.process_time()
        program(nc.jetstream(), durable, count)
        return since(*begin)


def main(messages: int) -> None:
    """Prints a line for each pair."""
    if __debug_build__:
        sys.exit("this is a debug build: run make .stamps/release")
    print(f"pyarrow {pa.__version__}, which the batch handler needs, is loaded before the first round")
    with NatsServer() as server:
        with jetarrow.sync.connect(server.url) as nc:
            nc.jetstream().add_stream(name="S", subjects=["S.>"])
            nc.jetstream().publish_batch("S.a", [b"x" * 128] * messages).raise_for_errors()
            # Made by the first worker otherwise, which would count as time of its loop.
            nc.jetstream().keep_dead_letters("S")
        for name, pair in PAIRS.items():
            results: tuple[list[tuple[float, float]], ...] = ([], [])
            for number in range(ROUNDS):
                for place, program in enumerate(pair):
                    durable = f"{program.__name__}-{number}-{PAIRS_NUMBER[name]}"
                    results[place].append(rate(server.url, program, messages, durable))
            hand, worker = ([statistics.median(figures) for figures in zip(*one, strict=True)] for one in results)
            print(
                f"{name}: by hand {hand[0]:,.0f}/s and {hand[1]:.1f} us CPU, worker {worker[0]:,.0f}/s and"
                f" {worker[1]:.1f} us CPU, ratio {worker[0] / hand[0]:.2f}, of CPU {worker[1] / hand[1]:.2f}",
                flush=True,
            )


PAIRS_NUMBER = {name: number for number, name in enumerate(PAIRS)}

if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
