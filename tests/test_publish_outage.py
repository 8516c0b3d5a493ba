"""A stream has no responder for a moment: the order of publishing is kept."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import jetarrow
import pyarrow as pa
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.publish_result import PublishResult

from .test_publish_attribution import WINDOW, failures, numbered
from .tools import until

# Seconds until a row that was answered with 503 is sent again.
RETRY_INTERVAL = 0.25


async def publish_during_outage(nc: jetarrow.Client, js: JetStreamContext, stream: str) -> tuple[PublishResult, float]:
    """Publishes blocks of rows while the stream has other subjects. Returns the result, and how long it had them."""
    config = (await js.stream_info(stream)).config
    begun, back = asyncio.Event(), threading.Event()

    async def holds_rows() -> bool:
        """All rows that were sent have an answer, and some of them 503: later ones wait behind these."""
        counts = nc.metrics_by_verb()["publish_batch"]
        answered = counts["in_msgs"] - before["in_msgs"]
        is_idle = answered == counts["out_msgs"] - before["out_msgs"]
        return is_idle and answered > (await js.stream_info(stream)).state.messages

    async def leave() -> float:
        await begun.wait()
        start = time.monotonic()
        try:
            await js.update_stream(config.evolve(subjects=[f"{stream}.elsewhere"]))
            await until(holds_rows)
            await js.update_stream(config)
        finally:
            back.set()
        return time.monotonic() - start

    def blocks() -> Iterator[pa.RecordBatch]:
        given, after = 0, 10
        while after > 0:
            yield pa.record_batch({"data": [b"%d" % row for row in range(given, given + 1_000)]})
            given += 1_000
            after -= back.is_set()

    def progress(done: int, total: int | None) -> None:
        if done > 2 * WINDOW:
            begun.set()

    before = nc.metrics_by_verb()["publish_batch"]
    leaving = asyncio.ensure_future(leave())
    reader = pa.RecordBatchReader.from_batches(pa.schema({"data": pa.binary()}), blocks())
    result = await js.publish_batch(f"{stream}.a", reader, max_inflight=WINDOW, timeout=30, progress=progress)
    return result, await leaving


async def test_rows_during_stream_outage_are_resent_in_order(
    nc: jetarrow.Client, js: JetStreamContext, stream: str
) -> None:
    """Rows answered with 503 are resent before all later rows."""
    config = (await js.stream_info(stream)).config
    while True:
        result, took = await publish_during_outage(nc, js, stream)
        if took < RETRY_INTERVAL:
            break
        # A busy machine: the rows may have been sent again while no stream had their subject.
        await js.delete_stream(stream)
        await js.add_stream(config)
    assert nc.metrics()["resent"] > 0
    assert not await failures(js, stream, result, numbered(result.count))
    assert result.seqs.to_pylist() == list(range(1, result.count + 1))
