"""Stored messages larger than the server's current `max_payload`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import jetarrow
import pytest
from jetarrow.server import NatsServer

SIZES = [10, 3 << 20, 20, 30, 3 << 20, 3 << 20, 40]


@pytest.mark.parametrize("direct", [False, True])
async def test_read_returns_messages_above_lowered_max_payload(tmp_path: Path, direct: bool) -> None:
    with NatsServer(config="max_payload: 8MB", store_dir=tmp_path) as server:
        async with await jetarrow.connect(server.url) as nc:
            js = nc.jetstream()
            await js.add_stream(name="S", subjects=["s.>"], allow_direct=True)
            for size in SIZES:
                await js.publish("s.a", bytes(size))
    with NatsServer(config="max_payload: 1MB", store_dir=tmp_path) as server:
        async with await jetarrow.connect(server.url) as nc:
            js = nc.jetstream()
            before = nc.stats["in_msgs"]
            read = js.read("S", direct=direct, fetch_bytes=1 << 20, columns=["data"]).read_all()
            table = await asyncio.wait_for(read, 20)
            assert [len(data) for data in table.column("data").to_pylist()] == SIZES
            # Each large message fails only the outstanding requests.
            assert nc.stats["in_msgs"] - before < 10 * len(SIZES)
            sub = await js.pull_subscribe("s.>")
            batch = await sub.fetch_batch(len(SIZES), min_messages=len(SIZES), timeout=20)
            assert len(batch) == len(SIZES)
