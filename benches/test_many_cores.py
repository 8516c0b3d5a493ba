"""Scaling with more cores: time under the GIL per message, and publishing from four threads.

The time under the GIL is the CPU time of the thread that holds it. A waiting thread drives the engine without the GIL.
Therefore another thread waits during the measurement, so that the measured thread only creates Python objects and runs
Python code. The figure is an upper bound, because it includes sleeping and waking. A busy machine does not affect it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import pytest
from harness import Group, Run, payload_list

NATIVE = "jetarrow._jetarrow"
PUBLISHES = Group("GIL: publish, 128 B", "publish")
READS = Group("GIL: read, 128 B", "read")
THREADS = Group("publish_batch in threads, 128 B", "publish", peer="1 thread")
# Threads that share one client. A free-threaded Python scales here, if the client has more than one processor.
ONE_CLIENT = {
    verb: Group(f"{verb} on one client, 128 B", "publish", peer="1 thread", count=count)
    for verb, count in (("publish_batch", 300_000), ("publisher", 300_000), ("js.publish", 20_000))
}
BATCH = 5_000


def publish_list(url: str, _: str, subject: str, count: int, size: int) -> None:
    import jetarrow.sync

    with jetarrow.sync.connect(url) as nc:
        nc.jetstream().publish_batch(subject, payload_list(count, size)).raise_for_errors()


@lru_cache(maxsize=2)
def column(count: int, size: int) -> Any:
    import pyarrow

    return pyarrow.array(payload_list(count, size))


def publish_arrow(url: str, _: str, subject: str, count: int, size: int) -> None:
    import jetarrow.sync

    with jetarrow.sync.connect(url) as nc:
        nc.jetstream().publish_batch(subject, column(count, size)).raise_for_errors()


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


@contextmanager
def driven_elsewhere(url: str) -> Iterator[None]:
    """Run another thread that waits for a message that is not sent, and drives the runtime of all connections."""
    import jetarrow.sync

    with jetarrow.sync.connect(url) as nc, ThreadPoolExecutor(1) as pool:
        sub, over = nc.subscribe("never"), threading.Event()

        def wait() -> None:
            while not over.is_set():
                with suppress(TimeoutError):
                    sub.next_msg(timeout=0.5)

        waiting = pool.submit(wait)
        try:
            yield
        finally:
            over.set()
            waiting.result()


def gil_share(run: Run, work: Work) -> int:
    """Do the work, and record the CPU time of this thread, which holds the GIL."""
    column(run.count, run.size)
    with driven_elsewhere(run.url), run.clock():
        before = time.thread_time()
        work(run.url, run.stream, run.subject, run.count, run.size)
        held = time.thread_time() - before
    run.notes.update({"under the GIL, ns": 1e9 * held / run.count, "of client CPU": held / run.client_cpu})
    return run.count


def add(group: Group, name: str) -> None:
    @group.row(name, needs=NATIVE)
    def row(run: Run) -> int:
        return gil_share(run, WORK[name])


for _number, _name in enumerate(WORK):
    add(PUBLISHES if _number < 3 else READS, _name)


@contextmanager
def apart(server: int) -> Iterator[int]:
    """Pin the server to one processor and this process to the others, and yield the number of the others.

    With `JETARROW_BENCH_SHARED_CPU` set, this process may also run on the server's processor.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        yield len(cpus)
        return
    tasks = [server, *(int(task) for task in os.listdir(f"/proc/{server}/task"))]
    for task in tasks:
        os.sched_setaffinity(task, {cpus[-1]})
    own = cpus if os.environ.get("JETARROW_BENCH_SHARED_CPU") else cpus[:-1]
    os.sched_setaffinity(0, set(own))
    try:
        yield len(own)
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


def publish_part(publisher: Any, js: Any, subject: str, payloads: list[bytes], *, verb: str) -> int:
    """Publish one thread's part and wait for its acks."""
    match verb:
        case "publish_batch":
            blocks = (payloads[at : at + BATCH] for at in range(0, len(payloads), BATCH))
            return sum(js.publish_batch(subject, block).stored for block in blocks)
        case "publisher":
            for payload in payloads:
                publisher.publish(payload)
            publisher.flush()
        case _:
            for payload in payloads:
                js.publish(subject, payload)
    return len(payloads)


def on_one_client(run: Run, threads: int, verb: str) -> int:
    import jetarrow.sync

    def work(part: list[bytes]) -> int:
        ready.wait()
        return publish_part(publisher, js, run.subject, part, verb=verb)

    size = -(-len(run.payloads) // threads)
    parts = [run.payloads[at : at + size] for at in range(0, len(run.payloads), size)]
    ready = threading.Barrier(threads + 1)
    with (
        apart(run.server_pid) as cpus,
        jetarrow.sync.connect(run.url) as nc,
        ThreadPoolExecutor(threads) as pool,
    ):
        js = nc.jetstream()
        with js.publisher(run.subject) as publisher:
            working = [pool.submit(work, part) for part in parts]
            with run.clock():
                ready.wait()
                stored = sum(each.result() for each in working)
    run.notes.update({"client's CPUs": cpus, "GIL": has_gil()})
    return stored


def has_gil() -> bool:
    """Whether this Python has the GIL, and it is on."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def add_threads(group: Group, threads: int, verb: str) -> None:
    @group.row("1 thread" if threads == 1 else f"{threads} threads", needs=NATIVE)
    def row(run: Run) -> int:
        return on_one_client(run, threads, verb)


for _verb, _group in ONE_CLIENT.items():
    for _threads in (1, 4):
        add_threads(_group, _threads, _verb)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no processor can be chosen here")
@pytest.mark.parametrize("name", ["1 thread", "4 threads"])
@pytest.mark.parametrize("verb", ONE_CLIENT)
def test_one_client(verb: str, name: str, record: Callable[[Group, str], None]) -> None:
    record(ONE_CLIENT[verb], name)


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
