"""Publishing while the server is killed, frozen, or does not answer."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.js.api import PubAck
from jetarrow.server import NatsServer

from .tools import FLAT, Restarts, Ticker, places, rss, trimmed_rss

COUNT = 200_000
BLOCK = 1_000
# The last one late, so that what follows it is over soon.
KILLS = [60_000, 120_000, 180_000]


async def test_three_kills_during_a_batch(own_server: NatsServer, restarts: Restarts) -> None:
    """Every row is stored once and is where its result says, and the call is over soon after the last restart."""

    def rows() -> Iterator[pa.RecordBatch]:
        for first in range(0, COUNT, BLOCK):
            if first in KILLS:
                restarts.begin()
            numbers = [str(i) for i in range(first, first + BLOCK)]
            yield pa.record_batch({"data": numbers, "msg_id": numbers})

    schema = pa.schema({"data": pa.string(), "msg_id": pa.string()})
    async with await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        result = await js.publish_batch("s.a", pa.RecordBatchReader.from_batches(schema, rows()))
        over = time.monotonic()
        restarts.wait()
        assert restarts.count == len(KILLS)
        assert over - restarts.up < 5
        result.raise_for_errors()
        assert (result.count, result.stored + (result.duplicates or 0)) == (COUNT, COUNT)
        assert result.duplicates, "no kill met a row that was stored and not answered yet"
        found = await places(js, "S")
        assert len(found) == COUNT
        assert [found[seq] for seq in result.seqs.to_pylist() if seq is not None] == list(range(COUNT))


async def test_three_kills_during_publish_async(own_server: NatsServer, restarts: Restarts) -> None:
    """Every message is stored once and is where its future says; what a kill interrupts is resolved 5 s later."""

    async def resolved(futures: list[asyncio.Future[PubAck]]) -> None:
        await asyncio.to_thread(restarts.wait)
        await asyncio.wait_for(asyncio.wait(futures), 5)

    async with await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        futures = []
        checks = []
        for i in range(COUNT):
            futures.append(await js.publish_async("s.a", str(i), msg_id=str(i)))
            if i in KILLS:
                restarts.begin()
                pending = [future for future in futures if not future.done()]
                assert pending
                checks.append(asyncio.ensure_future(resolved(pending)))
        await js.publish_async_completed()
        assert time.monotonic() - restarts.up < 5
        await asyncio.gather(*checks)
        assert len(checks) == restarts.count == len(KILLS)
        found = await places(js, "S")
        assert len(found) == COUNT
        assert [found[future.result().seq] for future in futures] == list(range(COUNT))


STOP = 10.0
WINDOW = 5_000


async def sit_out_a_stop(
    server: NatsServer, ticker: Ticker, alone: float, state: Callable[[], tuple[int, int]]
) -> None:
    """The server is frozen: waits until nothing moves, and ten seconds more; then the server goes on.

    `state` tells how many messages are unanswered and how many are answered.
    """
    before = None
    while before != (before := state()):
        await asyncio.sleep(0.3)
    assert before[0] >= WINDOW
    until = time.monotonic() + STOP
    height, peak = trimmed_rss(), 0.0
    ticker.worst()
    while time.monotonic() < until:
        await asyncio.sleep(0.1)
        peak = max(peak, rss())
        assert state() == before
    late = ticker.worst()
    server.resume()
    assert peak - height < FLAT
    assert late < 0.1, f"with nothing to do it was {alone:.3f} s late"


async def test_batch_into_a_frozen_server(own_server: NatsServer, ticker: Ticker) -> None:
    """No id, so a row that is sent twice is there twice."""
    count = 60_000
    frozen = asyncio.Event()
    loop = asyncio.get_running_loop()
    given = done = 0

    def progress(rows: int, total: int | None) -> None:
        nonlocal done
        done = rows

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal given
        for first in range(0, count, BLOCK):
            if first == count // 3:
                own_server.pause()
                loop.call_soon_threadsafe(frozen.set)
            given += BLOCK
            yield pa.record_batch({"data": [f"{i:01024}" for i in range(first, first + BLOCK)]})

    async with await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        await asyncio.sleep(1)
        alone = ticker.worst()
        reader = pa.RecordBatchReader.from_batches(pa.schema({"data": pa.string()}), rows())
        task = asyncio.ensure_future(js.publish_batch("s.a", reader, max_inflight=WINDOW, progress=progress))
        await frozen.wait()
        await sit_out_a_stop(own_server, ticker, alone, lambda: (given - done, done))
        result = await task
        result.raise_for_errors()
        found = await places(js, "S")
        assert len(found) == count
        assert [found[seq] for seq in result.seqs.to_pylist() if seq is not None] == list(range(count))


async def test_publisher_into_a_frozen_server(own_server: NatsServer, ticker: Ticker) -> None:
    count = 60_000
    async with await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        await asyncio.sleep(1)
        alone = ticker.worst()
        async with js.publisher("s.a", max_inflight=WINDOW) as publisher:
            frozen = asyncio.Event()

            async def publish() -> list[int]:
                futures = []
                for i in range(count):
                    if i == count // 3:
                        own_server.pause()
                        frozen.set()
                    futures.append(await publisher.publish(f"{i:01024}"))
                await publisher.flush()
                return [future.result().seq for future in futures]

            task = asyncio.ensure_future(publish())
            await frozen.wait()
            await sit_out_a_stop(own_server, ticker, alone, lambda: (publisher.pending, publisher.stats.stored))
            seqs = await task
        assert publisher.stats == (count, 0, 0, 0, 0)
        found = await places(js, "S")
        assert len(found) == count
        assert [found[seq] for seq in seqs] == list(range(count))


@pytest.fixture
def deaf(own_server: NatsServer) -> Iterator[None]:
    """Somebody listens on `deaf.>` and never answers: a publish there has no ack and no error."""

    def listen() -> None:
        while sock.recv(1 << 20):
            pass

    with socket.create_connection(("127.0.0.1", own_server.port)) as sock:
        sock.sendall(b'CONNECT {"verbose":false}\r\nSUB deaf.> 1\r\nPING\r\n')
        lines = b""
        while b"PONG" not in lines:
            lines += sock.recv(4096)
        thread = threading.Thread(target=listen)
        thread.start()
        yield
        sock.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize(("face", "frozen"), [("async", False), ("async", True), ("sync", False)])
def test_publishes_that_time_out_leave_nothing(own_server: NatsServer, face: str, frozen: bool) -> None:
    with jetarrow.sync.connect(own_server.url) as nc:
        nc.jetstream().add_stream(name="S", subjects=["s.>"])
    program = Path(__file__).with_name("unanswered.py")
    command = [sys.executable, str(program), face, own_server.url, str(own_server.pid if frozen else 0)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=100, check=True)
    heights = [float(line) for line in done.stdout.split()]
    assert len(heights) == 5
    assert heights[-1] - heights[0] < FLAT, f"it grew by {heights} MiB"
