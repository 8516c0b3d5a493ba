"""SLOW-SUB: messages to a subscription that is not read while they arrive."""

from __future__ import annotations

import asyncio
from typing import Any

import jetarrow
from jetarrow import errors
from jetarrow.server import NatsServer

from ..survive.tools import rss, trimmed_rss
from .figures import Figure, said

FULL: dict[str, Any] = {"count": 300_000, "limit": 64 << 20}
SHORT: dict[str, Any] = {"count": 30_000, "limit": 8 << 20}
SIZE = 1_024


async def measure(count: int, limit: int) -> list[Figure]:
    told: list[Exception] = []

    async def error(err: Exception) -> None:
        told.append(err)

    with NatsServer(jetstream=False) as server:
        async with (
            await jetarrow.connect(server.url, error_cb=error) as nc,
            await jetarrow.connect(server.url) as other,
        ):
            sub = await nc.subscribe("a", pending_msgs_limit=count, pending_bytes_limit=limit)
            await nc.flush()
            height, peak = trimmed_rss(), 0.0
            for first in range(0, count, 1_000):
                for _ in range(min(1_000, count - first)):
                    await other.publish("a", bytes(SIZE))
                await other.flush()
                peak = max(peak, rss())
            await nc.flush()
            await asyncio.sleep(0.5)
            peak = max(peak, rss())
            held, dropped, delivered = sub.pending_msgs, sub.dropped, sub.delivered
            read = 0
            for _ in range(held):
                await sub.next_msg(timeout=5)
                read += 1
    slow = sum(isinstance(err, errors.SlowConsumerError) for err in told)
    return [
        said("messages", count, "of 1 KiB"),
        said("dropped", dropped),
        Figure("neither read nor counted as dropped", abs(count - read - dropped), 0),
        Figure("received and not counted", abs(count - delivered), 0),
        Figure("missing SlowConsumerErrors", max(0, 1 - slow), 0),
        Figure("growth", peak - height, limit / 2**20 + 16, "MiB"),
    ]
