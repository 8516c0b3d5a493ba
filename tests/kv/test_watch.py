"""Watches: which entries they yield, in which order, and when they yield None."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from jetarrow import errors
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.js.kv import KeyValue

from tests.tools import until

from .tools import initial


def told(entries: list[Any]) -> list[tuple[str, bytes, str | None]]:
    return [(entry.key, entry.value, entry.operation) for entry in entries]


async def test_values_then_none_then_changes(kv: KeyValue, bucket: str) -> None:
    await kv.put("a", b"1")
    await kv.put("b", b"2")
    await kv.put("a", b"3")
    watcher = await kv.watchall()
    entries = await initial(watcher)
    assert told(entries) == [("b", b"2", None), ("a", b"3", None)]
    assert [(entry.revision, entry.delta, entry.bucket) for entry in entries] == [(2, 1, bucket), (3, 0, bucket)]
    assert entries[0].created is not None
    await kv.delete("a")
    await kv.purge("b")
    await kv.put("c.d", b"")
    changes = [await watcher.updates() for _ in range(3)]
    assert told(changes) == [("a", b"", "DEL"), ("b", b"", "PURGE"), ("c.d", b"", None)]
    with pytest.raises(errors.TimeoutError):
        await watcher.updates(timeout=0.1)
    await watcher.stop()
    assert await watcher.updates() is watcher.STOP_ITER
    with pytest.raises(errors.BadSubscriptionError):
        await watcher.updates(None)
    await watcher.stop()


async def test_an_empty_bucket_gives_none_at_once(kv: KeyValue) -> None:
    async with await kv.watchall() as watcher:
        assert await watcher.updates(0) is None
        with pytest.raises(errors.TimeoutError):
            await watcher.updates(0.1)


async def test_none_comes_also_where_the_last_value_is_left_out(kv: KeyValue) -> None:
    await kv.put("a", b"1")
    await kv.put("b", b"1")
    await kv.delete("b")
    async with await kv.watchall(ignore_deletes=True) as watcher:
        assert told(await initial(watcher)) == [("a", b"1", None)]
        await kv.delete("a")
        await kv.put("a", b"2")
        assert (await watcher.updates()).value == b"2"
    await kv.delete("a")
    async with await kv.watchall(ignore_deletes=True) as watcher:
        assert await watcher.updates() is None


async def test_iteration(kv: KeyValue) -> None:
    await kv.put("a", b"1")
    seen: list[Any] = []
    watcher = await kv.watch("a")

    async def follow() -> None:
        async for entry in watcher:
            seen.append(entry and entry.value)
            if entry is None:
                await kv.put("b", b"not watched")
                await kv.put("a", b"2")

    task = asyncio.ensure_future(follow())
    while seen != [b"1", None, b"2"]:
        await asyncio.sleep(0.005)
    # The iterator has reached the end of the present entries.
    await watcher.stop()
    await asyncio.wait_for(task, 20)


async def test_what_is_left_out_and_what_is_not(js: JetStreamContext, bucket: str) -> None:
    cases = [
        ("a", {"include_history": True}, [b"1", b"2", b"5"]),
        (">", {"meta_only": True}, [b"", b"", b""]),
        (">", {"headers_only": True}, [b"", b"", b""]),
        (["b.*", "d.>"], {}, [b"3", b"4"]),
        (["a", "b.c", ">"], {}, [b"3", b"4", b"5"]),
        (">", {"updates_only": True}, []),
        (">", {"resume_from_revision": 4}, [b"4", b"5"]),
        ("a", {"resume_from_revision": 2}, [b"2", b"5"]),
        (">", {"resume_from_revision": 6}, []),
        ("nothing.*", {}, []),
    ]
    for number, (keys, options, found) in enumerate(cases):
        # Each bucket counts its revisions from 1.
        kv = await js.create_key_value(bucket=f"{bucket}{number}", history=5)
        for key, value in [("a", b"1"), ("a", b"2"), ("b.c", b"3"), ("d.e.f", b"4"), ("a", b"5")]:
            await kv.put(key, value)
        async with await kv.watch(keys, **options) as watcher:  # type: ignore[arg-type]
            assert [entry.value for entry in await initial(watcher)] == found, (keys, options)
            await kv.put("a", b"6")
            if ">" in keys or "a" in keys:
                expected = b"" if options.get("meta_only") or options.get("headers_only") else b"6"
                assert (await watcher.updates()).value == expected


async def test_wishes_that_exclude_each_other(kv: KeyValue) -> None:
    for options in (
        {"include_history": True, "updates_only": True},
        {"include_history": True, "resume_from_revision": 1},
        {"updates_only": True, "resume_from_revision": 1},
    ):
        with pytest.raises(ValueError, match="exclude"):
            await kv.watchall(**options)  # type: ignore[arg-type]
    for keys in ("a..b", "", " ", ">.a"):
        with pytest.raises(js_errors.InvalidKeyError):
            await kv.watch(keys)


async def test_the_initial_values_end_while_others_write(kv: KeyValue) -> None:
    """New changes arrive continuously, and the watch still yields None after the initial values."""
    (await kv.put_batch([f"k{number}" for number in range(500)], [b"x"] * 500)).raise_for_errors()
    written: list[int] = []

    async def write() -> None:
        while True:
            written.append(await kv.put(f"k{len(written) % 500}", b"y"))

    task = asyncio.ensure_future(write())
    try:
        for _ in range(5):
            async with await kv.watchall() as watcher:
                entries = await initial(watcher)
                assert {entry.key for entry in entries} == {f"k{number}" for number in range(500)}
                revisions = [entry.revision for entry in entries]
                revisions += [(await watcher.updates()).revision for _ in range(20)]
                assert revisions == sorted(set(revisions))
    finally:
        task.cancel()


async def test_initial_values_that_are_deleted_before_they_come(kv: KeyValue, js: JetStreamContext) -> None:
    """The server counts values that are deleted before their delivery; the watch still yields None."""
    (await kv.put_batch([f"k{number}" for number in range(10)], [bytes(900_000)] * 10)).raise_for_errors()
    watcher = await kv.watchall()
    # More bytes than the server sends before a flow control answer: the remaining values are deleted meanwhile.
    assert (await watcher.updates()).key == "k0"
    await js.purge_stream((await kv.status()).stream_info.config.name or "")
    left = [entry.key for entry in await initial(watcher)]
    assert len(left) < 10
    await watcher.stop()


async def test_cancelling_a_wait_loses_nothing(kv: KeyValue) -> None:
    async with await kv.watchall() as watcher:
        assert await watcher.updates() is None
        for number in range(30):
            task = asyncio.ensure_future(watcher.updates())
            await asyncio.sleep(0)
            await kv.put("a", b"%d" % number)
            task.cancel()
            try:
                entry = await task
            except asyncio.CancelledError:
                entry = await watcher.updates()
            assert entry is not None
            assert entry.value == b"%d" % number


async def test_two_who_wait_share_the_entries(kv: KeyValue) -> None:
    async with await kv.watchall() as watcher:
        assert await watcher.updates() is None
        waiting = [asyncio.ensure_future(watcher.updates()) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.gather(*[kv.put("a", b"%d" % number) for number in range(3)])
        entries = await asyncio.gather(*waiting)
        assert sorted(entry.revision for entry in entries) == [1, 2, 3]


async def test_a_closed_connection_ends_it(nats_url: str, kv: KeyValue, bucket: str) -> None:
    import jetarrow

    nc = await jetarrow.connect(nats_url)
    other = await nc.jetstream().key_value(bucket)
    watcher, iterated = await other.watchall(), await other.watchall()
    assert await watcher.updates() is None
    waiting = asyncio.ensure_future(watcher.updates(None))

    seen: list[Any] = []

    async def follow() -> None:
        async for entry in iterated:
            seen.append(entry)  # noqa: PERF401  # read while it iterates

    following = asyncio.ensure_future(follow())
    await until(lambda: seen)
    await nc.close()
    with pytest.raises(errors.ConnectionClosedError):
        await asyncio.wait_for(waiting, 20)
    await asyncio.wait_for(following, 20)
    assert seen == [None]
    assert "watching" in repr(watcher)
