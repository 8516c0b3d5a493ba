"""What the tests of this folder measure and break with."""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
import time
from pathlib import Path

from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

# MiB that a process may grow by while nothing new comes in: what the allocator and Python do on their own.
FLAT = 2.0


def rss() -> float:
    """How much memory this process occupies now, in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def trimmed_rss() -> float:
    """The same once free memory is given back: what earlier tests left free would hide a growth."""
    ctypes.CDLL(None).malloc_trim(0)
    return rss()


class Ticker:
    """Ticks every 10 ms in the running loop, and remembers by how many seconds it was late.

    The time that the loop's thread was ready to run and had no processor is the machine's, and is not counted.
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
        """The worst since the last call."""
        late, self.late = self.late, []
        assert late, "it never ticked"
        return max(late)


class Restarts:
    """Kills a server at once and starts it again beside the test."""

    def __init__(self, server: NatsServer) -> None:
        self.server = server
        self.count = 0
        # When the last start was over.
        self.up = 0.0
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Returns when it is dead."""
        self.wait()
        self.server.kill()
        self.count += 1
        self._thread = threading.Thread(target=self._start)
        self._thread.start()

    def _start(self) -> None:
        self.server.start()
        self.up = time.monotonic()

    def wait(self) -> None:
        """Returns when it answers again."""
        if self._thread is not None:
            self._thread.join()


async def places(js: JetStreamContext, stream: str) -> dict[int, int]:
    """Sequence to the number that is stored there; zeros before it may fill a large message."""
    table = await js.read(stream, columns=["seq", "data"]).read_all()
    numbers = (int(data[-20:]) for data in table.column("data").to_pylist())
    return dict(zip(table.column("seq").to_pylist(), numbers, strict=True))
