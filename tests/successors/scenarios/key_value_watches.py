"""Watches with all options, their end, and their consumers."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from typing import Any

from ..case import PATIENCE, Case, until


async def _bucket(case: Case, **config: Any) -> Any:
    module = case.key_value
    return await module.create_key_value(await case.context(), module.KeyValueConfig(bucket=case.name, **config))


async def _filled(case: Case) -> Any:
    """Return a bucket with two revisions of `a`, a deleted `b`, a purged `c`, and `d.x`."""
    bucket = await _bucket(case, history=5)
    for key in ("a", "b", "c"):
        await bucket.put(key, b"1")
    await bucket.put("a", b"2")
    await bucket.delete("b")
    await bucket.purge("c")
    await bucket.put("d.x", b"3")
    return bucket


async def _take(watcher: Any, count: int) -> list[Any]:
    """Return the next entries without `delta`, which depends on the time of the pull request."""
    entries = [await asyncio.wait_for(anext(watcher), PATIENCE) for _ in range(count)]
    return [dataclasses.replace(entry, delta=-1) for entry in entries]


async def _next_key(watcher: Any) -> str:
    key: str = (await anext(watcher)).key
    return key


async def values_then_updates(case: Case) -> None:
    bucket = await _filled(case)
    async with await bucket.watch() as watcher:
        case.note("begin", watcher.at_eod())
        case.note("values", [entry async for entry in watcher.values()])
        case.note("end", watcher.at_eod())
        case.note("values again", [entry async for entry in watcher.values()])
        await bucket.put("e", b"4")
        await bucket.delete("a")
        await bucket.purge("d.x")
        case.note("updates", await _take(watcher, 3))
    await case.call("after the block", anext(watcher))


async def iteration_passes_the_end_of_the_values(case: Case) -> None:
    bucket = await _bucket(case)
    await bucket.put("a", b"1")
    await bucket.put("b", b"2")
    watcher = await bucket.watch_all()
    seen = []
    async for entry in watcher:
        seen.append((entry.key, watcher.at_eod()))
        if entry.key == "b":
            await bucket.put("c", b"3")
        if entry.key == "c":
            break
    case.note("seen", seen)
    await watcher.stop()
    await case.call("stop again", watcher.stop())


async def updates_skip_the_values(case: Case) -> None:
    bucket = await _filled(case)
    watcher = await bucket.watch()
    updates = watcher.updates()
    task = asyncio.ensure_future(anext(updates))
    await until(watcher.at_eod)
    await bucket.put("a", b"new")
    case.note("update", (await task).value)
    await watcher.stop()


async def empty_bucket(case: Case) -> None:
    bucket = await _bucket(case)
    watcher = await bucket.watch()
    case.note("at end", watcher.at_eod())
    case.note("values", [entry async for entry in watcher.values()])
    await bucket.put("a", b"1")
    case.note("update", await _take(watcher, 1))
    await watcher.stop()


async def patterns(case: Case) -> None:
    bucket = await _bucket(case)
    for key in ("a", "b.x", "b.y", "c.x.y", "c.x"):
        await bucket.put(key, key.encode())
    for pattern in (">", "*", "b.*", "c.>", "*.x", "a", "none", "a*"):
        watcher = await bucket.watch(pattern)
        case.note(f"keys of {pattern}", [entry.key async for entry in watcher.values()])
        await watcher.stop()
    for name, several in {"two": ["a", "b.*"], "one": ["c.>"], "none": []}.items():
        watcher = await bucket.watch_filtered(several)
        case.note(name, [entry.key async for entry in watcher.values()])
        await watcher.stop()


async def overlapping_patterns(case: Case) -> None:
    bucket = await _bucket(case)
    await case.call("overlap", bucket.watch_filtered(["a.*", "a.b"]))


async def include_history(case: Case) -> None:
    bucket = await _filled(case)
    async with await bucket.watch(include_history=True) as watcher:
        case.note("values", [entry async for entry in watcher.values()])
    async with await bucket.watch("a", include_history=True) as watcher:
        case.note("values of a", [entry.value async for entry in watcher.values()])
    await case.call("with updates_only", bucket.watch(include_history=True, updates_only=True))
    await case.call("all of both", bucket.watch_all(include_history=True, updates_only=True))


async def meta_only(case: Case) -> None:
    bucket = await _filled(case)
    async with await bucket.watch(meta_only=True) as watcher:
        case.note("values", [entry async for entry in watcher.values()])
        await bucket.put("a", b"value")
        case.note("update", await _take(watcher, 1))


async def updates_only(case: Case) -> None:
    bucket = await _filled(case)
    async with await bucket.watch(updates_only=True) as watcher:
        case.note("at end", watcher.at_eod())
        case.note("values", [entry async for entry in watcher.values()])
        await bucket.put("a", b"new")
        await bucket.delete("d.x")
        case.note("updates", await _take(watcher, 2))


async def resume_from_a_revision(case: Case) -> None:
    bucket = await _filled(case)
    async with await bucket.watch(resume_from_revision=4) as watcher:
        case.note("values", [entry async for entry in watcher.values()])
        await bucket.put("a", b"new")
        case.note("update", await _take(watcher, 1))
    async with await bucket.watch("a", resume_from_revision=1, meta_only=True) as watcher:
        case.note("values of a", [entry async for entry in watcher.values()])
    async with await bucket.watch(resume_from_revision=100) as watcher:
        case.note("later", watcher.at_eod())
    async with await bucket.watch(resume_from_revision=2, updates_only=True) as watcher:
        case.note("with updates_only", (watcher.at_eod(), [entry.revision for entry in await _take(watcher, 3)]))


async def ignore_deletes(case: Case) -> None:
    bucket = await _filled(case)
    async with await bucket.watch(ignore_deletes=True) as watcher:
        case.note("values", [(entry.key, entry.operation) async for entry in watcher.values()])
        case.note("at end", watcher.at_eod())
        await bucket.put("e", b"5")
        case.note("update", [entry.key for entry in await _take(watcher, 1)])


async def ignored_deletion_at_the_end_of_the_values(case: Case) -> None:
    bucket = await _bucket(case)
    await bucket.put("a", b"1")
    await bucket.delete("b")
    watcher = await bucket.watch(ignore_deletes=True)

    async def values() -> list[str]:
        return [entry.key async for entry in watcher.values()]

    await case.call("values", values())
    case.note("at end", watcher.at_eod())
    await watcher.stop()


async def ignored_deletion_among_the_updates(case: Case) -> None:
    bucket = await _bucket(case)
    await bucket.put("a", b"1")
    watcher = await bucket.watch(ignore_deletes=True)
    case.note("values", [entry.key async for entry in watcher.values()])
    task = asyncio.create_task(_next_key(watcher))
    js = await case.context()
    await bucket.delete("a")

    async def is_delivered() -> bool:
        return [info.delivered["stream_seq"] async for info in js.list_consumers(f"KV_{case.name}")] == [2]

    # As the last entry: the reference ends the iteration with it.
    await until(is_delivered)
    await bucket.put("b", b"2")
    await case.call("update", task)
    await watcher.stop()


async def two_watches(case: Case) -> None:
    bucket = await _filled(case)
    first, second = await bucket.watch("a"), await bucket.watch("d.>", updates_only=True)
    await bucket.put("d.y", b"1")
    await bucket.put("a", b"3")
    case.note("first", [entry.value for entry in await _take(first, 2)])
    case.note("second", [entry.key for entry in await _take(second, 1)])
    await first.stop()
    await bucket.put("d.z", b"1")
    case.note("second goes on", [entry.key for entry in await _take(second, 1)])
    await second.stop()


async def removal_by_age_is_watched(case: Case) -> None:
    bucket = await _bucket(case, limit_marker_ttl=timedelta(seconds=30))
    async with await bucket.watch() as watcher:
        await bucket.create("a", b"1", ttl=timedelta(seconds=1))
        case.note("entries", await _take(watcher, 2))


async def many_updates(case: Case) -> None:
    bucket = await _bucket(case)
    async with await bucket.watch() as watcher:
        for number in range(700):
            await bucket.put(f"k{number}", b"%d" % number)
        values = [int(entry.value) for entry in await _take(watcher, 700)]
        case.note("in order", values == list(range(700)))
