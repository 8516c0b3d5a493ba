"""Renaming while other clients change the same names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import jetarrow
import pytest
from jetarrow.js.api import ObjectLink, ObjectMeta
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import (
    DigestMismatchError,
    NotFoundError,
    ObjectAlreadyExists,
    ObjectDeletedError,
    ObjectNotFoundError,
)
from jetarrow.js.object_store import ObjectStore

from .tools import CHUNK, LARGE, assert_no_orphans, contents, stored


@pytest.fixture
async def other(nats_url: str, store: ObjectStore, bucket: str) -> AsyncIterator[ObjectStore]:
    """The bucket as another client has it."""
    async with await jetarrow.connect(nats_url) as nc:
        yield await nc.jetstream().object_store(bucket)


async def test_put_of_the_old_name_during_rename_is_not_lost(
    js: JetStreamContext, store: ObjectStore, other: ObjectStore, bucket: str
) -> None:
    await store.put("latest", b"first")
    for number in range(60):
        data = b"%d" % number

        async def put(number: int = number, data: bytes = data) -> None:
            await asyncio.sleep(0.0005 * (number % 5))
            await other.put("latest", data)

        rename = store.update_meta("latest", ObjectMeta(name=f"v{number}"))
        await asyncio.gather(rename, put(), return_exceptions=True)
        assert data in (await contents(other)).values()
        await other.put("latest", data)
    await assert_no_orphans(js, store, bucket)


async def test_put_between_the_copy_and_the_removal_stays(
    js: JetStreamContext, store: ObjectStore, other: ObjectStore, bucket: str, monkeypatch: Any
) -> None:
    await store.put("a", LARGE)
    remove = store._remove_old

    async def late(*args: Any) -> None:
        await other.put("a", b"new")
        await remove(*args)

    monkeypatch.setattr(store, "_remove_old", late)
    await store.update_meta("a", ObjectMeta(name="b"))
    assert await contents(store) == {"a": b"new", "b": LARGE}
    await assert_no_orphans(js, store, bucket)


async def test_put_during_the_copy_is_what_is_renamed(store: ObjectStore, other: ObjectStore, monkeypatch: Any) -> None:
    await store.put("a", b"x" * (2 * CHUNK))
    copy, copies = store._copy, 0

    async def late(*args: Any) -> Any:
        nonlocal copies
        copies += 1
        if copies == 1:
            await other.put("a", b"new")
        return await copy(*args)

    monkeypatch.setattr(store, "_copy", late)
    await store.update_meta("a", ObjectMeta(name="b"))
    assert (await contents(store), copies) == ({"b": b"new"}, 2)


async def test_put_of_the_new_name_during_rename_stays(
    js: JetStreamContext, store: ObjectStore, other: ObjectStore, bucket: str, monkeypatch: Any
) -> None:
    await store.put("a", b"old")
    copy = store._copy

    async def late(*args: Any) -> Any:
        await other.put("b", b"theirs")
        return await copy(*args)

    monkeypatch.setattr(store, "_copy", late)
    with pytest.raises(ObjectAlreadyExists, match="'b' exists already"):
        await store.update_meta("a", ObjectMeta(name="b"))
    assert await contents(store) == {"a": b"old", "b": b"theirs"}
    assert len(await stored(js, bucket)) == 3, "no chunk of the copy is left"


async def test_metadata_that_changes_during_rename_does_not_leave_the_old_name(
    store: ObjectStore, other: ObjectStore, monkeypatch: Any
) -> None:
    await store.put("a", b"old")
    copy = store._copy

    async def late(*args: Any) -> Any:
        await other.update_meta("a", ObjectMeta(description="theirs"))
        return await copy(*args)

    monkeypatch.setattr(store, "_copy", late)
    await store.update_meta("a", ObjectMeta(name="b", description="ours"))
    assert await contents(store) == {"b": b"old"}
    assert (await store.get_info("b")).description == "ours"


async def test_renames_of_one_object_to_two_names_leave_one(
    js: JetStreamContext, store: ObjectStore, other: ObjectStore, bucket: str
) -> None:
    for _ in range(20):
        await store.put("a", b"x" * (CHUNK + 1))
        done = await asyncio.gather(
            store.update_meta("a", ObjectMeta(name="b")),
            other.update_meta("a", ObjectMeta(name="c")),
            return_exceptions=True,
        )
        assert sorted(map(type, done), key=str) in ([type(None), ObjectDeletedError], [ObjectDeletedError, type(None)])
        (name,) = await contents(store)
        await store.delete(name)
    await assert_no_orphans(js, store, bucket)


async def test_rename_gets_chunks_of_its_own(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    old = await store.put("a", b"x" * (2 * CHUNK + 1))
    await store.update_meta("a", ObjectMeta(name="b"))
    new = await store.get_info("b")
    assert new.nuid != old.nuid
    assert (new.size, new.chunks, new.digest, new.options) == (old.size, old.chunks, old.digest, old.options)
    assert await stored(js, bucket) == {"meta": 1, new.nuid: 3}


async def test_rename_of_links_and_empty_objects_keeps_them(store: ObjectStore, bucket: str) -> None:
    await store.put("a", b"data")
    await store.add_link("l", "a")
    await store.update_meta("l", ObjectMeta(name="m"))
    link = await store.get_info("m")
    assert link.options is not None
    assert link.options.link == ObjectLink(bucket, "a")
    assert (await store.get("m")).data == b"data"
    await store.put("empty", b"")
    await store.update_meta("empty", ObjectMeta(name="void"))
    assert (await store.get("void")).data == b""
    with pytest.raises(ObjectNotFoundError):
        await store.get("empty")


async def test_rename_of_damaged_data_is_refused(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    info = await store.put("a", b"x" * (2 * CHUNK))
    await js.delete_msg(f"OBJ_{bucket}", 1)
    with pytest.raises(DigestMismatchError):
        await store.update_meta("a", ObjectMeta(name="b"))
    with pytest.raises(ObjectNotFoundError):
        await store.get_info("b")
    assert await stored(js, bucket) == {"meta": 1, info.nuid: 1}


async def test_write_that_was_resent_is_not_taken_for_another_clients(
    js: JetStreamContext, store: ObjectStore, bucket: str, monkeypatch: Any
) -> None:
    """The first attempt was stored, and the server refuses the second one: the chunks must not be purged."""
    await store.put("a", b"old")
    write = store._write

    async def twice(*args: Any) -> None:
        await write(*args)
        await write(*args)

    monkeypatch.setattr(store, "_write", twice)
    info = await store.put("a", b"new")
    assert (await store.get("a")).data == b"new"
    assert await stored(js, bucket) == {"meta": 1, info.nuid: 1}
    await store.update_meta("a", ObjectMeta(name="b"))
    await store.delete("b")
    with pytest.raises(NotFoundError):
        await store.get("b")
    assert await stored(js, bucket) == {"meta": 1}


async def test_list_during_changes_of_metadata_leaves_no_object_out(store: ObjectStore, other: ObjectStore) -> None:
    """Metadata that is replaced while it is read is behind the end of the read."""
    names = {f"{number}" for number in range(20)}
    await asyncio.gather(*(store.put(name, b"x") for name in names))
    running = True

    async def change() -> None:
        while running:
            for name in names:
                await other.update_meta(name, ObjectMeta(description="d"))

    task = asyncio.create_task(change())
    for _ in range(30):
        assert {info.name for info in await store.list()} == names
    running = False
    await task


async def test_metadata_stays_what_other_clients_read(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    await store.put("a", b"x", ObjectMeta(headers={"A": "1"}))
    await store.update_meta("a", ObjectMeta(name="b", headers={"B": "2"}, metadata={"k": "v"}))
    msg = await js.get_last_msg(f"OBJ_{bucket}", f"$O.{bucket}.M.Yg==")
    wire = json.loads(msg.data or b"")
    assert (wire["name"], wire["bucket"], wire["headers"], wire["metadata"]) == ("b", bucket, {"B": ["2"]}, {"k": "v"})
    assert (wire["size"], wire["chunks"]) == (1, 1)
