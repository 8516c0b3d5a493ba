"""The end of a watch after `stop()`."""

from __future__ import annotations

import asyncio
from typing import Any

from ..tools import until
from .face import Face, subject


async def test_updates_of_a_stopped_watch_of_keys(face: Face, js: Any) -> None:
    """`updates()` returns the received entries, then the end marker once, then nothing."""
    kv = await js.create_key_value(bucket=(bucket := subject()))
    watcher = await kv.watchall()
    assert await watcher.updates() is None
    await kv.put("a", b"1")
    assert (await watcher.updates()).key == "a"
    await watcher.stop()
    assert await watcher.updates() is kv.KeyWatcher.STOP_ITER
    assert isinstance(kv.KeyWatcher.STOP_ITER, face.load("js.kv").StopIterSentinel)
    assert await face.nothing_comes(watcher.updates(timeout=0.05))
    await js.delete_key_value(bucket)


async def test_iteration_yields_entries_received_before_stop(js: Any, nc: Any) -> None:
    kv = await js.create_key_value(bucket=(bucket := subject()))
    watcher = await kv.watchall()
    assert await watcher.updates() is None
    for number in range(3):
        await kv.put(f"k{number}", b"")
    await until(lambda: watcher._sub.delivered >= 3)
    await asyncio.sleep(0)
    await watcher.stop()
    assert [entry.key async for entry in watcher] == ["k0", "k1", "k2"]
    await js.delete_key_value(bucket)


async def test_stop_ends_a_pending_updates_call(js: Any) -> None:
    kv = await js.create_key_value(bucket=(bucket := subject()))
    watcher = await kv.watchall()
    assert await watcher.updates() is None
    waiting = asyncio.create_task(watcher.updates(timeout=30))
    await asyncio.sleep(0)
    await watcher.stop()
    assert await asyncio.wait_for(waiting, 10) is kv.KeyWatcher.STOP_ITER
    await js.delete_key_value(bucket)


async def test_updates_of_a_stopped_watch_of_objects(face: Face, js: Any) -> None:
    """`updates()` returns neither an entry nor an end marker."""
    store = await js.create_object_store(bucket := subject())
    watcher = await store.watch()
    assert await watcher.updates() is None
    await watcher.stop()
    assert await face.nothing_comes(watcher.updates(timeout=0.05))
    await js.delete_object_store(bucket)
