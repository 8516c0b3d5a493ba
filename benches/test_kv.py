"""Key-value buckets: 128 B values of 100,000 keys. The same code for jetarrow and nats-py where both have the verb."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import nats
import pytest
import wire
from harness import Group, Run
from peers import TASKS

NATIVE = "jetarrow._jetarrow"
KEYS = 100_000
# Another client's words for what a group compares with.
PUT = Group("key-value put, one after another, 128 B", "core", peer="nats-py put", count=5_000)
PUT_TASKS = Group("key-value put, 100 tasks, 128 B", "core", peer="nats-py put, 100 tasks", count=60_000)
GET = Group("key-value get, one after another, 128 B", "core", peer="nats-py get", count=5_000)
GET_TASKS = Group("key-value get, 100 tasks, 128 B", "core", peer="nats-py get, 100 tasks", count=60_000)
BATCH = Group("key-value put_batch, 128 B", "core", peer="jetarrow publish_batch", count=KEYS)
TABLE = Group("key-value, all values, 128 B", "core", peer="nats-py keys() and get()", count=KEYS)
MILLION = Group("key-value, all values of 1,000,000 keys, 128 B", "core", peer="nats-py watchall", count=1_000_000)
WATCH = Group("key-value watch, 128 B", "core", peer="nats-py watchall", count=KEYS)

Connect = Callable[[str], Awaitable[Any]]
Scenario = Callable[[Run, Any, Any], Awaitable[int]]


def names(count: int) -> list[str]:
    return [f"key.{number:06d}" for number in range(count)]


@asynccontextmanager
async def opened(run: Run, connect: Connect, filled: bool) -> AsyncIterator[tuple[Any, Any]]:
    """A context and a bucket, with a value for every key or with none; deleted afterwards."""
    import jetarrow

    name = f"B{uuid.uuid4().hex[:8]}"
    async with await jetarrow.connect(run.url) as filler:
        made = await filler.jetstream().create_key_value(bucket=name)
        if filled:
            (await made.put_batch(names(run.count), run.payloads)).raise_for_errors()
        nc = await connect(run.url)
        js = nc.jetstream()
        try:
            yield js, await js.key_value(name)
            if (await made.status()).values != run.count:
                raise wire.WireError(f"{run.count} keys were to be there")
        finally:
            await nc.close()
            await filler.jetstream().delete_key_value(name)


async def ours(url: str) -> Any:
    import jetarrow

    return await jetarrow.connect(url)


def row(
    group: Group, name: str, scenario: Scenario, connect: Connect, *, filled: bool, count: int | None = None
) -> None:
    async def function(run: Run) -> int:
        async with opened(run, connect, filled) as (js, kv):
            return await scenario(run, js, kv)

    group.row(name, count=count, needs=NATIVE)(function)


async def put(run: Run, _js: Any, kv: Any) -> int:
    pairs = list(zip(names(run.count), run.payloads, strict=True))
    with run.clock():
        for key, value in pairs:
            await kv.put(key, value)
    return run.count


async def put_tasks(run: Run, _js: Any, kv: Any) -> int:
    pairs = list(zip(names(run.count), run.payloads, strict=True))

    async def task(mine: list[tuple[str, bytes]]) -> None:
        for key, value in mine:
            await kv.put(key, value)

    with run.clock():
        await asyncio.gather(*[task(pairs[at::TASKS]) for at in range(TASKS)])
    return run.count


async def get_each(kv: Any, keys: list[str]) -> int:
    size = 0
    for key in keys:
        size += len((await kv.get(key)).value)
    return size


async def get(run: Run, _js: Any, kv: Any) -> int:
    keys = names(run.count)
    with run.clock():
        size = await get_each(kv, keys)
    run.check_bytes(size)
    return run.count


async def get_tasks(run: Run, _js: Any, kv: Any) -> int:
    keys = names(run.count)
    with run.clock():
        sizes = await asyncio.gather(*[get_each(kv, keys[at::TASKS]) for at in range(TASKS)])
    run.check_bytes(sum(sizes))
    return run.count


async def put_batch(run: Run, _js: Any, kv: Any) -> int:
    keys, values = names(run.count), run.payloads
    with run.clock():
        result = await kv.put_batch(keys, values)
    return int(result.stored)


async def publish_batch(run: Run, js: Any, kv: Any) -> int:
    subjects, values = [kv._pre + key for key in names(run.count)], run.payloads
    with run.clock():
        result = await js.publish_batch(subjects, values)
    return int(result.stored)


async def to_table(run: Run, _js: Any, kv: Any) -> int:
    with run.clock():
        table = await kv.to_table()
    import pyarrow.compute

    run.check_bytes(pyarrow.compute.sum(pyarrow.compute.binary_length(table["value"])).as_py())
    return int(table.num_rows)


async def keys_and_gets(run: Run, _js: Any, kv: Any) -> int:
    with run.clock():
        size = await get_each(kv, keys := await kv.keys())
    run.check_bytes(size)
    return len(keys)


async def watchall(run: Run, _js: Any, kv: Any) -> int:
    size = read = 0
    with run.clock():
        watcher = await kv.watchall()
        async for entry in watcher:
            if entry is None:
                break
            size += len(entry.value)
            read += 1
    await watcher.stop()
    run.check_bytes(size)
    return read


row(PUT, "jetarrow put", put, ours, filled=False)
row(PUT, "nats-py put", put, nats.connect, filled=False)
row(PUT_TASKS, "jetarrow put, 100 tasks", put_tasks, ours, filled=False)
row(PUT_TASKS, "nats-py put, 100 tasks", put_tasks, nats.connect, filled=False, count=20_000)
row(GET, "jetarrow get", get, ours, filled=True)
row(GET, "nats-py get", get, nats.connect, filled=True)
row(GET_TASKS, "jetarrow get, 100 tasks", get_tasks, ours, filled=True)
row(GET_TASKS, "nats-py get, 100 tasks", get_tasks, nats.connect, filled=True, count=20_000)
row(BATCH, "jetarrow put_batch", put_batch, ours, filled=False)
row(BATCH, "jetarrow publish_batch", publish_batch, ours, filled=False)
row(TABLE, "jetarrow to_table", to_table, ours, filled=True)
row(TABLE, "nats-py keys() and get()", keys_and_gets, nats.connect, filled=True, count=10_000)
row(MILLION, "jetarrow to_table", to_table, ours, filled=True)
row(MILLION, "jetarrow watchall", watchall, ours, filled=True)
# Its watch drops messages of a larger bucket: it buffers at most 524,288.
row(MILLION, "nats-py watchall", watchall, nats.connect, filled=True, count=250_000)
row(WATCH, "jetarrow watchall", watchall, ours, filled=True)
row(WATCH, "nats-py watchall", watchall, nats.connect, filled=True)


@pytest.mark.parametrize("name", PUT.rows)
def test_kv_put(name: str, record: Callable[[Group, str], None]) -> None:
    record(PUT, name)


@pytest.mark.parametrize("name", PUT_TASKS.rows)
def test_kv_put_tasks(name: str, record: Callable[[Group, str], None]) -> None:
    record(PUT_TASKS, name)


@pytest.mark.parametrize("name", GET.rows)
def test_kv_get(name: str, record: Callable[[Group, str], None]) -> None:
    record(GET, name)


@pytest.mark.parametrize("name", GET_TASKS.rows)
def test_kv_get_tasks(name: str, record: Callable[[Group, str], None]) -> None:
    record(GET_TASKS, name)


@pytest.mark.parametrize("name", BATCH.rows)
def test_kv_put_batch(name: str, record: Callable[[Group, str], None]) -> None:
    record(BATCH, name)


@pytest.mark.parametrize("name", TABLE.rows)
def test_kv_table(name: str, record: Callable[[Group, str], None]) -> None:
    record(TABLE, name)


@pytest.mark.parametrize("name", MILLION.rows)
def test_kv_million(name: str, record: Callable[[Group, str], None]) -> None:
    record(MILLION, name)


@pytest.mark.parametrize("name", WATCH.rows)
def test_kv_watch(name: str, record: Callable[[Group, str], None]) -> None:
    record(WATCH, name)
