"""ORDERED: reading a stream while the server is killed, and while the consumer behind it is deleted."""

from __future__ import annotations

import time
from typing import Any

import jetarrow
from jetarrow.server import NatsServer

from ..survive.tools import Restarts
from ..tools import store
from .figures import Figure, said
from .kill_pub import quiet

FULL: dict[str, Any] = {"count": 1_000_000, "kills": 6, "deletes": 2}
SHORT: dict[str, Any] = {"count": 200_000, "kills": 2, "deletes": 1}


async def read(server: NatsServer, count: int, kills: int, deletes: int) -> list[Figure]:
    restarts = Restarts(server)
    faults = kills + deletes
    at = [count * fault // (faults + 1) for fault in range(1, faults + 1)]
    async with await jetarrow.connect(server.url, error_cb=quiet) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        for first in range(1, count + 1, 200_000):
            await store(js, "s.a", [b"%d" % i for i in range(first, min(first + 200_000, count + 1))])
        seqs: list[int | None] = []
        wrong = done = deleted = 0
        stall = 0.0
        async for batch in js.read("S", columns=["seq", "data"], batch_rows=2_000):
            if restarts.up:
                stall, restarts.up = max(stall, time.monotonic() - restarts.up), 0.0
            seqs += batch.seqs.to_pylist()
            data = batch.to_pyarrow().column("data").to_pylist()
            wrong += sum(b"%d" % (seq or 0) != text for seq, text in zip(batch.seqs.to_pylist(), data, strict=True))
            if done < faults and len(seqs) >= at[done]:
                done += 1
                if done <= kills:
                    restarts.begin()
                else:
                    restarts.wait()
                    for info in await js.consumers_info("S"):
                        deleted += await js.delete_consumer("S", info.name or "")
    return [
        said("messages", count),
        Figure("kills too few", kills - restarts.count, 0),
        Figure("deletes too few", deletes - deleted, 0),
        Figure("missing", count - len(set(seqs)), 0),
        Figure("doubled", len(seqs) - len(set(seqs)), 0),
        Figure("out of order", sum(seq != place for place, seq in enumerate(seqs, 1)), 0),
        Figure("another message", wrong, 0),
        Figure("first message after a start", stall, 6, "s"),
    ]


async def measure(count: int, kills: int, deletes: int) -> list[Figure]:
    with NatsServer() as server:
        return await read(server, count, kills, deletes)
