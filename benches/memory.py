"""Child process of test_memory.py: publishes or reads many messages, and prints the growth of its memory.

By hand:  python benches/memory.py nats://127.0.0.1:4222 publish BENCH bench.x 1000000 1024
          python benches/memory.py nats://127.0.0.1:4222 read BENCH bench.x 1000000 1024
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jetarrow
import pyarrow

BATCH = 4_000  # rows of a batch that is published


def memory(name: str) -> float:
    """VmRSS (now) or VmHWM (the peak) of this process, MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"no {name} in /proc/self/status")


def from_here() -> float:
    """Return the present memory (MiB), and reset the peak."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def batches(schema: pyarrow.Schema, count: int, size: int) -> Iterator[pyarrow.RecordBatch]:
    """Yield batches with separate memory, as from a file, without a Python object per row."""
    payload = (bytes(range(0x20, 0x7F)) * (size // 95 + 1))[:size]
    offsets = pyarrow.py_buffer(struct.pack(f"={BATCH + 1}i", *range(0, (BATCH + 1) * size, size)))
    for start in range(0, count, BATCH):
        rows = min(BATCH, count - start)
        buffers = [None, offsets, pyarrow.py_buffer(payload * rows)]
        yield pyarrow.record_batch([pyarrow.Array.from_buffers(pyarrow.binary(), rows, buffers)], schema)


async def publish(nc: jetarrow.Client, subject: str, count: int, size: int) -> int:
    schema = pyarrow.schema({"data": pyarrow.binary()})
    reader = pyarrow.RecordBatchReader.from_batches(schema, batches(schema, count, size))
    result = await nc.jetstream().publish_batch(subject, reader)
    result.raise_for_errors()
    return result.stored


async def read(nc: jetarrow.Client, stream: str) -> int:
    rows = 0
    async for batch in nc.jetstream().read(stream):
        rows += batch.to_pyarrow().num_rows
    return rows


async def main() -> None:
    url, what, stream, subject = sys.argv[1:5]
    count, size = int(sys.argv[5]), int(sys.argv[6])
    nc = await jetarrow.connect(url)
    before = from_here()
    start, cpu = time.perf_counter(), time.process_time()
    done = await publish(nc, subject, count, size) if what == "publish" else await read(nc, stream)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    growth = memory("VmHWM") - before
    await nc.close()
    print(json.dumps({"done": done, "seconds": seconds, "cpu": cpu, "growth": growth}))


if __name__ == "__main__":
    asyncio.run(main())
