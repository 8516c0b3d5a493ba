"""jetarrow, nats-py and the `nats` command (Go) read each other's objects."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import nats
import nats.js.api
import nats.js.errors
import nats.js.object_store
import pytest
from jetarrow.js.api import ObjectMeta, ObjectMetaOptions
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import ObjectNotFoundError
from jetarrow.js.object_store import ObjectStore

from .tools import LARGE, stored

# nats-py's `get` takes time that grows with the square of the size.
MIDDLE = LARGE[:600_000]
Tool = Callable[..., str]


@pytest.fixture
async def theirs(nats_url: str, store: ObjectStore, bucket: str) -> AsyncIterator[nats.js.object_store.ObjectStore]:
    """nats-py's handle of the same bucket."""
    nc = await nats.connect(nats_url)
    yield await nc.jetstream().object_store(bucket)
    await nc.close()


@pytest.fixture
def tool(nats_url: str, nats_tool: str) -> Tool:
    """Runs `nats object ...`; what it prints."""

    def run(*arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
        # On a busy machine the tool's 5 s are not enough.
        command = [nats_tool, "--server", nats_url, "--no-context", "--timeout", "60s", "object", *arguments]
        for _ in range(5):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
            # nats.go 1.43 cancels a read of an object once its subscription has ended, before the last bytes are read.
            if "context canceled" not in done.stderr:
                break
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


async def ran(tool: Tool, *arguments: str) -> str:
    return await asyncio.to_thread(tool, *arguments)


async def test_nats_py_reads(store: ObjectStore, theirs: Any) -> None:
    ours = await store.put(
        "näme",
        MIDDLE,
        ObjectMeta(description="d", headers={"A": "1"}, options=ObjectMetaOptions(max_chunk_size=50_000)),
    )
    result = await theirs.get("näme")
    assert result.data == MIDDLE
    assert (result.info.size, result.info.chunks, result.info.digest) == (ours.size, ours.chunks, ours.digest)
    assert (result.info.description, result.info.headers, result.info.options.max_chunk_size) == (
        "d",
        {"A": ["1"]},
        50_000,
    )
    await store.add_link("link", ours)
    assert (await theirs.get("link")).data == MIDDLE
    await store.add_bucket_link("bucket", store)
    with pytest.raises(nats.js.errors.LinkIsABucketError):
        await theirs.get("bucket")
    await store.update_meta("näme", ObjectMeta(name="new"))
    assert (await theirs.get("new")).data == MIDDLE
    await store.delete("new")
    with pytest.raises(nats.js.errors.ObjectNotFoundError):
        await theirs.get_info("new")
    assert {(info.name, info.deleted) for info in await theirs.list()} == {
        ("new", True),
        ("link", False),
        ("bucket", False),
    }
    assert (await store.put("empty", b"")).size == 0
    assert (await theirs.get("empty")).data == b""


async def test_nats_py_writes(js: JetStreamContext, store: ObjectStore, theirs: Any, bucket: str) -> None:
    meta = nats.js.api.ObjectMeta(description="d", headers={"A": "1"})
    await theirs.put("a", MIDDLE, meta)
    result = await store.get("a")
    assert (result.data, result.info.description, result.info.headers) == (MIDDLE, "d", {"A": "1"})
    async with await store.watch() as watcher:
        assert await watcher.updates() == result.info
        assert await watcher.updates() is None
        # Ours in the place of theirs, theirs in the place of ours: no chunk stays.
        ours = await store.put("a", LARGE)
        assert await stored(js, bucket) == {"meta": 1, ours.nuid: ours.chunks}
        await theirs.put("a", b"x")
        assert len(await stored(js, bucket)) == 2
        assert (await store.get("a")).data == b"x"
        await theirs.delete("a")
        assert [info and info.deleted for info in [await watcher.updates() for _ in range(3)]] == [False, False, True]
    with pytest.raises(ObjectNotFoundError):
        await store.get("a")
    await store.put("a", b"again")
    assert (await store.get("a")).data == b"again"
    await theirs.put("empty", io.BytesIO())
    assert (await store.get("empty")).data == b""


async def test_a_bucket_of_nats_py(js: JetStreamContext, nats_url: str, bucket: str) -> None:
    """With the same configuration, so that either makes it where the other has."""
    nc = await nats.connect(nats_url)
    theirs = await nc.jetstream().create_object_store(bucket, description="d", max_bytes=50_000_000)
    store = await js.create_object_store(bucket, description="d", max_bytes=50_000_000)
    await store.put("a", MIDDLE)
    assert (await theirs.get("a")).data == MIDDLE
    status = await theirs.status()
    assert (status.description, status.sealed) == ("d", False)
    await store.seal()
    assert (await theirs.status()).sealed
    await js.delete_object_store(bucket)
    await nc.close()


async def test_the_command_reads(store: ObjectStore, bucket: str, tool: Tool, tmp_path: Path) -> None:
    info = await store.put("some näme", LARGE, ObjectMeta(description="the text", headers={"A": ["1", "2"]}))
    out = tmp_path / "out"
    await ran(tool, "get", bucket, "some näme", "-f", "-O", str(out), "--no-progress")
    assert out.read_bytes() == LARGE
    told = await ran(tool, "info", bucket, "some näme")
    assert "the text" in told
    assert str(info.chunks) in told
    assert info.mtime
    assert info.mtime[:10] in told, "its time"
    await store.add_link("link", info)
    await ran(tool, "get", bucket, "link", "-f", "-O", str(out), "--no-progress")
    assert out.read_bytes() == LARGE
    await store.put("gone", b"1")
    await store.delete("gone")
    await store.update_meta("some näme", ObjectMeta(name="renamed", metadata={"k": "v"}))
    told = await ran(tool, "ls", bucket)
    assert "renamed" in told
    assert "gone" not in told
    assert bucket in await ran(tool, "ls")


async def test_the_command_writes(
    js: JetStreamContext, store: ObjectStore, bucket: str, tool: Tool, tmp_path: Path
) -> None:
    (tmp_path / "in").write_bytes(LARGE)
    put = ("put", bucket, str(tmp_path / "in"), "-f", "--no-progress", "--name")
    await ran(tool, *put, "some näme", "--description", "d", "-H", "A:1")
    result = await store.get("some näme")
    assert result.data == LARGE
    assert (result.info.description, result.info.headers) == ("d", {"A": ["1"]})
    assert (result.info.deleted, result.info.size) in ((False, len(LARGE)), (None, len(LARGE)))
    assert await store.list() == [result.info]
    async with await store.watch() as watcher:
        assert await watcher.updates() == result.info
    await ran(tool, "del", bucket, "some näme", "-f")
    with pytest.raises(ObjectNotFoundError):
        await store.get("some näme")
    assert (await store.get_info("some näme", show_deleted=True)).deleted
    # Ours again, and theirs over it.
    await store.put("some näme", b"1")
    await ran(tool, *put, "some näme")
    assert (await store.get("some näme")).data == LARGE
    assert len(await stored(js, bucket)) == 2


async def test_a_bucket_of_the_command(js: JetStreamContext, bucket: str, tool: Tool) -> None:
    await ran(tool, "add", bucket, "--description", "d", "--ttl", "1h", "--compress")
    store = await js.object_store(bucket)
    status = await store.status()
    assert (status.description, status.ttl, status.compression) == ("d", 3600, True)
    await store.put("a", LARGE)
    assert (await store.get("a")).data == LARGE
    await ran(tool, "seal", bucket, "-f")
    assert (await store.status()).sealed
    await js.delete_object_store(bucket)
