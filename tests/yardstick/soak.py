"""NO-LEAK SOAK: thousands of timeouts, cancelled calls, reconnects and clients; leaked resources are counted."""

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
import jetarrow.sync
from jetarrow import errors
from jetarrow._jetarrow import alive_tasks
from jetarrow.jetstream import models
from jetarrow.server import NatsServer

from ..survive.tools import trimmed_rss
from ..tools import until
from .figures import Figure, said
from .kill_pub import quiet

FULL: dict[str, Any] = {"timeouts": 1_000_000, "cancels": 100_000, "reconnects": 2_000, "clients": 1_000}
SHORT: dict[str, Any] = {"timeouts": 20_000, "cancels": 2_000, "reconnects": 20, "clients": 20}
WINDOW = 5_000
# Bytes that an operation may leave behind, and MiB that the allocator may keep whatever the number.
EACH, KEPT = 10, 4.0
# MiB that clients may leave behind, however many they were.
CLIENTS = 8.0


def held() -> tuple[float, int, int, int]:
    """Memory in MiB, descriptors, threads, native tasks."""
    gc.collect()
    threads = len(list(Path("/proc/self/task").iterdir()))
    return trimmed_rss(), len(os.listdir("/proc/self/fd")), threads, alive_tasks()


async def settled() -> tuple[float, int, int, int]:
    """Like `held`, once the number of native tasks is stable: not every method waits for the end of its tasks."""
    seen: list[int] = []
    while len(seen) < 20 or len(set(seen[-20:])) > 1:
        seen.append(alive_tasks())
        await asyncio.sleep(0.01)
    return held()


class Soak:
    """Timeouts, cancels and reconnects share one client; its messages to `deaf` are not answered."""

    def __init__(self, server: NatsServer, nc: Any) -> None:
        self.server, self.nc = server, nc
        # Its publisher ends once the cancelled publishes have timed out.
        self.js = nc.jetstream()

    async def timeouts(self, count: int) -> None:
        js = self.nc.jetstream(publish_async_max_pending=WINDOW, ack_timeout=0.1)
        for _ in range(max(1, count // WINDOW)):
            futures = [await js.publish_async("deaf.a", bytes(128)) for _ in range(WINDOW)]
            ends = await asyncio.gather(*futures, return_exceptions=True)
            assert {type(end) for end in ends} == {errors.TimeoutError}, ends[0]

    async def cancels(self, count: int) -> None:
        for _ in range(count // 100):
            calls = [self.js.publish("deaf.a", b"x", timeout=1) for _ in range(50)]
            calls += [self.nc.request("deaf.a", b"x", timeout=1) for _ in range(50)]
            tasks = [asyncio.ensure_future(call) for call in calls]
            await asyncio.sleep(0.001)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # A cancelled publish keeps its place until its timeout: an ack may still arrive, and must not be another's.
            if self.js.publish_async_pending() >= WINDOW:
                await self.timed_out()
        await self.timed_out()

    async def timed_out(self) -> None:
        await until(lambda: not self.js.publish_async_pending())

    async def reconnects(self, count: int) -> None:
        for _ in range(count):
            await self.nc.force_reconnect()
            await self.nc.flush()

    async def clients(self, count: int) -> None:
        js = self.js
        await js.get_or_create_stream(models.StreamConfig(name="S", subjects=["s.>"], storage="memory", max_msgs=100))
        await (await js.create_key_value(bucket="K")).put("k", b"v")
        await (await js.create_object_store(bucket="O")).put("o", bytes(10_000))
        for number in range(count):
            if number % 2:
                one_of_each_sync(self.server.url)
            else:
                await one_of_each(self.server.url)


async def one_of_each(url: str) -> None:
    """A client that makes one request of each kind."""
    async with await jetarrow.connect(url) as nc:
        js = nc.jetstream()
        await js.publish("s.a", b"x")
        await (await js.publish_async("s.a", b"x"))
        async with js.publisher("s.a") as publisher:
            await publisher.publish(b"x")
        (await js.publish_batch("s.a", [b"x"] * 10)).raise_for_errors()
        sub = await js.pull_subscribe("s.a", "d")
        await sub.fetch(1)
        await (await sub.fetch_batch(1)).ack()
        await js.read("S", start_seq=(await js.stream_info("S")).state.last_seq).read_all()
        await (await js.key_value("K")).get("k")
        await (await js.object_store("O")).get("o")


def one_of_each_sync(url: str) -> None:
    with jetarrow.sync.connect(url) as nc:
        js = nc.jetstream()
        js.publish("s.a", b"x")
        js.publish_async("s.a", b"x").result()
        with js.publisher("s.a") as publisher:
            publisher.publish(b"x")
        js.publish_batch("s.a", [b"x"] * 10).raise_for_errors()
        sub = js.pull_subscribe("s.a", "d")
        sub.fetch(1)
        sub.fetch_batch(1).ack()
        js.read("S", start_seq=js.stream_info("S").state.last_seq).read_all()
        js.key_value("K").get("k")
        js.object_store("O").get("o")


def listen(port: int, subject: str = "deaf.>") -> threading.Event:
    """Starts a thread with a raw subscription that never answers; setting the returned event ends it."""
    import socket

    over = threading.Event()

    def run() -> None:
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(b'CONNECT {"verbose":false}\r\nSUB %s 1\r\nPING\r\n' % subject.encode())
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
                # Warm-up: caches and allocator arenas reach their size.
                await getattr(soak, name)(min(count, 20_000))
                before = await settled()
                await getattr(soak, name)(count)
                after = await settled()
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
        memory, descriptors, threads, tasks = found["grown"]
        figures += [
            said(found["name"], found["count"]),
            # The bound for clients does not depend on their number.
            Figure(
                "growth", memory, CLIENTS if found["name"] == "clients" else found["count"] * EACH / 2**20 + KEPT, "MiB"
            ),
            Figure("more descriptors", descriptors, 0),
            Figure("more threads", threads, 0),
            Figure("more native tasks", tasks, 0),
        ]
    return figures


if __name__ == "__main__":
    asyncio.run(child(json.loads(sys.argv[1])))
