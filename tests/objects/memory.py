"""Program that test_memory.py starts: moves a large file, and prints the memory that this occupied."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import jetarrow


def memory(name: str) -> int:
    """VmRSS (now) or VmHWM (the peak) of this process, bytes."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(f"{name}:"))


async def main(url: str, bucket: str, source: str, target: str) -> None:
    async with await jetarrow.connect(url) as nc:
        store = await nc.jetstream().object_store(bucket)
        await store.put("small", b"x" * 1_000_000)
        await store.get("small")
        # The peak counts from here on.
        Path("/proc/self/clear_refs").write_text("5")  # noqa: ASYNC240
        before = memory("VmRSS")
        await store.put_file("large", source)
        put = memory("VmHWM") - before
        await store.get_file("large", target)
        print(put, memory("VmHWM") - before)


asyncio.run(main(*sys.argv[1:]))
