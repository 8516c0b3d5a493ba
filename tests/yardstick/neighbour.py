"""NEIGHBOUR: one stream does not answer; calls for others on the same connection are as fast as ever."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import jetarrow
from jetarrow.jetstream import models
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.server import NatsServer

from .figures import Figure, said
from .kill_pub import quiet
from .soak import listen

FULL: dict[str, Any] = {"rounds": 60, "calls": 75, "most_times": 1 / 0.95, "most_later": 5}
# On a busy machine: calls that wait for the silent stream take seconds.
SHORT: dict[str, Any] = {"rounds": 2, "calls": 40, "most_times": 4, "most_later": 200}
# Rows of a batch, and messages of a publisher that are awaited together.
BATCH, BURST = 500, 50
# Messages for the silent stream that are published and not awaited, and tasks that await theirs.
UNANSWERED, WAITING = 3_000, 20
Call = Callable[[], Awaitable[object]]


class Healthy:
    """The calls that are measured: each is for a stream that answers, or for none."""

    def __init__(self, nc: Any) -> None:
        self.nc = nc
        self.js: JetStreamContext = nc.jetstream()

    async def open(self) -> None:
        for name in "ABC":
            await self.js.get_or_create_stream(
                models.StreamConfig(name=name, subjects=[f"{name.lower()}.>"], storage="memory", max_msgs=10_000)
            )
        await self.js.publish_batch("c.a", [b"x" * 128] * 10_000)
        self.sub = await self.js.pull_subscribe("c.a", stream="C", ack_policy="none")
        self.kv = await self.js.create_key_value(bucket="K", storage="memory")
        await self.kv.put("k", b"v")
        self.publisher = self.js.publisher("b.a")

    async def burst(self) -> None:
        for future in [await self.publisher.publish(b"x" * 128) for _ in range(BURST)]:
            await future

    async def publish_async(self) -> None:
        for future in [await self.js.publish_async("b.a", b"x" * 128) for _ in range(BURST)]:
            await future

    async def batch(self) -> None:
        (await self.js.publish_batch("a.b", [b"x" * 128] * BATCH)).raise_for_errors()

    async def fetch(self) -> None:
        if not await self.sub.fetch(5, no_wait=True):
            # All messages were fetched: more are published.
            await self.js.publish_batch("c.a", [b"x" * 128] * 5_000)

    @property
    def calls(self) -> dict[str, Call]:
        return {
            "publish": lambda: self.js.publish("a.a", b"x" * 128),
            "publish_async": self.publish_async,
            "publisher": self.burst,
            "publish_batch": self.batch,
            "request": lambda: self.nc.request("$JS.API.INFO"),
            "fetch": self.fetch,
            "kv.get": lambda: self.kv.get("k"),
        }


async def times(call: Call, count: int) -> list[float]:
    """Returns the seconds of each of `count` calls."""
    found = []
    for _ in range(count):
        begin = time.perf_counter()
        await call()
        found.append(time.perf_counter() - begin)
    return found


@asynccontextmanager
async def silence(nc: Any, js: JetStreamContext) -> AsyncIterator[None]:
    """All kinds of publishes to a stream that does not answer: in the same context, and in others."""
    tasks = [asyncio.ensure_future(js.publish("silent.a", b"x" * 128, timeout=60)) for _ in range(WAITING)]
    futures = [await js.publish_async("silent.b", b"x" * 128) for _ in range(UNANSWERED)]

    async def publish() -> None:
        async with nc.jetstream().publisher("silent.c") as publisher:
            while True:
                futures.append(await publisher.publish(b"x" * 128))

    tasks.append(asyncio.ensure_future(publish()))
    tasks += [asyncio.ensure_future(js.publish_batch("silent.d", [b"x" * 128] * 10_000)) for _ in range(3)]

    async def go_on() -> None:
        while True:
            futures.append(await js.publish_async("silent.e", b"x" * 128))
            await asyncio.sleep(0.05)

    tasks.append(asyncio.ensure_future(go_on()))
    await asyncio.sleep(0.05)
    yield
    for task in [*tasks, *futures]:
        task.cancel()
    await asyncio.gather(*tasks, *futures, return_exceptions=True)


async def measure(rounds: int, calls: int, most_times: float, most_later: float) -> list[Figure]:
    """Two connections take turns, with the same load of the machine: one of them has the silent stream."""
    found: tuple[dict[str, list[float]], dict[str, list[float]]] = ({}, {})
    with NatsServer() as server:
        over = listen(server.port, "silent.>")
        async with (
            await jetarrow.connect(server.url, error_cb=quiet) as plain,
            await jetarrow.connect(server.url, error_cb=quiet) as beside,
        ):
            healthy = Healthy(plain), Healthy(beside)
            for one in healthy:
                await one.open()
            async with silence(beside, healthy[1].js):
                for number in range(rounds):
                    for name in healthy[0].calls:
                        for side in (number % 2, 1 - number % 2):
                            call = healthy[side].calls[name]
                            found[side].setdefault(name, []).extend(await times(call, calls))
        over.set()
    figures = [said("calls of each kind", rounds * calls)]
    for name, usual in found[0].items():
        now = found[1][name]
        # A few calls at a time: the machine is slower and faster by itself.
        parts = range(0, len(now), calls)
        ratios = [statistics.median(now[at : at + calls]) / statistics.median(usual[at : at + calls]) for at in parts]
        later = statistics.quantiles(now, n=100)[98] - statistics.quantiles(usual, n=100)[98]
        figures += [
            Figure(f"{name}: of its usual time", statistics.median(ratios), most_times),
            Figure("later at the 99th percentile", max(later, 0) * 1000, most_later, "ms"),
        ]
    return figures
