"""The same verbs over links with a round trip of 0, 10, 20 and 50 ms: what is left of the rate of a short one."""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from harness import Group, Run, payload_list
from slow_link import slow_link

NATIVE = "jetarrow._jetarrow"
TRIPS = {"no delay": 0.0, "10 ms": 0.01, "20 ms": 0.02, "50 ms": 0.05}
COUNT = 300_000
KEYS = 20_000
# An object of 64 MiB counts by its chunks.
CHUNK, CHUNKS = 128 * 1024, 512

Verb = Callable[[Run, Any], Awaitable[int]]
GROUPS: list[Group] = []


def over_links(
    name: str, kind: Any, *, count: int = COUNT, size: int = 128, config: dict[str, Any] | None = None
) -> Callable[[Verb], Verb]:
    """Makes the verb a group with a row for each round trip."""
    group = Group(f"{name}, long links", kind, "no delay", size=size, count=count, config=config or {})
    GROUPS.append(group)

    def register(verb: Verb) -> Verb:
        for row, seconds in TRIPS.items():
            group.row(row, needs=NATIVE)(away(verb, seconds))
        return verb

    return register


def away(verb: Verb, seconds: float) -> Callable[[Run], Awaitable[int]]:
    async def row(run: Run) -> int:
        import jetarrow

        with slow_link(run.url, seconds) as url:
            async with await jetarrow.connect(url) as nc:
                return await verb(run, nc.jetstream())

    return row


@over_links("publish_batch", "publish")
async def publish_batch(run: Run, js: Any) -> int:
    payloads = run.payloads
    with run.clock():
        result = await js.publish_batch(run.subject, payloads)
    return int(result.stored)


@over_links("publish_batch mode=fast", "publish", config={"allow_batched": True})
async def publish_fast(run: Run, js: Any) -> int:
    payloads = run.payloads
    with run.clock():
        result = await js.publish_batch(run.subject, payloads, mode="fast")
    return int(result.stored)


@over_links("publisher", "publish")
async def publisher(run: Run, js: Any) -> int:
    payloads = run.payloads
    with run.clock():
        async with js.publisher(run.subject) as each:
            for payload in payloads:
                await each.publish(payload)
    return int(each.stats.stored)


@over_links("js.read", "read")
async def read(run: Run, js: Any) -> int:
    with run.clock():
        table = await js.read(run.stream).read_all()
    return int(table.num_rows)


async def pulled(run: Run, js: Any) -> Any:
    from jetarrow.js.api import ConsumerConfig

    config = ConsumerConfig(ack_policy="none")
    return await js.pull_subscribe(run.subject, stream=run.stream, config=config)


@over_links("fetch_batch(10_000)", "read")
async def fetch_batch(run: Run, js: Any) -> int:
    sub, came = await pulled(run, js), 0
    with run.clock():
        while came < run.count:
            came += len(await sub.fetch_batch(10_000))
    return came


@over_links("async for over messages", "read")
async def messages(run: Run, js: Any) -> int:
    sub, came = await pulled(run, js), 0
    with run.clock():
        async for _ in sub.messages:
            came += 1
            if came == run.count:
                break
    return came


@over_links("ordered push", "read")
async def ordered(run: Run, js: Any) -> int:
    came = 0
    with run.clock():
        sub = await js.subscribe(run.subject, stream=run.stream, ordered_consumer=True)
        async for _ in sub.messages:
            came += 1
            if came == run.count:
                break
    await sub.unsubscribe()
    return came


@over_links("key-value watch", "core", count=KEYS)
async def watch(run: Run, js: Any) -> int:
    bucket, came = f"L{uuid.uuid4().hex[:8]}", 0
    kv = await js.create_key_value(bucket=bucket)
    (await kv.put_batch([f"key.{number}" for number in range(run.count)], run.payloads)).raise_for_errors()
    with run.clock():
        watcher = await kv.watchall()
        async for entry in watcher:
            if entry is None:
                break
            came += 1
    await watcher.stop()
    await js.delete_key_value(bucket)
    return came


async def with_object(run: Run, js: Any, measure_put: bool) -> int:
    bucket = f"L{uuid.uuid4().hex[:8]}"
    store = await js.create_object_store(bucket)
    data = bytes(run.count * CHUNK)
    if measure_put:
        with run.clock():
            await store.put("big", data)
    else:
        await store.put("big", data)
        with run.clock():
            await store.get("big")
    count = (await store.get_info("big")).chunks
    await js.delete_object_store(bucket)
    return int(count)


@over_links("object put", "core", count=CHUNKS)
async def object_put(run: Run, js: Any) -> int:
    return await with_object(run, js, measure_put=True)


@over_links("object get", "core", count=CHUNKS)
async def object_get(run: Run, js: Any) -> int:
    return await with_object(run, js, measure_put=False)


# A link of 20 Mbit/s, and what small publishes wait for on it, one after another, while something fills it.
RATE, TRIP, SMALL, BULK = 2_500_000, 0.02, 25, 20_000
SLOW = Group("one small publish after another, 20 Mbit/s, 20 ms", "core", "alone", count=SMALL, rounds=1)
GROUPS.append(SLOW)


async def publish_all(js: Any, subject: str, max_inflight: int | None = None) -> None:
    (await js.publish_batch(subject, payload_list(BULK, 128), max_inflight=max_inflight)).raise_for_errors()


async def publish_each(js: Any, subject: str) -> None:
    async with js.publisher(subject) as each:
        for payload in payload_list(BULK, 128):
            await each.publish(payload)


async def read_all(js: Any, subject: str) -> None:
    await js.read(subject.partition(".")[0]).read_all()


Beside = Callable[[Any, str], Awaitable[None]]
BESIDE: dict[str, Beside | None] = {
    "alone": None,
    "beside publish_batch": publish_all,
    "beside publish_batch, max_inflight=5,000": partial(publish_all, max_inflight=5_000),
    "beside publisher": publish_each,
    "beside js.read": read_all,
}


def small(beside: Beside | None) -> Callable[[Run], Awaitable[int]]:
    async def row(run: Run) -> int:
        import jetarrow

        name = f"L{uuid.uuid4().hex[:8]}"
        with slow_link(run.url, TRIP, RATE) as url:
            async with await jetarrow.connect(run.url) as near, await jetarrow.connect(url) as nc:
                direct, js = near.jetstream(), nc.jetstream()
                await direct.add_stream(name=name, subjects=[f"{name}.>"])
                await publish_all(direct, f"{name}.bulk")
                # A context of its own, as another part of the program has it.
                bulk = asyncio.ensure_future(repeat(nc.jetstream(), f"{name}.bulk", beside))
                took = []
                for _ in range(run.count):
                    await asyncio.sleep(TRIP)
                    with run.clock():
                        begin = time.perf_counter()
                        await js.publish(f"{name}.small", b"small", timeout=60)
                    took.append((time.perf_counter() - begin) / TRIP)
                bulk.cancel()
                with suppress(asyncio.CancelledError):
                    await bulk
                await direct.delete_stream(name)
        took.sort()
        run.notes.update({"round trips": statistics.median(took), "longest": took[-1]})
        return run.count

    return row


async def repeat(js: Any, subject: str, work: Beside | None) -> None:
    while work is not None:
        await work(js, subject)


for _name, _beside in BESIDE.items():
    SLOW.row(_name, needs=NATIVE)(small(_beside))


@over_links("publish_batch, max_inflight=5,000", "publish")
async def publish_batch_fixed(run: Run, js: Any) -> int:
    payloads = run.payloads
    with run.clock():
        result = await js.publish_batch(run.subject, payloads, max_inflight=5_000)
    return int(result.stored)


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in GROUPS for name in group.rows])
def test_long_links(group: Group, name: str, record: Callable[[Group, str], None]) -> None:
    record(group, name)
