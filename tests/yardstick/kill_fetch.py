"""KILL-FETCH: fetching into Arrow and acknowledging while the server is killed and started again."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Any

import jetarrow
from jetarrow import errors
from jetarrow.server import NatsServer

from ..conftest import EAGER
from ..survive.tools import Restarts
from ..tools import store
from .figures import Figure, said
from .kill_pub import quiet

FULL: dict[str, Any] = {"count": 200_000, "kills": 6}
SHORT: dict[str, Any] = {"count": 100_000, "kills": 3}
MOST = 2_000


async def fetch(server: NatsServer, count: int, kills: int, confirm: bool) -> list[Figure]:
    """No message is lost. Redelivered are messages in flight, and those whose acks the server had not persisted."""
    restarts = Restarts(server)
    at = [count * kill // (kills + 1) for kill in range(1, kills + 1)]
    rng = random.Random(1)
    async with await jetarrow.connect(server.url, error_cb=quiet, **EAGER) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        await store(js, "s.a", [bytes(100)] * count)
        sub = await js.pull_subscribe("s.>", durable="d", ack_wait=3, max_ack_pending=2 * MOST)
        seen: Counter[int | None] = Counter()
        again: list[int] = []
        rate = longest = 0.0
        confirmed = unconfirmed = 0
        begin = time.monotonic()
        while True:
            if len(again) < kills and len(seen) >= at[len(again)]:
                rate = rate or len(seen) / (time.monotonic() - begin)
                again.append(0)
                # During a fetch, or soon after it.
                asyncio.get_running_loop().call_later(rng.uniform(0, 0.02), restarts.begin)
            try:
                batch = await sub.fetch_batch(MOST, timeout=3)
            except errors.TimeoutError:  # The server is not back yet.
                continue
            if not len(batch):
                info = await sub.consumer_info()
                if not info.num_ack_pending and not info.num_pending:
                    break
            known = len(seen)
            seen.update(batch.seqs.to_pylist())
            if again:
                again[-1] += known + len(batch) - len(seen)
            if not confirm:
                await batch.ack()
                continue
            asked = time.monotonic()
            try:
                await batch.ack_sync(timeout=1)
                confirmed += len(batch)
            except errors.TimeoutError:  # The server does not confirm deliveries that it lost.
                unconfirmed += 1
            longest = max(longest, time.monotonic() - asked)
    verb = "ack_sync" if confirm else "ack"
    figures = [
        said(f"{verb}: messages", count),
        Figure("kills too few", kills - restarts.count, 0),
        Figure("not fetched", len(set(range(1, count + 1)) - seen.keys()), 0),
        Figure("fetched again after one kill", max(again), 2 * MOST + int(0.3 * rate)),
    ]
    if confirm:
        # Per kill: the batch in flight, and one whose acks the server had not persisted.
        figures += [
            Figure("batches not confirmed", unconfirmed, 2 * kills),
            Figure("acks lost on the way", max(0, count - unconfirmed * MOST - confirmed), 0),
            Figure("longest acknowledging of a batch", longest, 5, "s"),
        ]
    return figures


async def measure(count: int, kills: int) -> list[Figure]:
    figures = []
    for confirm in (False, True):
        with NatsServer() as server:
            figures += await fetch(server, count, kills, confirm)
    return figures
