"""How a watch ends that was stopped."""

from __future__ import annotations

import asyncio
from typing import Any

from ..tools import until
from .face import Face, subject


async def test_updates_of_a_stopped_watch_of_keys(face: Face, js: Any) -> None:
    """What had come is handed out, then a mark for the end, once; then nothing comes any more."""
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


async def test_what_had_come_before_stop(js: Any, nc: Any) -> None:
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


async def test_who_waits_for_a_stopped_watch(js: Any) -> None:
    kv = await js.create_key_value(bucket=(bucket := subject()))
    watcher = await kv.watchall()
    assert await watcher.updates() is None
    waiting = asyncio.create_task(watcher.updates(timeout=30))
    await asyncio.sleep(0)
    await watcher.stop()
    assert await asyncio.wait_for(waiting, 10) is kv.KeyWatcher.STOP_ITER
    await js.delete_key_value(bucket)


async def test_updates_of_a_stopped_watch_of_objects(face: Face, js: Any) -> None:
    """Nothing comes, and nothing says so."""
    store = await js.create_object_store(bucket := subject())
    watcher = await store.watch()
    assert await watcher.updates() is None
    await watcher.stop()
    assert await face.nothing_comes(watcher.updates(timeout=0.05))
    await js.delete_object_store(bucket)
