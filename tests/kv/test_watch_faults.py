"""Watches after restarts, a deleted consumer, a lost leader: each revision once, without a gap, and None once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import jetarrow
import pytest
from jetarrow import errors
from jetarrow.jetstream.kv import watcher as internals
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.js.kv import KeyValue
from jetarrow.server import NatsServer

from ..conftest import EAGER
from ..tools import cluster, until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the interval of the heartbeats: a lost consumer is noticed after two of them."""
    monkeypatch.setattr(internals, "HEARTBEAT", 0.5)


class Writer:
    """Puts numbers, retries each until it is stored, and records every revision."""

    def __init__(self, kv: KeyValue, keys: int) -> None:
        self.kv, self.keys = kv, keys
        self.count = 0
        self.enough = asyncio.Event()

    async def run(self) -> None:
        while not self.enough.is_set():
            try:
                await self.kv.put(f"k{self.count % self.keys}", b"%d" % self.count)
            except errors.Error:
                # A retried put may be stored twice: both revisions are changes.
                await asyncio.sleep(0.05)
                continue
            self.count += 1
            await asyncio.sleep(0.002)


class Follower:
    """Iterates over a watch, and checks that revisions increase and None appears once."""

    def __init__(self, watcher: Any) -> None:
        self.watcher = watcher
        self.revisions: list[int] = []
        self.values: list[bytes] = []
        self.nones = 0

    async def run(self) -> None:
        async for entry in self.watcher:
            if entry is None:
                self.nones += 1
            else:
                self.revisions.append(entry.revision)
                self.values.append(entry.value)


async def every_revision(kv: KeyValue, first: int, last: int) -> list[int]:
    """Returns the stored revisions of a bucket that removes none."""
    return [entry.revision or 0 for entry in await kv.history(">") if first <= (entry.revision or 0) <= last]


async def wait_for_last(kv: KeyValue, follower: Follower) -> int:
    last = (await kv.status()).stream_info.state.last_seq
    await until(lambda: follower.revisions and follower.revisions[-1] >= last, 30)
    return last


async def test_restarts(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, **EAGER) as nc:
        kv = await nc.jetstream().create_key_value(bucket="B", history=64)
        follower = Follower(await kv.watchall())
        writer = Writer(await nc.jetstream(timeout=2).key_value("B"), 500)
        tasks = [asyncio.ensure_future(follower.run()), asyncio.ensure_future(writer.run())]
        for restart in range(3):
            await until(lambda at=restart * 100 + 100: writer.count > at, 30)  # type: ignore[misc]
            await asyncio.to_thread(own_server.kill)
            await asyncio.to_thread(own_server.start)
        await until(lambda at=writer.count + 100: writer.count > at, 30)  # type: ignore[misc]
        writer.enough.set()
        await tasks[1]
        last = await wait_for_last(kv, follower)
        assert follower.revisions == await every_revision(kv, 1, last)
        assert follower.nones == 1
        await follower.watcher.stop()
        await tasks[0]


async def test_a_restart_among_the_initial_values(own_server: NatsServer) -> None:
    """Values delivered before the restart are not repeated, and only the last value of each other key follows."""
    count = 20_000
    async with await jetarrow.connect(own_server.url, **EAGER) as nc:
        kv = await nc.jetstream().create_key_value(bucket="B", history=2)
        for value in (b"old" * 30, b"new" * 30):
            (await kv.put_batch([f"k{number}" for number in range(count)], [value] * count)).raise_for_errors()
        watcher = await kv.watchall()
        revisions, restarted = [], False
        while (entry := await watcher.updates(30)) is not None:
            assert entry.value == b"new" * 30
            revisions.append(entry.revision)
            if len(revisions) == 1000:
                await asyncio.to_thread(own_server.kill)
                await asyncio.to_thread(own_server.start)
                restarted = True
        assert restarted
        assert revisions == list(range(count + 1, 2 * count + 1))
        await kv.put("k0", b"changed")
        assert (await watcher.updates()).value == b"changed"
        with pytest.raises(errors.TimeoutError):
            await watcher.updates(0.1)
        await watcher.stop()


@pytest.mark.parametrize("options", [{}, {"updates_only": True}, {"include_history": True}])
@pytest.mark.parametrize("filled", [False, True])
async def test_a_deleted_consumer(own: JetStreamContext, options: dict[str, Any], filled: bool) -> None:
    """The watch yields values that were put while its consumer was missing, even if it had yielded none before."""
    kv = await own.create_key_value(bucket="B", history=5)
    await kv.put("other.a", b"before")
    if filled:
        await kv.put("k.a", b"0")
    watcher = await kv.watch("k.*", **options)
    seen = []
    while (entry := await watcher.updates()) is not None:
        seen.append(entry.value)
    assert seen == ([b"0"] if filled and "updates_only" not in options else [])
    for _ in range(2):
        # A busy machine may have missed heartbeats, and made a second one.
        for consumer in [name async for name in own.stream("KV_B").consumer_names()]:
            with suppress(js_errors.NotFoundError):
                await own.delete_consumer("KV_B", consumer)
        # Both changes of one key are delivered, not only the last.
        await kv.put("k.a", b"1")
        await kv.put("k.a", b"2")
        assert [(await watcher.updates(10)).value for _ in range(2)] == [b"1", b"2"]
    await watcher.stop()


async def test_a_bucket_that_is_deleted_ends_it_in_an_error(own: JetStreamContext) -> None:
    kv = await own.create_key_value(bucket="B")
    watcher = await kv.watchall()
    assert await watcher.updates() is None
    await own.delete_key_value("B")
    with pytest.raises(js_errors.BucketNotFoundError, match="deleted"):
        async for _ in watcher:
            pass


async def test_a_bucket_that_is_made_again_ends_it_in_an_error(own: JetStreamContext) -> None:
    """The new bucket's revisions start at 1; a watch that waits for the old bucket's next revision would hang."""
    kv = await own.create_key_value(bucket="B")
    await kv.put("a", b"1")
    watcher = await kv.watchall()
    assert [await watcher.updates(), await watcher.updates()][1] is None
    await own.delete_key_value("B")
    await own.create_key_value(bucket="B")
    with pytest.raises(js_errors.StreamRecreatedError):
        await watcher.updates(10)


@pytest.mark.slow
async def test_a_lost_leader() -> None:
    """A bucket with three replicas: the leaders of the stream and of the watch's consumer are killed."""
    with cluster() as servers:
        urls = [server.url for server in servers.values()]
        options: dict[str, Any] = {"ping_interval": 1, "max_reconnect_attempts": -1, "reconnect_time_wait": 0.05}
        async with await jetarrow.connect(urls, **options) as nc:
            js = nc.jetstream(timeout=1)
            made: list[KeyValue] = []

            async def ready() -> bool:
                try:
                    made.append(await js.create_key_value(bucket="B", history=64, replicas=3))
                except errors.Error:  # the cluster has not elected a leader yet
                    return False
                return True

            await until(ready, 60)
            kv = made[0]
            follower, writer = Follower(await kv.watchall()), Writer(kv, 100)
            tasks = [asyncio.ensure_future(follower.run()), asyncio.ensure_future(writer.run())]

            async def leaders() -> list[str | None]:
                try:
                    info = await js.stream_info("KV_B")
                    consumers = [consumer async for consumer in js.stream("KV_B").consumers()]
                except errors.Error:
                    return []
                return [found.cluster.leader if found.cluster else None for found in [info, *consumers[:1]]]

            for which in (0, 1):
                await until(lambda at=writer.count + 50: writer.count > at, 60)  # type: ignore[misc]
                found: list[str | None] = []

                async def known(into: list[str | None] = found) -> bool:
                    into[:] = await leaders()
                    return len(into) == 2 and all(into)

                await until(known, 60)
                server = servers[str(found[which])]
                await asyncio.to_thread(server.kill)
                await until(lambda at=writer.count + 50: writer.count > at, 60)  # type: ignore[misc]
                await asyncio.to_thread(server.start)

                async def current() -> bool:
                    try:
                        there = (await js.stream_info("KV_B")).cluster
                    except errors.Error:
                        return False
                    return there is not None and all(peer.current for peer in there.replicas or [])

                await until(current, 60)
            writer.enough.set()
            await tasks[1]
            last = await wait_for_last(kv, follower)
            stored = await every_revision(kv, 1, last)
            assert follower.revisions == stored
            assert follower.nones == 1
            await follower.watcher.stop()
            await tasks[0]
