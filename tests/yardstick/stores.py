"""STORES: buckets, objects and sinks during leader changes; then a thousand cycles of each, which must not leak."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from jetarrow.errors import Error
from jetarrow.jetstream import models
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.server import NatsServer

from ..tools import cluster
from .figures import Figure, said
from .rollback import connection, patiently
from .soak import settled

FULL: dict[str, Any] = {"changes": 40, "cycles": 1_000}
SHORT: dict[str, Any] = {"changes": 3, "cycles": 10}
STREAM, BUCKET, OBJECTS = "ROWS", "B", "O"
STREAMS = (STREAM, f"KV_{BUCKET}", f"OBJ_{OBJECTS}")
# Rows of a batch; bytes of an object, which are several chunks.
ROWS, SIZE = 200, 300_000
# MiB that a thousand cycles may leave behind: the allocators' pages, whatever the number.
KEPT = 8.0


class Work:
    """Stores keys, objects and rows until `over` is set; counts the acknowledged ones."""

    def __init__(self, js: JetStreamContext, folder: Path) -> None:
        self.js, self.folder = js, folder
        self.over = False
        self.puts = self.objects = self.rows = 0
        self.failed: Counter[str] = Counter()

    async def prepare(self) -> None:
        js = self.js
        await patiently(lambda: js.add_stream(name=STREAM, subjects=[f"{STREAM}.>"], num_replicas=3))
        self.kv = await patiently(lambda: js.create_key_value(bucket=BUCKET, replicas=3))
        self.store = await patiently(lambda: js.create_object_store(bucket=OBJECTS, replicas=3))

    @property
    def done(self) -> tuple[int, int, int]:
        """Acknowledged puts, objects and rows."""
        return self.puts, self.objects, self.rows

    def is_past(self, before: tuple[int, int, int]) -> bool:
        """Whether there are more of each kind than before."""
        return all(now > then for now, then in zip(self.done, before, strict=True))

    async def _again(self, kind: str, call: Callable[[], Awaitable[Any]]) -> None:
        """Retries a call until it succeeds; it fails while there is no leader."""
        while True:
            try:
                await call()
            except (Error, OSError):
                self.failed[kind] += 1
                await asyncio.sleep(0.05)
            else:
                return

    async def put(self) -> None:
        while not self.over:
            await self._again("puts", partial(self.kv.put, f"k{self.puts}", b"%d" % self.puts))
            self.puts += 1

    async def put_objects(self) -> None:
        while not self.over:
            data = (b"%d " % self.objects) * (SIZE // 4)
            await self._again("objects", partial(self.store.put, f"o{self.objects}", data))
            self.objects += 1
            await asyncio.sleep(0.05)

    async def publish(self) -> None:
        while not self.over:
            ids = [str(row) for row in range(self.rows, self.rows + ROWS)]

            async def batch(ids: list[str] = ids) -> None:
                (await self.js.publish_batch(f"{STREAM}.a", ids, msg_ids=ids, timeout=2)).raise_for_errors()

            await self._again("batches", batch)
            self.rows += ROWS

    async def archive(self) -> None:
        """Archives with a sink, which is recreated if it ends with an error."""
        while not self.over:
            sink = self.js.to_parquet(STREAM, self.folder, follow=True, seconds=0.5)
            try:
                while not self.over:
                    await sink.step()
            except (Error, OSError):
                self.failed["sinks"] += 1
                await asyncio.sleep(0.05)
            finally:
                await sink.close()

    async def check(self) -> list[Figure]:
        """Checks that everything acknowledged is stored."""
        lost = damaged = 0
        for number in range(self.puts):
            entry = await patiently(partial(self.kv.get, f"k{number}"))
            lost += entry.value != b"%d" % number
        for number in range(self.objects):
            result = await patiently(partial(self.store.get, f"o{number}"))
            damaged += result.data != (b"%d " % number) * (SIZE // 4)
        await patiently(lambda: self.js.to_parquet(STREAM, self.folder).run())
        found = Counter(ds.dataset(self.folder, format="parquet").to_table()["seq"].to_pylist())
        last = (await patiently(lambda: self.js.stream_info(STREAM))).state.last_seq
        return [
            said("puts", self.puts),
            Figure("acknowledged and not there", lost, 0),
            said("objects", self.objects),
            Figure("not there, or damaged", damaged, 0),
            said("rows", self.rows),
            Figure("not archived", last - len(found), 0),
            Figure("archived twice", found.total() - len(found), 0),
            said("calls that failed and were made again", self.failed.total()),
        ]


async def leaders(changes: int) -> list[Figure]:
    """Leaders step down and servers are killed while all work continues."""
    dice = random.Random(1)
    async with AsyncExitStack() as stack:
        servers = stack.enter_context(cluster())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        nc, other = [
            await stack.enter_async_context(await connection([server.url for server in servers.values()]))
            for _ in range(2)
        ]
        work = Work(nc.jetstream(), folder / "archive")
        await work.prepare()
        tasks = [asyncio.ensure_future(run()) for run in (work.put, work.put_objects, work.publish, work.archive)]
        for _ in range(changes):
            before = work.done
            if dice.randrange(3):
                for stream in STREAMS:
                    await patiently(partial(other.request, f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}"))
            else:
                server = servers[dice.choice(list(servers))]
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(1)
                await asyncio.to_thread(server.start)
            async with asyncio.timeout(120):
                while not all(
                    now > then for now, then in zip((work.puts, work.objects, work.rows), before, strict=True)
                ):
                    await asyncio.sleep(0.05)
        work.over = True
        async with asyncio.timeout(120):
            await asyncio.gather(*tasks)
        return [said("leader changes", changes), *await work.check()]


class Cycles:
    """One cycle of each kind on one connection."""

    def __init__(self, js: JetStreamContext, folder: Path) -> None:
        self.js, self.folder = js, folder

    async def bucket(self) -> None:
        kv = await self.js.key_value(BUCKET)
        await kv.put("k", b"v")
        await kv.get("k")
        async with await kv.watch("k") as watcher:
            await anext(aiter(watcher))

    async def objects(self) -> None:
        store = await self.js.object_store(OBJECTS)
        await store.put("o", bytes(SIZE))
        await store.get("o")
        await store.update_meta("o", models.ObjectMeta(name="renamed"))
        await store.delete("renamed")

    async def sink(self) -> None:
        await self.js.publish(f"{STREAM}.a", b"row")
        await self.js.to_parquet(STREAM, self.folder / "archive").run()
        # One record per cycle would add a cost of its own.
        shutil.rmtree(self.folder / "archive")

    async def backup(self) -> None:
        place = self.folder / "backup"
        await self.js.backup_stream("SMALL", place)
        await self.js.delete_stream("SMALL")
        # The server (2.15) rejects some restores just after the deletion.
        await patiently(lambda: self.js.restore_stream(place))
        shutil.rmtree(place, ignore_errors=True)

    async def letters(self) -> None:
        await self.js.dead_letters(STREAM).read_all()


async def all_cycles(count: int) -> list[Figure]:
    figures = []
    async with AsyncExitStack() as stack:
        server = stack.enter_context(NatsServer())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        nc = await stack.enter_async_context(await connection(server.url))
        js = nc.jetstream()
        await js.add_stream(name=STREAM, subjects=[f"{STREAM}.>"], max_msgs=100)
        await js.add_stream(name="SMALL", subjects=["small.>"])
        await js.publish("small.a", b"x")
        await js.create_key_value(bucket=BUCKET)
        await js.create_object_store(bucket=OBJECTS)
        await js.keep_dead_letters(STREAM)
        kinds = Cycles(js, folder)
        for name in ("bucket", "objects", "sink", "backup", "letters"):
            run = getattr(kinds, name)
            for _ in range(max(count // 5, 5)):
                await run()
            before = await settled()
            for _ in range(count):
                await run()
            after = await settled()
            memory, descriptors, threads, tasks = [now - then for now, then in zip(after, before, strict=True)]
            figures += [
                said(f"cycles of {name}", count),
                Figure("growth", max(memory, 0), KEPT, "MiB"),
                Figure("more descriptors", descriptors, 0),
                Figure("more threads", threads, 0),
                Figure("more native tasks", tasks, 0),
            ]
    return figures


async def measure(changes: int, cycles: int) -> list[Figure]:
    return [*await leaders(changes), *await all_cycles(cycles)]
