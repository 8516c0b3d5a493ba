"""publish_batch(mode="atomic", chunk=) over connections and servers that end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator

import jetarrow
import jetarrow.errors
import pyarrow as pa
import pytest
from jetarrow.js import errors as js_errors
from jetarrow.server import NatsServer

from .chunks import Cutter, numbers, rows_of
from .tools import port_of, until


@pytest.mark.parametrize("lost", ["commit", "answer"])
@pytest.mark.parametrize("ids", ["all", "first", "none"])
async def test_a_connection_that_breaks(nc: jetarrow.Client, atomic: str, ids: str, lost: str) -> None:
    """Each row is stored once, or is unknown: only rows whose commit was lost, and that have no id."""
    js = nc.jetstream()
    rows, chunk, commit = 3_000, 100, 8
    port = port_of(nc)
    assert port is not None

    async def stored() -> None:
        async def enough() -> bool:
            return (await js.stream_info(atomic)).state.messages >= commit * chunk

        while not await enough():
            await asyncio.sleep(0.01)

    given = {
        "all": [str(number) for number in range(rows)],
        "first": [str(number) if number % chunk == 0 else None for number in range(rows)],
        "none": None,
    }[ids]
    async with Cutter(port, commit=commit, stored=stored if lost == "answer" else None) as cutter:
        async with await jetarrow.connect(cutter.url, reconnect_time_wait=0.01) as other:
            result = await other.jetstream().publish_batch(
                f"{atomic}.a", numbers(rows), msg_ids=given, mode="atomic", chunk=chunk
            )
        assert cutter.cuts == 1
    data = await rows_of(js, atomic)
    assert max(Counter(data).values()) == 1
    unknown = {error.row for error in result.errors}
    assert {type(error.error) for error in result.errors} <= {js_errors.PublishUnconfirmedError}
    assert set(numbers(rows)) - set(data) <= {b"%d" % row for row in unknown}
    assert result.stored + (result.duplicates or 0) + len(unknown) == rows
    for row, seq in enumerate(result.seqs.to_pylist()):
        assert (seq is None) == (row in unknown)
        if seq is not None:
            assert data[seq - 1] == b"%d" % row
    if ids == "none" and lost == "commit":
        # Whole chunks that were in flight, among them the one without its commit.
        assert {row // chunk for row in unknown} >= {commit - 1}
        assert len(unknown) % chunk == 0
    else:
        assert unknown == set()


async def test_rows_are_sent_again_if_the_caller_says_so(nc: jetarrow.Client, atomic: str) -> None:
    port = port_of(nc)
    assert port is not None
    async with (
        Cutter(port, commit=3, stored=None) as cutter,
        await jetarrow.connect(cutter.url, reconnect_time_wait=0.01) as other,
    ):
        result = await other.jetstream().publish_batch(
            f"{atomic}.a", numbers(1_000), mode="atomic", chunk=100, resend=True
        )
    result.raise_for_errors()
    assert set(await rows_of(nc.jetstream(), atomic)) == set(numbers(1_000))


@pytest.mark.parametrize("ids", [True, False])
async def test_a_server_that_is_killed(own_server: NatsServer, ids: bool) -> None:
    rows, chunk = 60_000, 200
    given = [str(number) for number in range(rows)] if ids else None
    async with await jetarrow.connect(own_server.url, max_reconnect_attempts=-1, reconnect_time_wait=0.05) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], allow_atomic=True)
        publishing = asyncio.ensure_future(
            js.publish_batch("s.a", numbers(rows), msg_ids=given, mode="atomic", chunk=chunk, timeout=60)
        )
        for kill in range(3):
            while (await js.stream_info("S")).state.messages < (kill + 1) * rows // 5:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(own_server.kill)
            await asyncio.to_thread(own_server.restart)
        result = await publishing
        data = await rows_of(js, "S")
    assert max(Counter(data).values()) == 1
    unknown = {error.row for error in result.errors}
    assert {type(error.error) for error in result.errors} <= {js_errors.PublishUnconfirmedError}
    assert set(numbers(rows)) - set(data) <= {b"%d" % row for row in unknown}
    if ids:
        assert unknown == set()


async def test_a_connection_that_is_closed_while_rows_are_awaited(own_server: NatsServer) -> None:
    """The call ends with the rows that follow, and does nothing meanwhile."""
    nc = await jetarrow.connect(own_server.url)
    js = nc.jetstream()
    await js.add_stream(name="S", subjects=["s.>"], allow_atomic=True)
    awaited, closed = threading.Event(), threading.Event()
    busy = 0.0

    def blocks() -> Iterator[pa.RecordBatch]:
        nonlocal busy
        yield pa.record_batch({"data": pa.array(numbers(20), pa.binary())})
        awaited.set()
        assert closed.wait(10)
        begun = time.process_time()
        time.sleep(0.5)
        busy = time.process_time() - begun
        yield pa.record_batch({"data": pa.array(numbers(5), pa.binary())})

    reader = pa.RecordBatchReader.from_batches(pa.schema({"data": pa.binary()}), blocks())
    publishing = asyncio.ensure_future(js.publish_batch("s.a", reader, mode="atomic", chunk=10))
    assert await asyncio.to_thread(awaited.wait, 10)

    async def stored() -> bool:
        return (await js.stream_info("S")).state.messages == 20 and nc.metrics()["in_flight"] == 0

    await until(stored)
    await nc.close()
    closed.set()
    result = await asyncio.wait_for(publishing, 10)
    assert (result.stored, [error.row for error in result.errors]) == (20, list(range(20, 25)))
    assert {type(error.error) for error in result.errors} == {jetarrow.errors.ConnectionClosedError}
    assert busy < 0.25
