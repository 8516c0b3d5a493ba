"""Reading a stream while the server is killed."""

from __future__ import annotations

import asyncio
import re

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.aio.client import Client
from jetarrow.jetstream.read_spec import ReadSpec
from jetarrow.jetstream.reader import Reader
from jetarrow.server import NatsServer

from ..conftest import EAGER
from ..tools import store
from ..yardstick import ordered
from ..yardstick.figures import check
from .proxy import Proxy
from .tools import Restarts

COUNT = 200_000
KILLS = [50_000, 120_000]


class Swallowing(Proxy):
    """Throws the second pull request away."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.subjects: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = asyncio.StreamReader()
        cutting = asyncio.ensure_future(self._cut_frames(reader, frames))
        try:
            await super().serve(frames, writer)
        finally:
            cutting.cancel()

    async def _cut_frames(self, reader: asyncio.StreamReader, frames: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            words = line.split()
            if words[0] in (b"PUB", b"HPUB"):
                self.subjects.append(words[1])
                line += await reader.readexactly(int(words[-1]) + 2)
                if b".MSG.NEXT." in words[1] and sum(b".MSG.NEXT." in subject for subject in self.subjects) == 2:
                    continue
            frames.feed_data(line)
        frames.feed_eof()


class Losing(Proxy):
    """Loses message 10 on its way, as a broken route of a cluster does: no connection is closed.

    With `lag` heartbeats deny that it was sent, like a consumer whose replica lags behind.
    """

    def __init__(self, port: int, times: int = 1, lag: bool = False) -> None:
        super().__init__(port)
        self.times, self.lag = times, lag

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, told: bool) -> None:
        if not told:
            return await super()._pipe(reader, writer, told=told)
        while line := await reader.readline():
            words = line.split()
            if words[0] in (b"MSG", b"HMSG"):
                line += await reader.readexactly(int(words[-1]) + 2)
                # $JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<consumer seq>.<time>.<pending>
                if words[3].startswith(b"$JS.ACK.") and words[3].split(b".")[5] == b"10" and self.times:
                    self.times -= 1
                    continue
            if self.lag:
                line = re.sub(rb"Nats-Last-Consumer: .", b"Nats-Last-Consumer: 0", line)
            writer.write(line)
        writer.close()


async def filled(proxy: Proxy, name: str = "S") -> Client:
    """Connects through the proxy, and creates a stream of ten messages."""
    nc = await jetarrow.connect(proxy.url)
    await nc.jetstream().add_stream(name=name, subjects=[f"{name}.>"])
    await store(nc.jetstream(), f"{name}.a", [b"x"] * 10)
    return nc


async def test_the_last_message_is_lost_on_its_way(own_server: NatsServer) -> None:
    """The cases run at once: each waits until its consumer is silent for seconds."""

    async def read(name: str, *, follow: bool, lag: bool) -> None:
        async with Losing(own_server.port, lag=lag) as proxy, await filled(proxy, name) as nc:
            seqs: list[int] = []
            async with nc.jetstream().read(name, columns=["seq"], follow=follow) as reader:
                async for batch in reader:
                    seqs += batch.to_pyarrow().column("seq").to_pylist()
                    if len(seqs) == 10 and follow:
                        break
            assert (name, seqs, proxy.times) == (name, list(range(1, 11)), 0)

    async def latest(name: str) -> None:
        async with Losing(own_server.port) as proxy, await filled(proxy, name) as nc:
            table = await nc.jetstream().latest(name).read_all()
            assert (name, table.column("seq").to_pylist(), proxy.times) == (name, [10], 0)

    async with asyncio.TaskGroup() as group:
        group.create_task(read("BOUNDED", follow=False, lag=False))
        group.create_task(read("LAG", follow=False, lag=True))
        group.create_task(read("FOLLOW", follow=True, lag=False))
        group.create_task(latest("LATEST"))


async def test_a_message_that_no_consumer_delivers(own_server: NatsServer) -> None:
    """The read ends with an error, instead of never."""

    async def read(name: str, *, lag: bool) -> None:
        async with Losing(own_server.port, times=1_000, lag=lag) as proxy, await filled(proxy, name) as nc:
            spec = ReadSpec(name, columns=["seq"], outage=5.0)
            with pytest.raises(TimeoutError, match="at sequence 10"):
                await Reader(nc.jetstream()._api, spec).read_all()
            # Several consumers were tried.
            assert proxy.times < 999, name

    async with asyncio.TaskGroup() as group:
        group.create_task(read("SILENT", lag=False))
        group.create_task(read("LAG", lag=True))


async def test_a_request_that_is_over_and_nobody_said_so(own_server: NatsServer) -> None:
    """It is asked again, of the same consumer: one that is made anew would first wait for a silence of seconds."""
    count = 20_000
    async with Swallowing(own_server.port) as proxy, await jetarrow.connect(proxy.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        await store(js, "s.a", [b"x" * 1_000] * count)
        table = await js.read("S", columns=["seq"]).read_all()
        assert table.column("seq").to_pylist() == list(range(1, count + 1))
    asked = sum(b".MSG.NEXT." in subject for subject in proxy.subjects)
    assert asked > 2
    assert sum(b".CONSUMER.CREATE." in subject for subject in proxy.subjects) == 1


async def test_two_kills_during_a_read(own_server: NatsServer) -> None:
    """And its consumer is deleted."""
    check(await ordered.read(own_server, **ordered.SHORT))


def test_two_kills_during_an_arrow_stream(own_server: NatsServer, restarts: Restarts) -> None:
    with jetarrow.sync.connect(own_server.url, **EAGER) as nc:
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
    async with (
        await jetarrow.connect(own_server.url, **EAGER) as writer,
        await jetarrow.connect(own_server.url, **EAGER) as nc,
    ):
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
