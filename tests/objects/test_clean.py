"""`clean` removes chunks that no object refers to, and no others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import jetarrow.sync
import pytest
from jetarrow.js.api import ObjectMeta
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import APIError, BucketNotFoundError
from jetarrow.js.object_store import ObjectStore, OrphanedChunks

from tests.raw_publish import raw_publish
from tests.tools import no_consumer_stays, until

from .tools import CHUNK, contents, stored


async def orphan(js: JetStreamContext, bucket: str, nuid: str, *payloads: bytes) -> None:
    for payload in payloads:
        await js.publish(f"$O.{bucket}.C.{nuid}", payload)


async def test_clean_removes_what_a_killed_put_left(
    js: JetStreamContext, store: ObjectStore, bucket: str, nats_url: str
) -> None:
    await store.put("kept", b"x" * (2 * CHUNK))
    program = f"""
import asyncio, jetarrow
async def main():
    nc = await jetarrow.connect({nats_url!r})
    store = await nc.jetstream().object_store({bucket!r})
    async def parts():
        while True:
            yield b"x" * {CHUNK}
    await store.put("killed", parts())
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", program])  # noqa: ASYNC220  # it returns at once

    async def begun() -> bool:
        return len(await stored(js, bucket)) > 2

    await until(begun, 30)
    process.kill()
    process.wait()  # it was killed

    async def ended() -> bool:
        before = await stored(js, bucket)
        await asyncio.sleep(0.1)
        return before == await stored(js, bucket)

    await until(ended, 30)
    left = await stored(js, bucket)
    assert await store.clean() == [], "it may still go on"
    (found,) = await store.clean(0, dry_run=True)
    assert (found.name, found.chunks, found.bytes) == (None, left[found.nuid], left[found.nuid] * CHUNK)
    assert abs(datetime.now(UTC) - found.newest) < timedelta(minutes=1)
    assert await stored(js, bucket) == left, "a dry run removes nothing"
    assert await store.clean(timedelta(0)) == [found]
    assert await store.clean(0) == []
    assert await contents(store) == {"kept": b"x" * (2 * CHUNK)}
    await no_consumer_stays(js, f"OBJ_{bucket}")


async def test_clean_finds_sizes_names_and_order(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    info = await store.put("gone", b"1")
    await store.delete("gone")
    await orphan(js, bucket, "second", b"x" * 10, b"", b"y" * 7)
    # As a delete leaves it that was killed before the purge.
    await orphan(js, bucket, info.nuid, b"1")
    await orphan(js, bucket, "not.ours", b"1")
    found = await store.clean(0)
    assert [(each.nuid, each.name, each.chunks, each.bytes) for each in found] == [
        ("second", None, 3, 17),
        (info.nuid, "gone", 1, 1),
    ]
    assert all(isinstance(each, OrphanedChunks) for each in found)
    state = (await js.stream_info(f"OBJ_{bucket}", ">")).state
    assert set(state.subjects or {}) == {f"$O.{bucket}.C.not.ours", f"$O.{bucket}.M.Z29uZQ=="}


async def test_clean_keeps_chunks_younger_than_asked(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    await orphan(js, bucket, "old", b"1")
    await orphan(js, bucket, "growing", b"1")
    await asyncio.sleep(2.1)
    await orphan(js, bucket, "growing", b"2")
    assert [each.nuid for each in await store.clean(2)] == ["old"]
    assert await stored(js, bucket) == {"meta": 0, "growing": 2}


async def test_clean_during_a_put_and_changes_keeps_every_object(
    js: JetStreamContext, store: ObjectStore, bucket: str
) -> None:
    """Chunks of a put are young; and metadata that is replaced while it is read is not overlooked."""
    for number in range(20):
        await store.put(f"{number}", b"x")
    running = True

    async def change() -> None:
        number = 0
        while running:
            number += 1
            await store.update_meta(f"{number % 20}", ObjectMeta(description="d"))
            await store.put("put", b"x" * (CHUNK + number))

    task = asyncio.create_task(change())
    await asyncio.sleep(0.4)
    for _ in range(30):
        await store.clean(0.3)
    running = False
    await task
    assert len(await contents(store)) == 21


@pytest.mark.parametrize("kind", ["C", "M"])
async def test_clean_with_a_subject_that_is_a_wildcard_keeps_every_object(
    store: ObjectStore, bucket: str, nats_url: str, kind: str
) -> None:
    await store.put("a", b"1")
    for token in (">", "*"):
        raw_publish(nats_url, f"$O.{bucket}.{kind}.{token}", b"x")
    assert await store.clean(0) == []
    assert await contents(store) == {"a": b"1"}


async def test_clean_that_cannot_be(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    with pytest.raises(ValueError, match="older_than"):
        await store.clean(-1)
    wrong: Any = "1h"
    with pytest.raises(TypeError):
        await store.clean(wrong)
    await orphan(js, bucket, "x", b"1")
    await store.seal()
    assert len(await store.clean(0, dry_run=True)) == 1
    with pytest.raises(APIError, match="sealed"):
        await store.clean(0)
    await js.delete_object_store(bucket)
    with pytest.raises(BucketNotFoundError, match=bucket):
        await store.clean()
    await js.create_object_store(bucket)


def test_blocking_clean(sync_js: jetarrow.sync.JetStream, bucket: str) -> None:
    store = sync_js.create_object_store(bucket)
    store.put("a", b"1")
    for payload in (b"xx", b"yyy"):
        sync_js.publish(f"$O.{bucket}.C.left", payload)
    (found,) = store.clean(0, dry_run=True)
    assert (found.nuid, found.chunks, found.bytes) == ("left", 2, 5)
    assert store.clean(0) == [found]
    assert store.clean(0) == []
    assert store.get("a").data == b"1"
    sync_js.delete_object_store(bucket)
