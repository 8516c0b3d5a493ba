"""Measurements of `jetarrow bench`: CPU time by thread, the link without a stream, the server's CPU."""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jetarrow

# Nanoseconds in the files of the Linux kernel.
_NANO = 1e-9
_THREADS = Path("/proc/self/task")

# Round trips that the median is taken of.
_ROUND_TRIPS = 10
# Bytes of a message of the raw measurement: the protocol around it is less than 0.5 %, and the copies of one are on
# their way down while the next one is on its way up.
_RAW_SIZE = 16 << 10
# Messages of the first step.
_RAW_FIRST = 4
# Bytes in flight of its largest step, and the time in seconds that ends it.
_RAW_MOST, _RAW_TIME = 32 << 20, 0.4
# Steps of that size.
_RAW_REPEATS = 3
# Copies of a message that the server sends for one that it receives, so that a slow way up does not limit the way down.
_RAW_COPIES = 4
_RAW_TIMEOUT = 20.0

# The server measures its CPU once a second, over the second before. So a value that was read two seconds after the
# start of a row is of this row alone (nats-server, server/pse/pse_linux.go).
SAMPLE_AGE = 2.0
_SAMPLE_INTERVAL = 0.5


@dataclass(frozen=True)
class Cpu:
    """CPU time of this process in seconds.

    Attributes:
        process: Sum of all threads.
        waiting: Time that all threads waited for a processor; 0 if the system does not report it.
        thread: Time of the busiest thread, including that of waiting for a processor.
    """

    process: float
    waiting: float
    thread: float | None


class CpuClock:
    """Measures the CPU time of this process from its creation on."""

    def __init__(self) -> None:
        self._process = time.process_time()
        self._thread = time.thread_time()
        self._threads = _thread_times()

    def read(self) -> Cpu:
        """Return the CPU time since the creation."""
        process = time.process_time() - self._process
        now = _thread_times()
        if not now:
            # Other systems report the calling thread only. Another one may have been busier, so this proves a busy
            # thread, and the absence of one is proved by the CPU time of the process.
            return Cpu(process, 0.0, time.thread_time() - self._thread)
        used = []
        for thread, (running, waiting) in now.items():
            before = self._threads.get(thread, (0.0, 0.0))
            used.append((running - before[0], waiting - before[1]))
        return Cpu(process, sum(waiting for _, waiting in used), max(map(sum, used)))


def _thread_times() -> dict[str, tuple[float, float]]:
    """Return the seconds that each thread ran and waited for a processor; empty on systems without such files."""
    found: dict[str, tuple[float, float]] = {}
    if sys.platform == "linux":
        with suppress(OSError):
            for thread in os.listdir(_THREADS):
                # A thread may end in between.
                with suppress(OSError):
                    running, waiting, _ = (_THREADS / thread / "schedstat").read_text("ascii").split()
                    found[thread] = (int(running) * _NANO, int(waiting) * _NANO)
    return found


@dataclass(frozen=True)
class Link:
    """Measurement of the connection without a stream.

    Attributes:
        round_trip: Median of the round trip in seconds.
        client: Seconds of a round trip that the client ran or waited for a processor.
        up: Bytes per second to the server; None if it could not be measured.
        down: Bytes per second from the server; None if it could not be measured.
    """

    round_trip: float
    client: float
    up: float | None
    down: float | None

    @property
    def way(self) -> float:
        """Seconds of a round trip outside of the client."""
        return max(0.0, self.round_trip - self.client)


async def measure_link(nc: jetarrow.Client, subject: str) -> Link:
    """Measure the connection.

    Args:
        nc: The connection of the rows.
        subject: A subject that no stream has, for messages of the measurement.
    """
    # The first one may still warm up the client.
    await nc.rtt()
    clock = CpuClock()
    times = [await nc.rtt() for _ in range(_ROUND_TRIPS)]
    used = clock.read()
    round_trip = statistics.median(times)
    client = (used.process + used.waiting) / len(times)
    return Link(round_trip, client, await _raw_up(nc, subject, round_trip), await _raw_down(nc, subject, round_trip))


async def _raw_up(nc: jetarrow.Client, subject: str, round_trip: float) -> float | None:
    async def send(messages: int) -> float:
        return await _send(nc, subject, messages)

    return await _rate(send, round_trip)


async def _raw_down(nc: jetarrow.Client, subject: str, round_trip: float) -> float | None:
    subscriptions = [await nc.subscribe(subject, cb=_ignore) for _ in range(_RAW_COPIES)]

    async def receive(messages: int) -> float:
        before = nc.stats["in_bytes"]
        # The server sends its PONG after the messages.
        await _send(nc, subject, max(1, messages // _RAW_COPIES))
        return nc.stats["in_bytes"] - before

    try:
        await nc.flush()
        return await _rate(receive, round_trip)
    finally:
        for subscription in subscriptions:
            await subscription.unsubscribe()


async def _ignore(_message: object) -> None:
    pass


async def _send(nc: jetarrow.Client, subject: str, messages: int) -> float:
    payload = bytes(min(_RAW_SIZE, nc.max_payload))
    for _ in range(messages):
        await nc.publish(subject, payload)
    await nc.flush(_RAW_TIMEOUT)
    return len(payload) * messages


async def _rate(step: Callable[[int], Awaitable[float]], round_trip: float) -> float | None:
    """Return bytes per second: each step has twice the messages, until one takes long enough; that is repeated."""
    messages = _RAW_FIRST
    rates: list[float] = []
    with suppress(TimeoutError):
        while len(rates) < _RAW_REPEATS:
            start = time.perf_counter()
            moved = await step(messages)
            seconds = time.perf_counter() - start
            if not moved:
                break
            if seconds >= max(_RAW_TIME, 4 * round_trip) or messages * _RAW_SIZE >= _RAW_MOST:
                # The first byte arrives one way after it was sent, and the PONG another.
                rates.append(moved / max(seconds - round_trip, seconds / 2))
            else:
                messages *= 2
    # Other users of the link and of the machine make a step slower, and nothing makes it faster.
    return max(rates, default=None)


class ServerCpu:
    """Reads the CPU of a server twice a second in a thread.

    Args:
        ask: Returns used processors (1.0 is one) and the number of processors; None without an answer.
    """

    def __init__(self, ask: Callable[[str], tuple[float, int] | None]) -> None:
        self._ask = ask
        self._samples: list[tuple[float, float, int]] = []
        self._over = threading.Event()
        self.server = ""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read in the block."""
        thread = threading.Thread(target=self._read, name="server-cpu", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _read(self) -> None:
        while not self._over.wait(_SAMPLE_INTERVAL):
            if self.server and (found := self._ask(self.server)) is not None:
                self._samples.append((time.perf_counter(), *found))

    def between(self, start: float, end: float) -> tuple[float, int] | None:
        """Return the median of used processors, and their number; None without a reading of this time alone.

        Args:
            start: Start of the row, of `time.perf_counter`.
            end: Its end.
        """
        found = [sample for sample in self._samples if start + SAMPLE_AGE <= sample[0] <= end]
        if not found:
            return None
        return statistics.median(used for _, used, _ in found), found[-1][2]
