"""The end of watches and lists, and their consumers."""

from __future__ import annotations

import asyncio
from typing import Any

from ..case import Calls, Case, until
from .key_value_watches import _bucket, _filled, _take


async def _consumers(case: Case, bucket: Any) -> int:
    return int((await bucket.status()).stream_info.state.consumer_count)


async def stop_ends_a_waiting_iteration(case: Case) -> None:
    bucket = await _bucket(case)
    watcher = await bucket.watch()
    seen: list[Any] = []

    async def iterate() -> None:
        async for entry in watcher:
            seen.append(entry.key)  # noqa: PERF401 - the entries are seen one by one

    task = asyncio.create_task(iterate())
    await bucket.put("a", b"1")
    await until(lambda: seen)
    await watcher.stop()
    await case.call("iteration", task)
    await bucket.put("b", b"1")
    case.note("seen", seen)
    await case.call("next", anext(watcher))
    case.note("updates", [entry async for entry in watcher.updates()])


async def values_of_a_stopped_watch(case: Case) -> None:
    bucket = await _filled(case)
    watcher = await bucket.watch()
    await watcher.stop()

    async def values() -> list[Any]:
        return [entry async for entry in watcher.values()]

    await case.call("values", values())


async def consumers_of_watches(case: Case) -> None:
    bucket = await _filled(case)
    watcher = await bucket.watch()
    case.note("watching", await _consumers(case, bucket))
    await watcher.stop()
    case.note("stopped", await _consumers(case, bucket))
    async with await bucket.watch():
        case.note("in the block", await _consumers(case, bucket))
    case.note("after the block", await _consumers(case, bucket))


async def consumers_of_lists(case: Case) -> None:
    bucket = await _filled(case)
    case.note("keys", [key async for key in await bucket.keys()])
    case.note("consumers after keys", await _consumers(case, bucket))
    case.note("history", [entry.revision async for entry in await bucket.history("a")])
    case.note("consumers after history", await _consumers(case, bucket))
    await bucket.purge_deletes()
    case.note("consumers after purge_deletes", await _consumers(case, bucket))


async def watch_of_a_deleted_bucket(case: Case) -> None:
    js = await case.context()
    module = case.key_value
    bucket = await module.create_key_value(js, module.KeyValueConfig(bucket=case.name))
    await module.delete_key_value(js, case.name)
    await case.call("watch", bucket.watch())


async def watch_goes_on_after_a_restart(case: Case) -> None:
    server = case.server(jetstream=True)
    options = {"reconnect_time_wait": 0.05, "reconnect_time_wait_max": 0.1, "reconnect_max_attempts": 0}
    client, module = await case.connect(server.url, **options), case.key_value
    bucket = await module.create_key_value(case.jetstream.new(client), module.KeyValueConfig(bucket=case.name))
    watcher = await bucket.watch()
    await bucket.put("a", b"1")
    case.note("before", [entry.key for entry in await _take(watcher, 1)])
    back = Calls()
    client.add_reconnected_callback(back)
    await asyncio.to_thread(server.restart)
    await back.wait(1)
    await client.flush()

    async def stored() -> bool:
        try:
            return bool(await bucket.put("b", b"2"))
        except Exception:
            return False

    await until(stored)
    case.note("after", [entry.key for entry in await _take(watcher, 1)])
    await watcher.stop()
