"""Watching a bucket."""

from __future__ import annotations

import asyncio

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.errors import BadSubscriptionError, TimeoutError
from jetarrow.js.client import JetStreamContext
from jetarrow.js.object_store import ObjectStore, ObjectWatcher
from jetarrow.server import NatsServer

from tests.tools import PATIENCE, until


async def seen(watcher: ObjectWatcher, count: int, patience: float = PATIENCE) -> list[str | None]:
    """The names of the next entries, with `-` before those that were deleted; None as it is."""
    infos = [await watcher.updates(patience) for _ in range(count)]
    return [info and ("-" if info.deleted else "") + info.name for info in infos]


async def test_watch(store: ObjectStore) -> None:
    await store.put("a", b"1")
    await store.put("b", b"2")
    async with await store.watch() as watcher:
        assert await seen(watcher, 3) == ["a", "b", None]
        await store.put("a", b"3")
        await store.delete("b")
        assert await seen(watcher, 2) == ["a", "-b"]
        with pytest.raises(TimeoutError):
            await watcher.updates(timeout=0.05)


async def test_an_empty_bucket(store: ObjectStore) -> None:
    watcher = await store.watch()
    assert await watcher.updates() is None
    await store.put("a", b"1")
    assert await seen(watcher, 1) == ["a"]
    await watcher.stop()
    await watcher.stop()


async def test_ignore_deletes(store: ObjectStore) -> None:
    await store.put("a", b"1")
    await store.delete("a")
    async with await store.watch(ignore_deletes=True) as watcher:
        assert await seen(watcher, 1) == [None], "also where the last one was left out"
        await store.put("b", b"1")
        await store.delete("b")
        await store.put("c", b"1")
        assert await seen(watcher, 2) == ["b", "c"]


async def test_updates_only(store: ObjectStore) -> None:
    await store.put("a", b"1")
    async with await store.watch(updates_only=True) as watcher:
        await store.put("b", b"1")
        assert await seen(watcher, 1) == ["b"]


async def test_include_history(store: ObjectStore) -> None:
    await store.put("a", b"1")
    await store.put("a", b"2")
    async with await store.watch(include_history=True, meta_only=True) as watcher:
        # Clients replace the earlier metadata.
        assert await seen(watcher, 2) == ["a", None]


async def test_iteration_ends_with_stop(store: ObjectStore) -> None:
    await store.put("a", b"1")
    watcher = await store.watch()
    found: list[str | None] = []

    async def watch() -> None:
        async for info in watcher:
            found.append(info and info.name)  # noqa: PERF401  # looked at meanwhile

    task = asyncio.create_task(watch())
    await until(lambda: len(found) == 2)
    await watcher.stop()
    await asyncio.wait_for(task, PATIENCE)
    assert found == ["a", None]
    with pytest.raises(TimeoutError):
        await watcher.updates(0.05)
    with pytest.raises(BadSubscriptionError):
        await watcher.updates(None)


async def test_stop_deletes_the_consumer(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    """At once: the server itself would take some seconds."""
    for updates_only in (False, True):
        watcher = await store.watch(updates_only=updates_only)
        assert (await js.stream_info(f"OBJ_{bucket}")).state.consumer_count == 1
        await watcher.stop()
        assert (await js.stream_info(f"OBJ_{bucket}")).state.consumer_count == 0
        await watcher.stop()


async def test_stop_without_a_server_returns(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.05, max_reconnect_attempts=-1) as nc:
        store = await nc.jetstream().create_object_store("b")
        watcher = await store.watch()
        own_server.kill()
        await asyncio.wait_for(watcher.stop(), 10)
        own_server.restart()


def test_blocking_stop_deletes_the_consumer(sync_js: jetarrow.sync.JetStream, bucket: str) -> None:
    store = sync_js.create_object_store(bucket)
    with store.watch() as watcher:
        assert watcher.updates() is None
    assert sync_js.stream_info(f"OBJ_{bucket}").state.consumer_count == 0
    sync_js.delete_object_store(bucket)


@pytest.mark.parametrize("updates_only", [False, True])
async def test_a_watch_survives_a_restart(own_server: NatsServer, updates_only: bool) -> None:
    """A watch has no gap and repeats nothing after a restart, even if it had yielded nothing before."""
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.05, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        store = await js.create_object_store("b")
        async with await store.watch(updates_only=updates_only) as watcher:
            if not updates_only:
                await store.put("before", b"1")
                assert await seen(watcher, 2) in (["before", None], [None, "before"])
            own_server.kill()
            own_server.restart()
            async with await jetarrow.connect(own_server.url) as other:
                there = await other.jetstream().object_store("b")
                for number in range(20):
                    await there.put(f"{number}", b"x")
            assert await seen(watcher, 20, 30) == [f"{number}" for number in range(20)]
            with pytest.raises(TimeoutError):
                await watcher.updates(0.2)


async def test_a_deleted_bucket_ends_it(own: JetStreamContext) -> None:
    store = await own.create_object_store("b")
    watcher = await store.watch()
    assert await watcher.updates() is None
    await own.delete_object_store("b")

    async def drained() -> list[object]:
        return [info async for info in watcher]

    assert await asyncio.wait_for(drained(), 30) == []
