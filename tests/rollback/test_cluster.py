"""Rollback of a stream on a cluster server that the sink is not connected to: no connection breaks."""

from __future__ import annotations

import asyncio
import shutil
import warnings
from pathlib import Path
from typing import Any

import jetarrow
import pyarrow.dataset as ds
import pytest
from jetarrow.errors import Error
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.errors import StreamRolledBackError

from ..tools import cluster, until
from .tools import STREAM


async def patiently(call: Any) -> Any:
    """Retries the call while the stream has no leader."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await call()
            except Error:
                await asyncio.sleep(0.05)


async def publish(js: JetStreamContext, count: int, word: str) -> None:
    async def all_of_them() -> None:
        texts = [f"{word} {number}" for number in range(count)]
        (await js.publish_batch(f"{STREAM}.a", texts, msg_ids=texts, timeout=5)).raise_for_errors()

    await patiently(all_of_them)


def words(folder: Path) -> list[str]:
    if not any(folder.rglob("*.parquet")):
        return []
    table = ds.dataset(folder, format="parquet", exclude_invalid_files=True).to_table()
    return [data.decode() for data in table["data"].to_pylist()]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("durable", [pytest.param(None, marks=pytest.mark.slow), "archive"])
async def test_a_sink_notices_it(tmp_path: Path, durable: str | None) -> None:
    folder = tmp_path / "archive"
    options: dict[str, Any] = {"durable": durable, "follow": True, "seconds": 0.5}
    retention = "limits" if durable is None else "workqueue"
    with cluster() as servers:
        async with await jetarrow.connect(servers["n0"].url) as first:
            js = first.jetstream()
            await patiently(lambda: js.add_stream(name=STREAM, subjects=[f"{STREAM}.>"], retention=retention))
            placed = (await patiently(lambda: js.stream_info(STREAM))).cluster
        other = servers[placed.leader]
        near = next(server for name, server in servers.items() if name != placed.leader)
        async with await jetarrow.connect(near.url) as nc:
            js = nc.jetstream()
            if durable:
                # The copy contains the consumer.
                await publish(js, 1, "first")
                async with js.to_parquet(STREAM, folder, **options) as sink:
                    while (await sink.step()).rows != 1:
                        pass
            await publish(js, 100, "old")
            await asyncio.to_thread(other.stop)
            stored = other.store_dir / "jetstream" / "$G" / "streams" / STREAM
            shutil.copytree(stored, tmp_path / "copy")
            await asyncio.to_thread(other.start)
            await publish(js, 100, "gone")
            sink = js.to_parquet(STREAM, folder, **options)
            while not any(word == "gone 99" for word in words(folder)):
                await sink.step()
            await asyncio.to_thread(other.kill)
            shutil.rmtree(stored)
            shutil.copytree(tmp_path / "copy", stored)
            await asyncio.to_thread(other.start)
            await publish(js, 250, "new")
            assert nc.stats["reconnects"] == 0
            with pytest.raises(StreamRolledBackError):
                for _ in range(20):
                    await sink.step()
            await sink.close()
            assert not any(word.startswith("new") for word in words(folder))
            assert (await js.stream_info(STREAM)).state.messages >= 250
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                async with js.to_parquet(STREAM, folder, on_rollback="continue", **options) as again:

                    async def all_there() -> bool:
                        await again.step()
                        return {f"new {number}" for number in range(250)} <= set(words(folder))

                    await until(all_there, 60)
