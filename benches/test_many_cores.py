"""What more cores could give: how long the GIL is held for a message, and batches from four threads.

`gil_share` has a thread that does nothing but take the GIL and let go of it, as often as it can: first while another
process does the work, so that the machine is as busy, then while this one does. What it gets less, the work held.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from harness import Group, Run, payload_list

NATIVE = "jetarrow._jetarrow"
PUBLISHES = Group("GIL: publish, 128 B", "publish")
READS = Group("GIL: read, 128 B", "read")
THREADS = Group("publish_batch in threads, 128 B", "publish", peer="1 thread")
BATCH = 5_000


def publish_list(url: str, _: str, subject: str, count: int, size: int) -> None:
    import jetarrow.sync

    with jetarrow.sync.connect(url) as nc:
        nc.jetstream().publish_batch(subject, payload_list(count, size)).raise_for_errors()


def publish_arrow(url: str, _: str, subject: str, count: int, size: int) -> None:
    import jetarrow.sync
    import pyarrow

    with jetarrow.sync.connect(url) as nc:
        nc.jetstream().publish_batch(subject, pyarrow.array(payload_list(count, size))).raise_for_errors()


def publish_singly(url: str, _: str, subject: str, count: int, size: int) -> None:
    async def work() -> None:
        import jetarrow

        async with await jetarrow.connect(url) as nc, nc.jetstream().publisher(subject) as publisher:
            for payload in payload_list(count, size):
                await publisher.publish(payload)

    asyncio.run(work())


def read_arrow(url: str, stream: str, _: str, count: int, size: int) -> None:
    import jetarrow.sync

    with jetarrow.sync.connect(url) as nc:
        assert nc.jetstream().read(stream).read_all().num_rows == count


def fetch_arrow(url: str, stream: str, subject: str, count: int, size: int) -> None:
    import jetarrow.sync
    from jetarrow.js.api import ConsumerConfig

    with jetarrow.sync.connect(url) as nc:
        sub = nc.jetstream().pull_subscribe(subject, stream=stream, config=ConsumerConfig(ack_policy="none"))
        left = count
        while left > 0:
            left -= len(sub.fetch_batch(10_000))


def each_message(url: str, stream: str, subject: str, count: int, size: int) -> None:
    async def work() -> None:
        import jetarrow

        async with await jetarrow.connect(url) as nc:
            sub = await nc.jetstream().subscribe(subject, stream=stream, ordered_consumer=True)
            left = count
            async for msg in sub.messages:
                left -= len(msg.data) > 0
                if not left:
                    break

    asyncio.run(work())


Work = Callable[[str, str, str, int, int], None]
WORK: dict[str, Work] = {
    "publish_batch of a list": publish_list,
    "publish_batch of an Arrow column": publish_arrow,
    "publisher": publish_singly,
    "js.read": read_arrow,
    "fetch_batch(10_000)": fetch_arrow,
    "async for, ordered push": each_message,
}


class Taker:
    """Takes the GIL and lets go of it, as often as it can."""

    def __init__(self) -> None:
        self._count = 0
        self._over = False
        self._thread = threading.Thread(target=self._take)

    def _take(self) -> None:
        while not self._over:
            os.sched_yield()
            self._count += 1

    @contextmanager
    def timed(self, rates: list[float]) -> Iterator[None]:
        """Adds how often a second it got it meanwhile."""
        before, begin = self._count, time.perf_counter()
        yield
        rates.append((self._count - before) / (time.perf_counter() - begin))

    def __enter__(self) -> Taker:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over = True
        self._thread.join()


def gil_share(run: Run, name: str, *, elsewhere: str) -> int:
    """Does the work, first for the subject `elsewhere` in another process."""
    work, count, size = WORK[name], run.count, run.size
    payload_list(count, size)
    rates: list[float] = []
    command: list[Any] = [sys.executable, __file__, name, run.url, run.stream, elsewhere, count, size]
    with (
        subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other,
        Taker() as taker,
    ):
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        with taker.timed(rates):
            other.stdin.write(b"\n")
            other.stdin.flush()
            other.stdout.readline()
        other.stdin.close()
        other.wait(60)
        with run.clock(), taker.timed(rates):
            work(run.url, run.stream, run.subject, count, size)
    share = max(0.0, 1 - rates[1] / rates[0])
    run.notes.update({"GIL held, %": 100 * share, "GIL held, ns": 1e9 * share * run.seconds / count})
    return count


def add(group: Group, name: str) -> None:
    @group.row(name, needs=NATIVE)
    def row(run: Run) -> int:
        import jetarrow.sync

        if group is READS:
            return gil_share(run, name, elsewhere=run.subject)
        with jetarrow.sync.connect(run.url) as nc:
            js = nc.jetstream()
            js.add_stream(name=f"{run.stream}-2", subjects=[f"{run.stream}-2"])
            try:
                return gil_share(run, name, elsewhere=f"{run.stream}-2")
            finally:
                js.delete_stream(f"{run.stream}-2")


for _number, _name in enumerate(WORK):
    add(PUBLISHES if _number < 3 else READS, _name)


@contextmanager
def apart(server: int) -> Iterator[int]:
    """The server on one processor, this process on the others; how many those are."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        yield len(cpus)
        return
    tasks = [server, *(int(task) for task in os.listdir(f"/proc/{server}/task"))]
    for task in tasks:
        os.sched_setaffinity(task, {cpus[-1]})
    os.sched_setaffinity(0, set(cpus[:-1]))
    try:
        yield len(cpus) - 1
    finally:
        os.sched_setaffinity(0, set(cpus))
        for task in tasks:
            os.sched_setaffinity(task, set(cpus))


def in_threads(run: Run, threads: int) -> int:
    import jetarrow.sync

    payloads = run.payloads
    blocks = [payloads[at : at + BATCH] for at in range(0, len(payloads), BATCH)]

    def work(number: int) -> int:
        with jetarrow.sync.connect(run.url) as nc:
            js = nc.jetstream()
            ready.wait()
            return sum(js.publish_batch(run.subject, block).stored for block in blocks[number::threads])

    ready = threading.Barrier(threads + 1)
    with apart(run.server_pid) as cpus, ThreadPoolExecutor(threads) as pool:
        working = [pool.submit(work, number) for number in range(threads)]
        with run.clock():
            ready.wait()
            stored = sum(each.result() for each in working)
    run.notes["client's CPUs"] = cpus
    return stored


@THREADS.row("1 thread", needs=NATIVE)
def one_thread(run: Run) -> int:
    return in_threads(run, 1)


@THREADS.row("4 threads", needs=NATIVE)
def four_threads(run: Run) -> int:
    return in_threads(run, 4)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no processor can be chosen here")
@pytest.mark.parametrize("name", THREADS.rows)
def test_threads(name: str, record: Callable[[Group, str], None]) -> None:
    record(THREADS, name)


@pytest.mark.parametrize("name", PUBLISHES.rows)
def test_gil_publish(name: str, record: Callable[[Group, str], None]) -> None:
    record(PUBLISHES, name)


@pytest.mark.parametrize("name", READS.rows)
def test_gil_read(name: str, record: Callable[[Group, str], None]) -> None:
    record(READS, name)


if __name__ == "__main__":
    _work, _rest = WORK[sys.argv[1]], sys.argv[2:5]
    payload_list(*map(int, sys.argv[5:]))
    print(flush=True)
    sys.stdin.readline()
    _work(*_rest, *map(int, sys.argv[5:]))
    print(flush=True)
