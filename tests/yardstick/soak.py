"""NO-LEAK SOAK: timeouts, cancelled calls, reconnects and clients by the thousand; what stays is counted."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import jetarrow
from jetarrow import errors
from jetarrow.server import NatsServer

from ..survive.tools import trimmed_rss
from .figures import Figure, said
from .kill_pub import quiet

FULL: dict[str, Any] = {"timeouts": 1_000_000, "cancels": 100_000, "reconnects": 2_000, "clients": 500}
SHORT: dict[str, Any] = {"timeouts": 20_000, "cancels": 2_000, "reconnects": 20, "clients": 20}
WINDOW = 5_000
# Bytes that an operation may leave behind, and MiB that the allocator may keep whatever the number.
EACH, KEPT = 10, 4.0


def held() -> tuple[float, int, int]:
    """Memory in MiB, descriptors, threads."""
    gc.collect()
    tasks = len(list(Path("/proc/self/task").iterdir()))
    return trimmed_rss(), len(os.listdir("/proc/self/fd")), tasks


class Soak:
    """One client for the first three, whose messages to `deaf` nobody answers."""

    def __init__(self, server: NatsServer, nc: Any) -> None:
        self.server, self.nc = server, nc

    async def timeouts(self, count: int) -> None:
        js = self.nc.jetstream(publish_async_max_pending=WINDOW, ack_timeout=0.1)
        for _ in range(max(1, count // WINDOW)):
            futures = [await js.publish_async("deaf.a", bytes(128)) for _ in range(WINDOW)]
            ends = await asyncio.gather(*futures, return_exceptions=True)
            assert {type(end) for end in ends} == {errors.TimeoutError}, ends[0]

    async def cancels(self, count: int) -> None:
        js = self.nc.jetstream()
        for _ in range(count // 100):
            calls = [js.publish("deaf.a", b"x", timeout=60) for _ in range(50)]
            calls += [self.nc.request("deaf.a", b"x", timeout=60) for _ in range(50)]
            tasks = [asyncio.ensure_future(call) for call in calls]
            await asyncio.sleep(0.001)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def reconnects(self, count: int) -> None:
        for _ in range(count):
            await self.nc.force_reconnect()
            await self.nc.flush()

    async def clients(self, count: int) -> None:
        for _ in range(count):
            async with await jetarrow.connect(self.server.url) as nc:
                await nc.flush()


def listen(port: int) -> threading.Event:
    """A process of its own would count as well: a raw subscription to `deaf.>` that answers nothing."""
    import socket

    over = threading.Event()

    def run() -> None:
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(b'CONNECT {"verbose":false}\r\nSUB deaf.> 1\r\nPING\r\n')
            while not over.is_set() and (data := sock.recv(1 << 20)):
                if b"PING\r\n" in data:
                    sock.sendall(b"PONG\r\n")

    threading.Thread(target=run, daemon=True).start()
    return over


async def child(form: dict[str, int]) -> None:
    found: list[dict[str, Any]] = []
    with NatsServer() as server:
        over = listen(server.port)
        async with await jetarrow.connect(server.url, error_cb=quiet) as nc:
            soak = Soak(server, nc)
            for name, count in form.items():
                # The first of them make what then stays.
                await getattr(soak, name)(max(1, min(count // 5, 20_000)))
                before = held()
                await getattr(soak, name)(count)
                after = held()
                grown = [now - then for now, then in zip(after, before, strict=True)]
                found.append({"name": name, "count": count, "grown": grown})
        over.set()
    print(json.dumps(found))


async def measure(**form: int) -> list[Figure]:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.yardstick.soak", json.dumps(form)), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await program.communicate()
    assert program.returncode == 0
    figures = []
    for found in json.loads(out):
        memory, descriptors, threads = found["grown"]
        figures += [
            said(found["name"], found["count"]),
            Figure("growth", memory, found["count"] * EACH / 2**20 + KEPT, "MiB"),
            Figure("more descriptors", descriptors, 0),
            Figure("more threads", threads, 0),
        ]
    return figures


if __name__ == "__main__":
    asyncio.run(child(json.loads(sys.argv[1])))
