"""HALF-OPEN: a proxy swallows the bytes of both directions while clients publish, fetch and consume."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import jetarrow
import pyarrow as pa
from jetarrow.aio.client import Client
from jetarrow.server import NatsServer

from .figures import Figure
from .proxy import Proxy

# The interval between two pings; None: the default, 10 s.
FULL: dict[str, Any] = {"pings": [1.0, None]}
SHORT: dict[str, Any] = {"pings": [1.0]}
# The server must detect the break too: until then it delivers messages to pull requests of the broken connection.
CONFIG = 'ping_interval: "1s"\nping_max: 1\n'
# Maximum seconds until the break is detected, for an interval of 1 s and for the default.
MOST = {1.0: 5.0, None: 25.0}
COUNT, BLOCK = 20_000, 1_000


class Break:
    """The moment when the proxy starts to swallow bytes."""

    def __init__(self) -> None:
        self.at = 0.0
        self._over = threading.Event()

    def begin(self, proxy: Proxy) -> None:
        self.at = time.monotonic()
        proxy.swallow()
        self._over.set()

    def wait(self) -> None:
        assert self._over.wait(60)


async def publish(nc: Client, break_: Break) -> None:
    """Half of the rows are published after the break."""

    def rows() -> Iterator[pa.RecordBatch]:
        for first in range(0, COUNT, BLOCK):
            if first == COUNT // 2:
                break_.wait()
            numbers = [str(number) for number in range(first, first + BLOCK)]
            yield pa.record_batch({"data": numbers, "msg_id": numbers})

    schema = pa.schema({"data": pa.string(), "msg_id": pa.string()})
    result = await nc.jetstream().publish_batch("p.a", pa.RecordBatchReader.from_batches(schema, rows()), timeout=60)
    result.raise_for_errors()


async def publish_async(nc: Client, break_: Break) -> None:
    js = nc.jetstream(ack_timeout=60)
    futures = []
    for number in range(COUNT):
        if number == COUNT // 2:
            await asyncio.to_thread(break_.wait)
        futures.append(await js.publish_async("q.a", b"x", msg_id=str(number)))
    await asyncio.gather(*futures)


async def fetch(nc: Client, _: Break) -> None:
    sub = await nc.jetstream().pull_subscribe("later.>", durable="f")
    assert len(await sub.fetch_batch(10, timeout=60, min_messages=10)) == 10


async def consume(nc: Client, _: Break) -> None:
    sub = await nc.jetstream().pull_subscribe("later.>", durable="c")
    count = 0
    async for msg in sub.messages():
        await msg.ack()
        count += 1
        if count == 10:
            break


async def read(nc: Client, _: Break) -> None:
    count = 0
    async with nc.jetstream().read("LATER", follow=True) as reader:
        async for batch in reader:
            count += len(batch)
            if count == 10:
                break


WORK: list[Callable[[Client, Break], Awaitable[None]]] = [publish, publish_async, fetch, consume, read]


async def once(server: NatsServer, ping: float | None) -> list[Figure]:
    """Runs each work on a connection of its own; the break happens while all of them run."""
    most = MOST[ping]
    found: dict[str, float] = {}
    break_ = Break()
    async with Proxy(server.port) as proxy, await jetarrow.connect(server.url) as direct:
        js = direct.jetstream()
        for name in ("p", "q", "later"):
            await js.add_stream(name=name.upper(), subjects=[f"{name}.>"])
        for durable in ("f", "c"):
            await js.add_consumer("LATER", durable_name=durable, ack_wait=1)
        clients = []
        for work in WORK:

            async def disconnected(name: str = work.__name__) -> None:
                # A busy machine may lose a link before.
                if break_.at:
                    found.setdefault(name, time.monotonic() - break_.at)

            interval = {} if ping is None else {"ping_interval": ping}
            clients.append(await jetarrow.connect(proxy.url, disconnected_cb=disconnected, **interval))
        tasks = [asyncio.ensure_future(work(nc, break_)) for work, nc in zip(WORK, clients, strict=True)]
        # The consumers wait for messages while the publishers run.
        for durable in ("f", "c"):
            while not (await js.consumer_info("LATER", durable)).num_waiting:
                await asyncio.sleep(0.01)
        break_.begin(proxy)
        while len(found) < len(WORK) and time.monotonic() < break_.at + 2 * most:
            await asyncio.sleep(0.05)
        for _ in range(10):
            await js.publish("later.a", b"x")
        done, late = await asyncio.wait(tasks, timeout=15)
        for task in late:
            task.cancel()
        errors = [task.exception() for task in done if task.exception()]
        assert not errors, errors
        stored = [(await js.stream_info(name)).state.messages for name in ("P", "Q")]
        for nc in clients:
            await nc.close()
        for name in ("P", "Q", "LATER"):
            await js.delete_stream(name)
    form = "default pings" if ping is None else f"ping {ping:g} s"
    return [
        Figure(f"{form}: found after", max(found.values(), default=float("inf")), most, "s"),
        Figure("not found", len(WORK) - len(found), 0),
        Figure("stuck calls", len(late), 0),
        Figure("lost or doubled", sum(abs(COUNT - number) for number in stored), 0),
    ]


async def measure(pings: list[float | None]) -> list[Figure]:
    with NatsServer(config=CONFIG) as server:
        return [figure for ping in pings for figure in await once(server, ping)]
