"""publish_batch(mode="fast") over batches that the server rejects, forgets or gives to another stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import jetarrow
import pyarrow as pa
import pytest
from jetarrow import errors
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .tools import until

SCHEMA = pa.schema({"data": pa.binary()})


def feed(*blocks: list[bytes], between: Callable[[], object] = lambda: None) -> pa.RecordBatchReader:
    """The rows of several blocks; between two of them it calls a function in the thread that reads it."""

    def batches() -> Iterator[pa.RecordBatch]:
        for number, block in enumerate(blocks):
            if number:
                between()
            yield pa.record_batch({"data": block})

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


async def stored(js: JetStreamContext, stream: str) -> list[bytes]:
    found: list[bytes] = (await js.read(stream, columns=["data"]).read_all()).column(0).to_pylist()
    return found


async def test_a_stream_that_is_sealed_meanwhile(own: JetStreamContext) -> None:
    """The server rejects pings and the end of the batch too: they are no sign that it goes on."""
    await own.add_stream(name="FAST", subjects=["fast.>"], allow_batched=True)
    loop = asyncio.get_running_loop()

    async def seal() -> None:
        await until(has_ten)
        config = (await own.stream_info("FAST")).config
        await own.update_stream(config.evolve(sealed=True))

    async def has_ten() -> bool:
        return (await own.stream_info("FAST")).state.messages == 10

    def between() -> None:
        asyncio.run_coroutine_threadsafe(seal(), loop).result(30)

    rows = feed([b"a"] * 10, [b"b"] * 10, between=between)
    result = await asyncio.wait_for(own.publish_batch("fast.a", rows, mode="fast", timeout=2), 60)
    assert result.count == 20
    assert {error.row for error in result.errors} >= set(range(10, 20))
    assert all("sealed" in str(error.error) for error in result.errors if error.row >= 10)
    assert all(isinstance(error.error, errors.TimeoutError) for error in result.errors if error.row < 10)
    assert await stored(own, "FAST") == [b"a"] * 10


async def test_a_batch_that_the_server_forgets_while_the_feed_waits() -> None:
    """The last row was stored: it is not sent again."""
    with NatsServer(config="jetstream { limits: { batch: { timeout: 500ms } } }") as server:
        async with await jetarrow.connect(server.url) as nc:
            js = nc.jetstream()
            await js.add_stream(name="FAST", subjects=["fast.>"], allow_batched=True)
            rows = feed([b"a", b"b", b"c"], [b"d"], between=lambda: time.sleep(4))
            result = await js.publish_batch("fast.a", rows, mode="fast", timeout=6)
            assert await stored(js, "FAST") == [b"a", b"b", b"c", b"d"]
            unknown = {error.row for error in result.errors}
            assert unknown <= {0, 1, 2}
            assert {type(error.error) for error in result.errors} <= {js_errors.PublishUnconfirmedError}


@pytest.mark.parametrize("ids", [True, False])
async def test_rows_of_two_streams(own: JetStreamContext, ids: bool) -> None:
    for name in ("A", "B"):
        await own.add_stream(name=name, subjects=[f"{name}.>"], allow_batched=True)
    count = 20
    payloads = [b"%d" % row for row in range(count)]
    subjects = ["AB"[row % 2] + ".x" for row in range(count)]
    msg_ids = [str(row) for row in range(count)] if ids else None
    call = own.publish_batch(subjects, payloads, msg_ids=msg_ids, mode="fast", timeout=20)
    result = await asyncio.wait_for(call, 60)
    result.raise_for_errors()
    assert result.stored == count
    assert await stored(own, "A") == payloads[::2]
    assert await stored(own, "B") == payloads[1::2]


async def test_a_refusal_after_rows_whose_result_is_unknown(own: JetStreamContext, own_server: NatsServer) -> None:
    """It is an error of its row: others may be stored."""
    await own.add_stream(name="FAST", subjects=["fast.>"], allow_batched=True, max_msgs=100, discard="new")

    async def has_all() -> bool:
        return (await own.stream_info("FAST")).state.messages == 100

    loop = asyncio.get_running_loop()

    def between() -> None:
        asyncio.run_coroutine_threadsafe(until(has_all), loop).result(30)
        own_server.kill()
        own_server.start()

    rows = feed([b"a"] * 100, [b"b"] * 10, between=between)
    result = await own.publish_batch("fast.a", rows, mode="fast", timeout=20)
    assert (result.count, result.stored, len(result.errors)) == (110, 0, 110)
    assert {type(error.error) for error in result.errors[:100]} == {js_errors.PublishUnconfirmedError}
    assert {getattr(error.error, "err_code", None) for error in result.errors[100:]} == {10077}
    assert await stored(own, "FAST") == [b"a"] * 100


async def test_a_duplicate_has_no_sequence_of_another_row(own: JetStreamContext) -> None:
    await own.add_stream(name="FAST", subjects=["fast.>"], allow_batched=True)
    await own.publish("fast.a", b"first", msg_id="0")
    result = await own.publish_batch("fast.a", [b"new", b"again"], msg_ids=["10", "0"], mode="fast")
    assert result.seqs.to_pylist() == [None, None]
