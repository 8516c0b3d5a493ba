"""BULK: large fetches into Arrow while the event loop is blocked and a thread hogs the GIL."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import jetarrow
from jetarrow.server import NatsServer

from ..survive.tools import rss, trimmed_rss
from ..tools import store
from .figures import Figure, said

FULL: dict[str, Any] = {"count": 1_000_000, "policies": ["none", "explicit"], "hog": True}
SHORT: dict[str, Any] = {"count": 100_000, "policies": ["none"], "hog": False}
SIZE = 1_024
CALLS = 4
# Seconds: a machine with other work takes minutes for a million.
PATIENCE = 900.0


async def fetch(server: NatsServer, count: int, policy: str, hog: bool) -> list[Figure]:
    """Four calls at once, for a quarter each. With `none`, what is dropped on the way does not come again."""
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            sum(range(1_000))

    async with await jetarrow.connect(server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        for _ in range(count // 50_000):
            await store(js, "s.a", [bytes(SIZE)] * 50_000)
        sub = await js.pull_subscribe("s.>", durable="d", ack_policy=policy, max_ack_pending=-1, ack_wait=2 * PATIENCE)
        part = count // CALLS
        hogging = threading.Thread(target=spin)
        if hog:
            hogging.start()
        height = trimmed_rss()
        peak = [height]
        watching = threading.Thread(target=watch, args=(over, peak))
        watching.start()
        begin = time.monotonic()
        tasks = [
            asyncio.ensure_future(sub.fetch_batch(part, timeout=PATIENCE, min_messages=part)) for _ in range(CALLS)
        ]
        # Runs right after they have begun.
        asyncio.get_running_loop().call_soon(time.sleep, 1.5)
        batches = await asyncio.gather(*tasks)
        took = time.monotonic() - begin
        over.set()
        watching.join()
        if hog:
            hogging.join()
        seqs = sorted(seq or 0 for batch in batches for seq in batch.seqs.to_pylist())
        delivered = (await sub.consumer_info()).delivered
        await js.delete_stream("S")
    payload = count * SIZE / 2**20
    return [
        said(f"ack {policy}: messages", count, "of 1 KiB"),
        Figure("delivered and not handed out", (delivered.consumer_seq if delivered else 0) - len(seqs), 0),
        Figure("missing or doubled", sum(seq != place for place, seq in enumerate(seqs, 1)) + count - len(seqs), 0),
        Figure("slow consumer in the server's log", server.log.count("Slow Consumer"), 0),
        Figure("growth ÷ payload", (max(peak) - height) / payload, 2.0 if policy == "none" else None),
        said("took", took, "s"),
    ]


def watch(over: threading.Event, peak: list[float]) -> None:
    while not over.wait(0.02):
        peak[0] = max(peak[0], rss())


async def measure(count: int, policies: list[str], hog: bool) -> list[Figure]:
    figures = []
    for policy in policies:
        with NatsServer() as server:
            figures += await fetch(server, count, policy, hog)
    return figures
