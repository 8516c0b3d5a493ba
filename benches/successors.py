"""The successors of nats-py against their own packages, on one server, in alternating rounds.

    .venv-successors/bin/python benches/successors.py [--rounds 3]

It runs with the Python of the reference packages (nats-core, nats-jetstream), with jetarrow on the path. The ratios are
medians of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import jetarrow.nats.client
import jetarrow.nats.jetstream
import nats.client
import nats.jetstream
from jetarrow.server import NatsServer

PAYLOAD = bytes(128)
# Messages by work, ours and theirs: about a second each.
AWAITED = (20_000, 2_000)
CONCURRENT = (100_000, 20_000)
CONSUMED = (200_000, 20_000)


async def awaited(js: Any, count: int) -> None:
    """One publish after another."""
    for _ in range(count):
        await js.publish("s.a", PAYLOAD)


async def concurrent(js: Any, count: int) -> None:
    """1,000 tasks that publish."""

    async def publish() -> None:
        for _ in range(count // 1_000):
            await js.publish("s.a", PAYLOAD)

    await asyncio.gather(*(publish() for _ in range(1_000)))


async def fill(js: Any, count: int) -> None:
    """Stores as many messages as are consumed."""
    await js.publish_batch("s.a", [PAYLOAD] * count)


async def consumer(js: Any, policy: str) -> Any:
    """A new consumer of all messages."""
    stream = await js.get_stream("S")
    name = f"c{time.monotonic_ns()}"
    return await stream.create_consumer(name=name, ack_policy=policy, max_ack_pending=1_000_000)


async def fetch(js: Any, count: int) -> None:
    """Fetches of 1,000 messages."""
    pull, got = await consumer(js, "none"), 0
    while got < count:
        async for message in await pull.fetch(max_messages=1_000, max_wait=5):
            got += len(message.data) > 0


async def fetch_and_ack(js: Any, count: int) -> None:
    """Fetches of 1,000 messages, each acknowledged."""
    pull, got = await consumer(js, "explicit"), 0
    while got < count:
        async for message in await pull.fetch(max_messages=1_000, max_wait=5):
            await message.ack()
            got += 1


async def messages(js: Any, count: int) -> None:
    """A stream of messages."""
    stream, got = await (await consumer(js, "none")).messages(), 0
    async for _ in stream:
        got += 1
        if got == count:
            break
    await stream.stop()


WORK: dict[str, tuple[Callable[[Any, int], Awaitable[None]], tuple[int, int]]] = {
    "awaited publish": (awaited, AWAITED),
    "1,000 concurrent publishes": (concurrent, CONCURRENT),
    "fetch": (fetch, CONSUMED),
    "messages": (messages, CONSUMED),
    "fetch with acks": (fetch_and_ack, CONSUMED),
}


async def rate(client: ModuleType, jetstream: ModuleType, url: str, work: Any, count: int) -> float:
    """Messages per second."""
    async with await client.connect(url) as nc:
        js = jetstream.new(nc)
        begin = time.perf_counter()
        await work(js, count)
        return count / (time.perf_counter() - begin)


async def main(url: str, rounds: int) -> None:
    """Prints the table."""
    async with await jetarrow.nats.client.connect(url) as nc:
        js = jetarrow.nats.jetstream.new(nc)
        await js.create_stream(name="S", subjects=["s.>"])
        await fill(js, max(CONSUMED))
    print("| work | jetarrow msgs/s | reference msgs/s | ratio |\n|---|---|---|---|")
    for name, (work, (ours, theirs)) in WORK.items():
        pairs = [
            (
                await rate(jetarrow.nats.client, jetarrow.nats.jetstream, url, work, ours),
                await rate(nats.client, nats.jetstream, url, work, theirs),
            )
            for _ in range(rounds)
        ]
        own, other = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(first / second for first, second in pairs)
        print(f"| {name} | {own:,.0f} | {other:,.0f} | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    with NatsServer() as server:
        asyncio.run(main(server.url, parser.parse_args().rounds))
