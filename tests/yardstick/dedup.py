"""DEDUP: every id is sent three times while the server is killed twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jetarrow
import pyarrow as pa
from jetarrow.server import NatsServer

from ..survive.tools import Restarts, places
from .figures import Figure, said

FULL: dict[str, Any] = {"count": 100_000}
SHORT: dict[str, Any] = {"count": 10_000}
BLOCK = 1_000


async def measure(count: int) -> list[Figure]:
    with NatsServer() as server:
        restarts = Restarts(server)
        kills = [count // 3 // BLOCK * BLOCK, count * 2 // 3 // BLOCK * BLOCK]
        order: list[int] = []

        def rows() -> Iterator[pa.RecordBatch]:
            """A block, again, and once more: the copies of an id are far enough apart to meet a kill between them."""
            for first in range(0, count, BLOCK):
                for copy in range(3):
                    if copy == 1 and first in kills:
                        restarts.begin()
                    numbers = range(first, first + BLOCK)
                    order.extend(numbers)
                    texts = [str(number) for number in numbers]
                    yield pa.record_batch({"data": texts, "msg_id": texts})

        schema = pa.schema({"data": pa.string(), "msg_id": pa.string()})
        async with await jetarrow.connect(server.url) as nc:
            js = nc.jetstream()
            await js.add_stream(name="S", subjects=["s.>"])
            result = await js.publish_batch("s.a", pa.RecordBatchReader.from_batches(schema, rows()), timeout=60)
            restarts.wait()
            found = await places(js, "S")
        result.raise_for_errors()
        seqs = result.seqs.to_pylist()
        wrong = sum(found.get(seq or 0) != number for number, seq in zip(order, seqs, strict=True))
        return [
            said("ids", count, "times 3"),
            said("kills", restarts.count),
            Figure("not stored", count - len(set(found.values())), 0),
            Figure("stored twice", len(found) - len(set(found.values())), 0),
            Figure("acks with another sequence", wrong, 0),
            said("answered as duplicates", result.duplicates or 0),
        ]
