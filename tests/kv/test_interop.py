"""jetarrow, nats-py and the `nats` command (Go) read each other's buckets."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import nats
import nats.js.errors
import pytest
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.js.kv import KeyValue

from .tools import initial, initial_of_nats_py, of_nats_py

Tool = Callable[..., str]


@pytest.fixture
async def theirs(nats_url: str) -> AsyncIterator[Any]:
    """A JetStream context of nats-py."""
    nc = await nats.connect(nats_url)
    yield nc.jetstream()
    await nc.close()


@pytest.fixture
def tool(nats_tool: str, nats_url: str) -> Tool:
    """Runs `nats kv …`; returns its stdout, or raises an error with its stderr."""

    def run(*arguments: str) -> str:
        command = [nats_tool, "--server", nats_url, "kv", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        return done.stdout

    return run


async def test_they_read_what_we_write(kv: KeyValue, theirs: Any, bucket: str) -> None:
    await kv.put("a", b"1")
    await kv.put("a", b"2")
    await kv.put("b", b"3")
    await kv.delete("b")
    await kv.put("c", b"")
    await kv.purge("c")
    (await kv.put_batch(["d.e"], [b"4"])).raise_for_errors()
    other = await theirs.key_value(bucket)
    assert ((await other.get("a")).value, (await other.get("a", revision=1)).value) == (b"2", b"1")
    for gone in ("b", "c"):
        with pytest.raises(nats.js.errors.KeyNotFoundError):
            await other.get(gone)
    assert sorted(await of_nats_py(other.keys)) == ["a", "d.e"]
    b, c = [await of_nats_py(lambda key=key: other.history(key)) for key in "bc"]  # type: ignore[misc]
    assert [(entry.value, entry.operation) for entry in b] == [(b"3", None), (b"", "DEL")]
    assert [entry.operation for entry in c] == ["PURGE"]
    status = await other.status()
    assert (status.history, status.values) == (5, 6)


async def test_we_read_what_they_write(theirs: Any, js: JetStreamContext, bucket: str) -> None:
    other = await theirs.create_key_value(bucket=bucket, history=5)
    await other.put("a", b"1")
    await other.put("a", b"2")
    await other.put("b", b"3")
    await other.delete("b")
    await other.put("c", b"4")
    await other.purge("c")
    kv = await js.key_value(bucket)
    ours, entry = await kv.get("a"), await other.get("a")
    assert (ours.bucket, ours.key, ours.value, ours.revision) == (bucket, "a", entry.value, entry.revision)
    assert [(entry.value, entry.operation) for entry in await kv.history("b")] == [(b"3", None), (b"", "DEL")]
    assert [entry.operation for entry in await kv.history("c")] == ["PURGE"]
    assert await kv.keys() == ["a"]
    assert (await kv.to_table())["value"].to_pylist() == [b"2"]
    # Creating the bucket with the same configuration opens it.
    assert (await (await js.create_key_value(bucket=bucket, history=5)).get("a")).value == b"2"
    with pytest.raises(js_errors.BadRequestError, match="10058"):
        await js.create_key_value(bucket=bucket, history=6)


async def test_watches_see_the_same(kv: KeyValue, theirs: Any, bucket: str) -> None:
    """A watch yields the same entries as nats-py's."""
    other = await theirs.key_value(bucket)
    await kv.put("a", b"1")
    await other.put("b", b"2")
    await kv.delete("a")
    for options in ({}, {"include_history": True}, {"ignore_deletes": True}, {"meta_only": True}):
        one, two = await kv.watchall(**options), await other.watchall(**options)  # type: ignore[arg-type]
        mine = await initial(one)
        yours = await initial_of_nats_py(two, len(mine))
        for ours, entry in zip(mine, yours, strict=True):
            # nats-py computes the time as a float.
            assert abs(ours.created - entry.created) < timedelta(microseconds=2)
            ours.created = entry.created
            assert vars(ours) == vars(entry), options
        await one.stop()
        await two.stop()


async def test_the_go_tool_reads_what_we_write(kv: KeyValue, tool: Tool, bucket: str) -> None:
    await kv.put("a", b"1")
    await kv.put("a", b"2")
    await kv.put("b", b"3")
    await kv.delete("b")
    await kv.create("c.d", b"4")
    assert await asyncio.to_thread(tool, "get", bucket, "a", "--raw") == "2"
    assert await asyncio.to_thread(tool, "get", bucket, "a", "--raw", "--revision", "1") == "1"
    listed = await asyncio.to_thread(tool, "ls", bucket)
    assert listed.split() == ["a", "c.d"]
    with pytest.raises(RuntimeError, match="not found"):
        await asyncio.to_thread(tool, "get", bucket, "b", "--raw")
    history = await asyncio.to_thread(tool, "history", bucket, "b")
    assert "PUT" in history
    assert "DEL" in history
    assert bucket in await asyncio.to_thread(tool, "ls")
    info = await asyncio.to_thread(tool, "info", bucket)
    assert "History Kept: 5" in info


async def test_we_read_what_the_go_tool_writes(js: JetStreamContext, tool: Tool, bucket: str) -> None:
    await asyncio.to_thread(tool, "add", bucket, "--history", "3", "--ttl", "1h", "--description", "theirs")
    await asyncio.to_thread(tool, "put", bucket, "a", "1")
    await asyncio.to_thread(tool, "put", bucket, "a", "2")
    await asyncio.to_thread(tool, "create", bucket, "b", "3")
    await asyncio.to_thread(tool, "del", bucket, "b", "-f")
    await asyncio.to_thread(tool, "put", bucket, "c", "4")
    await asyncio.to_thread(tool, "purge", bucket, "c", "-f")
    kv = await js.key_value(bucket)
    assert ((await kv.get("a")).value, await kv.keys()) == (b"2", ["a"])
    assert [entry.operation for entry in await kv.history("b")] == [None, "DEL"]
    assert [entry.operation for entry in await kv.history("c")] == ["PURGE"]
    # The tool creates the key after its marker, and updates it at a revision of jetarrow.
    revision = await kv.create("b", b"5")
    await asyncio.to_thread(tool, "update", bucket, "b", "6", str(revision))
    with pytest.raises(js_errors.KeyWrongLastSequenceError):
        await kv.update("b", b"7", revision)
    status = await kv.status()
    assert (status.history, status.ttl) == (3, 3600)
    # The tool's bucket does not allow a TTL of single values; the other settings match the requested ones.
    same = await js.create_key_value(bucket=bucket, history=3, ttl=3600, description="theirs")
    assert (await same.get("b")).value == b"6"


async def test_a_watch_sees_the_go_tool_and_the_tool_sees_us(
    kv: KeyValue, tool: Tool, nats_tool: str, nats_url: str, bucket: str
) -> None:
    async with await kv.watchall() as watcher:
        assert await watcher.updates() is None
        await asyncio.to_thread(tool, "put", bucket, "a", "1")
        assert (await watcher.updates()).value == b"1"
        await asyncio.to_thread(tool, "del", bucket, "a", "-f")
        assert (await watcher.updates()).operation == "DEL"
    command = [nats_tool, "--server", nats_url, "kv", "watch", bucket]
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert child.stdout is not None
    try:
        lines = b""
        # The initial marker shows that the watch has started.
        while b"DEL" not in lines:
            lines += await asyncio.wait_for(child.stdout.read(1000), 10)
        await kv.put("b.c", b"ours")
        while b"b.c: ours" not in lines:
            lines += await asyncio.wait_for(child.stdout.read(1000), 10)
    finally:
        child.kill()
        await child.wait()
