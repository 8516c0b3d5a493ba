"""Memory and latency measurements, and server restarts, for the tests of this folder."""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
import time
from pathlib import Path

from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

# MiB by which the allocator and Python may let a process grow without new data.
FLAT = 2.0


def rss() -> float:
    """Returns the resident memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def trimmed_rss() -> float:
    """Returns the resident memory after trimming: memory freed by earlier tests would hide a growth."""
    ctypes.CDLL(None).malloc_trim(0)
    return rss()


class Ticker:
    """Ticks every 10 ms in the running loop, and records the delay of each tick in seconds.

    Time during which the loop's thread was runnable without a processor depends on the machine, and is not counted.
    """

    def __init__(self) -> None:
        self.late: list[float] = []
        self._schedstat = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")

    def _waited(self) -> float:
        return int(self._schedstat.read_text().split()[1]) / 1e9

    async def run(self) -> None:
        while True:
            waited, due = self._waited(), time.monotonic() + 0.01
            await asyncio.sleep(0.01)
            late = time.monotonic() - due
            self.late.append(late - (self._waited() - waited))

    def worst(self) -> float:
        """Returns the longest delay since the last call."""
        late, self.late = self.late, []
        assert late, "it never ticked"
        return max(late)


class Restarts:
    """Kills a server, and restarts it in a thread of its own."""

    def __init__(self, server: NatsServer) -> None:
        self.server = server
        self.count = 0
        # Time at which the last start was finished.
        self.up = 0.0
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Kills the server and begins to restart it; returns when the old process is dead."""
        self.wait()
        self.server.kill()
        self.count += 1
        self._thread = threading.Thread(target=self._start)
        self._thread.start()

    def _start(self) -> None:
        self.server.start()
        self.up = time.monotonic()

    def wait(self) -> None:
        """Returns when the restarted server answers."""
        if self._thread is not None:
            self._thread.join()


async def places(js: JetStreamContext, stream: str) -> dict[int, int]:
    """Maps each sequence to the number that is stored there; leading zeros may pad a large message."""
    table = await js.read(stream, columns=["seq", "data"]).read_all()
    numbers = (int(data[-20:]) for data in table.column("data").to_pylist())
    return dict(zip(table.column("seq").to_pylist(), numbers, strict=True))
