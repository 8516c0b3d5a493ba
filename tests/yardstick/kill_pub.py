"""KILL-PUB: publishing while the server is killed and started again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import jetarrow
import pyarrow as pa
from jetarrow.aio.client import Client
from jetarrow.js.api import PubAck
from jetarrow.server import NatsServer

from ..survive.tools import Restarts, places, rss
from .figures import BUSY, Figure, said

FULL: dict[str, Any] = {"count": 1_000_000, "kills": 20}
# Enough kills that one of them happens after a row was stored and before it was acknowledged.
SHORT: dict[str, Any] = {"count": 200_000, "kills": 10}
BLOCK = 1_000
# Seconds from the last start to the end of the call.
SOON = 5.0


def moments(count: int, kills: int) -> list[int]:
    """Message counts at which the server is killed; the last is near the end, so that the run ends soon after it."""
    return [count * (10 * kill) // (10 * kills + 1) // BLOCK * BLOCK for kill in range(1, kills + 1)]


async def batch(server: NatsServer, count: int, kills: int) -> list[Figure]:
    """Every row is stored once, at the sequence that its result reports."""
    restarts, at = Restarts(server), moments(count, kills)

    def block(first: int) -> pa.RecordBatch:
        numbers = [str(i) for i in range(first, first + BLOCK)]
        return pa.record_batch({"data": [number.rjust(128) for number in numbers], "msg_id": numbers})

    # Created in advance: a client that waits for its next rows has none in flight when the server is killed.
    blocks = {first: block(first) for first in range(0, count, BLOCK)}

    def rows() -> Iterator[pa.RecordBatch]:
        for first, rows in blocks.items():
            if first in at:
                restarts.begin()
            yield rows

    schema = pa.schema({"data": pa.string(), "msg_id": pa.string()})
    async with await jetarrow.connect(
        server.url, error_cb=quiet, reconnect_time_wait=0.1, max_reconnect_attempts=-1
    ) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s.>"])
        height = rss()
        result = await nc.jetstream().publish_batch("s.a", pa.RecordBatchReader.from_batches(schema, rows()))
        over, grown = time.monotonic(), rss() - height
        restarts.wait()
        result.raise_for_errors()
        figures = await compare(nc, result.seqs.to_pylist())
    return [
        said("publish_batch: rows", result.count),
        Figure("kills too few", kills - restarts.count, 0),
        *figures,
        said("sent twice", result.duplicates or 0),
        Figure("kills met no row that was stored and not answered", int(not result.duplicates), 0),
        Figure("over after the last start", over - restarts.up, SOON, "s"),
        said("growth with all acks kept", grown, "MiB"),
    ]


async def futures(server: NatsServer, count: int, kills: int) -> list[Figure]:
    """Every message is stored once, at the sequence of its future; futures pending at a kill resolve soon after."""
    restarts, at = Restarts(server), moments(count, kills)
    unresolved, longest = 0, 0.0

    async def resolved(pending: list[asyncio.Future[PubAck]]) -> None:
        nonlocal unresolved, longest
        await asyncio.to_thread(restarts.wait)
        begin = time.monotonic()
        _, late = await asyncio.wait(pending, timeout=BUSY * SOON)
        unresolved += len(late)
        longest = max(longest, time.monotonic() - begin)

    async with await jetarrow.connect(
        server.url, error_cb=quiet, reconnect_time_wait=0.1, max_reconnect_attempts=-1
    ) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        given: list[asyncio.Future[PubAck]] = []
        checks = []
        for i in range(count):
            given.append(await js.publish_async("s.a", str(i), msg_id=str(i)))
            if i in at:
                restarts.begin()
                checks.append(
                    asyncio.ensure_future(resolved([future for future in given[-20_000:] if not future.done()]))
                )
        await js.publish_async_completed()
        over = time.monotonic()
        await asyncio.gather(*checks)
        figures = await compare(nc, [future.result().seq for future in given])
    return [
        said("publish_async: messages", count),
        Figure("kills too few", kills - restarts.count, 0),
        *figures,
        Figure("unresolved futures", unresolved, 0),
        Figure("futures of a kill resolved after", longest, SOON, "s"),
        Figure("over after the last start", over - restarts.up, SOON, "s"),
    ]


async def compare(nc: Client, seqs: list[int | None]) -> list[Figure]:
    """Compares the stored messages with the reported sequences."""
    found = await places(nc.jetstream(), "S")
    wrong = sum(found.get(seq or 0) != number for number, seq in enumerate(seqs))
    return [
        Figure("acknowledged and lost, or elsewhere", wrong, 0),
        Figure("stored twice", len(found) - len(set(found.values())), 0),
    ]


async def quiet(_: Exception) -> None:
    """Ignores errors: disconnects are part of the experiment."""


async def measure(count: int, kills: int) -> list[Figure]:
    figures = []
    for form in (batch, futures):
        with NatsServer() as server:
            figures += await form(server, count, kills)
    return figures
