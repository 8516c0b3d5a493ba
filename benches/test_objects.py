"""Objects of 256 MiB, put and got: a message here is a chunk of 128 KiB."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import natscli
import pytest
from harness import Group, Run

NATIVE = "jetarrow._jetarrow"
CHUNK = 128 * 1024
COUNT = 2_048
# nats-py puts the bytes together anew with every chunk, unless they go into a file.
FEWER = 256

TOOL = {"of nats object": "nats object put"}
PUT = Group("object put, 256 MiB", "core", peer="nats-py put", size=CHUNK, count=COUNT, beside=TOOL)
GET = Group(
    "object get, 256 MiB",
    "core",
    peer="nats-py get into a file",
    size=CHUNK,
    count=COUNT,
    beside={"of nats object": "nats object get"},
)


def data(run: Run) -> bytes:
    """As many bytes as the run's chunks hold."""
    block = bytes(range(256)) * (CHUNK // 256)
    return block * run.count


def told(run: Run) -> int:
    run.notes["MiB/s"] = run.count * run.size / run.seconds / 2**20
    return run.count


def bucket(run: Run) -> str:
    return run.subject.replace(".", "_")


@PUT.row("jetarrow put, async", needs=NATIVE)
async def put(run: Run) -> int:
    import jetarrow

    payload = data(run)
    async with await jetarrow.connect(run.url) as nc:
        js = nc.jetstream()
        store = await js.create_object_store(bucket(run))
        with run.clock():
            info = await store.put("object", payload)
        assert info.size == len(payload)
        await js.delete_object_store(bucket(run))
    return told(run)


@PUT.row("jetarrow put_file, sync", needs=NATIVE)
def put_file(run: Run) -> int:
    import jetarrow.sync

    with tempfile.NamedTemporaryFile() as file, jetarrow.sync.connect(run.url) as nc:
        file.write(data(run))
        file.flush()
        js = nc.jetstream()
        store = js.create_object_store(bucket(run))
        with run.clock():
            info = store.put_file("object", file.name)
        assert info.size == run.count * run.size
        js.delete_object_store(bucket(run))
    return told(run)


@PUT.row("nats-py put", needs="nats")
async def nats_py_put(run: Run) -> int:
    import nats

    payload = data(run)
    nc = await nats.connect(run.url)
    js = nc.jetstream()
    store = await js.create_object_store(bucket(run))
    with run.clock():
        await store.put("object", payload)
    await js.delete_object_store(bucket(run))
    await nc.close()
    return told(run)


@PUT.row("nats object put", command=natscli.COMMAND)
async def tool_put(run: Run) -> int:
    return await with_tool(run, lambda file: natscli.object_put(run, bucket(run), file))


async def stored(run: Run, get: Callable[[Any, Any], Any]) -> int:
    """Puts the object with jetarrow, and has it read by `get(context's url, bucket)`."""
    import jetarrow

    async with await jetarrow.connect(run.url) as nc:
        js = nc.jetstream()
        store = await js.create_object_store(bucket(run))
        await store.put("object", data(run))
        await get(js, store)
        await js.delete_object_store(bucket(run))
    return told(run)


async def with_tool(run: Run, do: Callable[[str], None]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "object")

        async def work(js: Any, store: Any) -> None:
            await store.get_file("object", path)
            do(path)

        return await stored(run, work)


@GET.row("jetarrow get, async", needs=NATIVE)
async def get(run: Run) -> int:
    async def work(js: Any, store: Any) -> None:
        with run.clock():
            result = await store.get("object")
        run.check_bytes(len(result.data))

    return await stored(run, work)


@GET.row("jetarrow get_file, sync", needs=NATIVE)
async def get_file(run: Run) -> int:
    import jetarrow.sync

    async def work(js: Any, store: Any) -> None:
        with tempfile.TemporaryDirectory() as folder, jetarrow.sync.connect(run.url) as nc:
            other = nc.jetstream().object_store(bucket(run))
            with run.clock():
                info = other.get_file("object", Path(folder) / "object")
            run.check_bytes(info.size)

    return await stored(run, work)


@GET.row("nats-py get into a file", needs="nats")
async def nats_py_get_into(run: Run) -> int:
    import nats

    async def work(js: Any, store: Any) -> None:
        nc = await nats.connect(run.url)
        other = await nc.jetstream().object_store(bucket(run))
        with tempfile.TemporaryFile() as file:
            with run.clock():
                await other.get("object", file)
            run.check_bytes(file.tell())
        await nc.close()

    return await stored(run, work)


@GET.row("nats-py get", needs="nats", count=FEWER)
async def nats_py_get(run: Run) -> int:
    import nats

    async def work(js: Any, store: Any) -> None:
        nc = await nats.connect(run.url)
        other = await nc.jetstream().object_store(bucket(run))
        with run.clock():
            result = await other.get("object")
        run.check_bytes(len(result.data))
        await nc.close()

    return await stored(run, work)


@GET.row("nats object get", command=natscli.COMMAND)
async def tool_get(run: Run) -> int:
    return await with_tool(run, lambda file: natscli.object_get(run, bucket(run), file))


@pytest.mark.parametrize("name", PUT.rows)
def test_object_put(name: str, record: Callable[[Group, str], None]) -> None:
    record(PUT, name)


@pytest.mark.parametrize("name", GET.rows)
def test_object_get(name: str, record: Callable[[Group, str], None]) -> None:
    record(GET, name)
