"""Rows, groups and interleaved rounds.

A row is one function that does one group's work in one way. To add one:

    @PUBLISH.row("jetarrow publish_batch, sync", needs="jetarrow")
    def publish_batch_sync(run: Run) -> int:
        ...connect...
        with run.clock():               # only this is measured
            ...publish run.payloads to run.subject...
        return number of messages done  # checked against run.count, and against the stream

The function may be `async def`; it then gets an event loop of its own. In a group that publishes, every run
has a fresh stream; in one that reads, a stream with exactly `run.count` messages of `run.size` bytes; in a core
group there is a fresh subject and no stream, and the row itself proves that all came.
The rounds are interleaved (round 1 of every row, then round 2, ...), each starting with another row, so that
a machine that gets slower or busier hits all rows alike.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import inspect
import json
import os
import shutil
import statistics
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import wire

# Seconds of one round of a row, against a hang: it fails alone, and the other rows keep their figures.
ROW_TIMEOUT = 120.0

RowFunction = Callable[["Run"], int] | Callable[["Run"], Awaitable[int]]


@lru_cache(maxsize=8)
def payload_list(count: int, size: int) -> list[bytes]:
    """Return `count` separate objects with different contents, like those of a program."""
    rest = wire.make_payload(max(0, size - 9))
    return [(b"%08d " % i + rest)[:size] for i in range(count)]


@dataclass
class Run:
    """One round of one row."""

    url: str
    server_pid: int
    stream: str
    subject: str
    count: int
    size: int
    monitor: str = ""  # the server's http address
    seconds: float = 0.0
    client_cpu: float = 0.0
    server_cpu: float | None = None
    notes: dict[str, float] = field(default_factory=dict)  # further columns, such as {"RSS growth, MiB": 12.5}

    @property
    def payloads(self) -> list[bytes]:
        """Separate objects. Read it before the clock runs, because the first call creates them."""
        return payload_list(self.count, self.size)

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Measures its block: time, this process's CPU (all threads), the server's CPU."""
        gc.collect()
        server = cpu_seconds(self.server_pid)
        cpu = time.process_time()
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start
        self.client_cpu += time.process_time() - cpu
        after = cpu_seconds(self.server_pid)
        if server is not None and after is not None:
            self.server_cpu = (self.server_cpu or 0.0) + after - server

    def server_in(self) -> int:
        """Return the bytes of payload that the server has received from all clients (a flush has an empty payload).

        The server updates the counter a moment after its response, so it is polled until it no longer changes.
        """
        seen = -1
        while True:
            with urllib.request.urlopen(f"http://{self.monitor}/varz", timeout=10) as answer:
                last, seen = seen, int(json.load(answer)["in_bytes"])
            if seen == last:
                return seen
            time.sleep(0.02)

    def check_bytes(self, read: int) -> None:
        """Raise an error unless a row that reads every payload has read all bytes."""
        if read != self.count * self.size:
            raise wire.WireError(f"{read} bytes read of {self.count * self.size}")


@dataclass(frozen=True)
class Row:
    name: str
    function: RowFunction
    count: int
    needs: str | None = None  # a module without which the row is skipped
    command: str | None = None  # a program without which the row is skipped

    @property
    def missing(self) -> str | None:
        if self.needs and not installed(self.needs):
            return f"{self.needs} is not installed"
        if self.command and shutil.which(self.command) is None:
            return f"there is no command `{self.command}` on PATH; benches/README.md says how to get it"
        return None


@dataclass
class Group:
    """Rows that do the same work, compared with the row `baseline` and with the row `peer` (if they exist)."""

    name: str
    kind: Literal["publish", "read", "core"]
    baseline: str | None = None
    peer: str | None = None
    size: int = 128
    count: int = 300_000
    rounds: int | None = None  # None: the value of --bench-rounds
    fill: Callable[[str, str, int], None] | None = None  # (url, subject, count): fills a stream that is read
    rows: dict[str, Row] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)  # of the stream, such as allow_batched
    beside: dict[str, str] = field(default_factory=dict)  # a further column of ratios, and the row that they refer to

    def row(
        self, name: str, *, count: int | None = None, needs: str | None = None, command: str | None = None
    ) -> Callable[[RowFunction], RowFunction]:
        """Registers a row. `count`: fewer messages than the group's, for slow rows."""

        def register(function: RowFunction) -> RowFunction:
            self.rows[name] = Row(name, function, count or self.count, needs, command)
            return function

        return register


@dataclass
class Result:
    """All rounds of one row."""

    group: Group
    row: Row
    runs: list[Run] = field(default_factory=list)
    error: Exception | None = None
    skipped: str | None = None

    @property
    def rates(self) -> list[float]:
        return [run.count / run.seconds for run in self.runs]

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    def per_message(self, name: Literal["client_cpu", "server_cpu"]) -> float | None:
        """Median CPU, microseconds a message."""
        values: list[float] = []
        for run in self.runs:
            seconds = run.client_cpu if name == "client_cpu" else run.server_cpu
            if seconds is not None:
                values.append(seconds / run.count * 1e6)
        return statistics.median(values) if values else None

    @property
    def notes(self) -> dict[str, float]:
        return {key: statistics.median(run.notes[key] for run in self.runs) for key in self.runs[0].notes}


class Runner:
    """Runs groups against one server, each once, and keeps the results."""

    def __init__(self, url: str, monitor: str, server_pid: int, rounds: int, scale: float) -> None:
        self.url = url
        self.monitor = monitor
        self.server_pid = server_pid
        self.rounds = rounds
        self.scale = scale  # of all message counts, for a quick look
        self.results: dict[tuple[str, str], Result] = {}
        self._streams = 0
        self._filled: dict[int, tuple[str, str]] = {}  # stream and subject, by message count, of the group

    def result(self, group: Group, name: str, selected: list[str]) -> Result:
        """Return the result of one row; the first call for a group runs its `selected` rows."""
        if (group.name, name) not in self.results:
            self._run_group(group, [group.rows[n] for n in group.rows if n in selected])
        return self.results[group.name, name]

    def _run_group(self, group: Group, rows: list[Row]) -> None:
        alive: list[Result] = []
        for row in rows:
            result = self.results[group.name, row.name] = Result(group, row)
            result.skipped = row.missing
            if not result.skipped:
                alive.append(result)
        # Round 0 is a short one that does not count: imports, first connections, the server's first pages.
        for number in range((group.rounds or self.rounds) + 1):
            at = number % max(1, len(alive))
            for result in alive[at:] + alive[:at]:
                if result.error:
                    continue
                count = int(result.row.count * self.scale * (1 if number else 0.05))
                count = max(count, min(result.row.count, 1_000))
                try:
                    run = self._run(group, result.row, count)
                except Exception as error:  # one row's failure must not take the others' figures away
                    result.error = error
                    continue
                if number:
                    result.runs.append(run)
        for stream, _ in self._filled.values():
            wire.delete_stream(self.url, stream)
        self._filled.clear()

    def _run(self, group: Group, row: Row, count: int) -> Run:
        if group.kind == "read":
            if count not in self._filled:  # rows of one count read the same stream, in every round
                self._filled[count] = self._new_stream(group)
                if group.fill:
                    group.fill(self.url, self._filled[count][1], count)
                else:
                    wire.publish(self.url, self._filled[count][1], group.size, count)
            return self._call(row, self._new_run(group, count, *self._filled[count]))
        if group.kind == "core":
            self._streams += 1
            return self._call(row, self._new_run(group, count, "", f"bench.{self._streams}"))
        stream, subject = self._new_stream(group)
        try:
            return self._call(row, self._new_run(group, count, stream, subject))
        finally:
            wire.delete_stream(self.url, stream)

    def _new_stream(self, group: Group) -> tuple[str, str]:
        self._streams += 1
        stream, subject = f"BENCH{self._streams}", f"bench.{self._streams}"
        wire.add_stream(self.url, stream, subject, **group.config)
        return stream, subject

    def _new_run(self, group: Group, count: int, stream: str, subject: str) -> Run:
        return Run(self.url, self.server_pid, stream, subject, count, group.size, self.monitor)

    def _call(self, row: Row, run: Run) -> Run:
        done = row.function(run)
        if inspect.isawaitable(done):
            done = asyncio.run(asyncio.wait_for(_coroutine(done), ROW_TIMEOUT))
        stored = wire.stream_messages(self.url, run.stream) if run.stream else run.count
        if done != run.count or stored != run.count or not run.seconds:
            raise wire.WireError(f"{row.name}: {done} of {run.count} done, {stored} stored, {run.seconds} s")
        return run


async def _coroutine(awaitable: Awaitable[int]) -> int:
    return await awaitable


def installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def cpu_seconds(pid: int) -> float | None:
    """User and system time of a process so far; None where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
