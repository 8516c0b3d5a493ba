"""publish_batch of Arrow streams, block by block."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from jetarrow.js.client import JetStreamContext


async def test_arrow_stream_is_read_after_previous_block_was_sent(js: JetStreamContext, stream: str) -> None:
    """The next block is read from the producer only after the previous one was sent."""
    schema = pa.schema([("data", pa.binary())])
    made: list[int] = []

    def blocks() -> Any:
        for number in range(20):
            made.append(number)
            yield pa.record_batch([[b"%d" % number] * 500], schema=schema)

    seen: list[tuple[int, int]] = []
    reader = pa.RecordBatchReader.from_batches(schema, blocks())
    result = await js.publish_batch(
        f"{stream}.a", reader, max_inflight=100, progress=lambda done, total: seen.append((done, len(made)))
    )
    assert (result.count, result.stored) == (10_000, 10_000)
    assert all(blocks <= done // 500 + 2 for done, blocks in seen)
    found = (await js.read(stream).read_all()).column("data").to_pylist()
    assert found == [b"%d" % (i // 500) for i in range(10_000)]

    def broken() -> Any:
        yield pa.record_batch([[b"x"] * 10], schema=schema)
        raise KeyError("my own mistake")

    with pytest.raises(ValueError, match="my own mistake"):
        await js.publish_batch(f"{stream}.a", pa.RecordBatchReader.from_batches(schema, broken()))


async def test_row_numbers_continue_across_blocks(js: JetStreamContext, stream: str) -> None:
    subjects = [f"{stream}.a"] * 14
    kind = pa.schema([("data", pa.binary()), ("subject", pa.string())])
    first = pa.record_batch([[b"x"] * 10, subjects[:10]], schema=kind)
    second = pa.record_batch([[b"x"] * 4, [*subjects[10:12], None, subjects[13]]], schema=kind)
    result = await js.publish_batch(payloads=pa.RecordBatchReader.from_batches(kind, [first, second]))
    [failed] = result.errors
    assert failed.row == 12
    assert "row 12: the subject is null" in str(failed.error)
