"""Reading a stream while the server is killed."""

from __future__ import annotations

import asyncio

import jetarrow
import jetarrow.sync
import pyarrow as pa
from jetarrow.server import NatsServer

from ..yardstick import ordered
from ..yardstick.figures import check
from .tools import Restarts

COUNT = 200_000
KILLS = [50_000, 120_000]


async def test_two_kills_during_a_read(own_server: NatsServer) -> None:
    """And its consumer is deleted."""
    check(await ordered.read(own_server, **ordered.SHORT))


def test_two_kills_during_an_arrow_stream(own_server: NatsServer, restarts: Restarts) -> None:
    with jetarrow.sync.connect(own_server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["s.>"])
        js.publish_batch("s.a", [b"x"] * COUNT).raise_for_errors()
        seqs: list[int] = []
        with pa.RecordBatchReader.from_stream(js.read("S", columns=["seq"], batch_rows=2_000)) as reader:
            for batch in reader:
                seqs += batch.column("seq").to_pylist()
                if restarts.count < len(KILLS) and len(seqs) >= KILLS[restarts.count]:
                    restarts.begin()
        assert restarts.count == len(KILLS)
        assert seqs == list(range(1, COUNT + 1))


async def test_two_kills_while_following(own_server: NatsServer, restarts: Restarts) -> None:
    """The messages come while they are read, and both sides live through the same restarts."""
    async with await jetarrow.connect(own_server.url) as writer, await jetarrow.connect(own_server.url) as nc:
        await writer.jetstream().add_stream(name="S", subjects=["s.>"])
        numbers = [str(i) for i in range(1, COUNT + 1)]
        publish = asyncio.ensure_future(writer.jetstream().publish_batch("s.a", numbers, msg_ids=numbers))
        seqs: list[int | None] = []
        data: list[bytes] = []
        async with nc.jetstream().read("S", columns=["seq", "data"], batch_rows=2_000, follow=True) as reader:
            async for batch in reader:
                seqs += batch.seqs.to_pylist()
                data += batch.to_pyarrow().column("data").to_pylist()
                if restarts.count < len(KILLS) and len(seqs) >= KILLS[restarts.count]:
                    restarts.begin()
                if len(seqs) >= COUNT:
                    break
        result = await publish
        result.raise_for_errors()
        assert restarts.count == len(KILLS)
        assert seqs == list(range(1, COUNT + 1))
        # A message that was delivered, then lost by the server and written anew, would be another one.
        assert [data[(seq or 0) - 1].decode() for seq in result.seqs.to_pylist()] == numbers
