"""Metadata of objects: changed, deleted, listed; and links."""

from __future__ import annotations

import asyncio
import json

import pytest
from jetarrow.js.api import ObjectInfo, ObjectLink, ObjectMeta, ObjectMetaOptions
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import (
    BadObjectMetaError,
    BucketNotFoundError,
    LinkIsABucketError,
    LinkToLinkError,
    NotFoundError,
    ObjectAlreadyExists,
    ObjectDeletedError,
    ObjectNotFoundError,
)
from jetarrow.js.object_store import ObjectStore

from .tools import LARGE, stored


async def test_update_meta(store: ObjectStore) -> None:
    old = await store.put("a", b"data", ObjectMeta(description="old", headers={"A": "1"}))
    assert await store.update_meta("a", ObjectMeta(name="a", description="new", metadata={"k": "v"})) is None
    info = await store.get_info("a")
    assert (info.description, info.headers, info.metadata) == ("new", None, {"k": "v"})
    assert (info.nuid, info.size, info.digest, info.options) == (old.nuid, old.size, old.digest, old.options)
    await store.update_meta("a", ObjectMeta(headers={"B": ["2"]}))
    assert (await store.get_info("a")).headers == {"B": ["2"]}, "no name is the same name"
    assert (await store.get("a")).data == b"data"


async def test_rename(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    old = await store.put("a", LARGE)
    await store.put("taken", b"x")
    with pytest.raises(ObjectAlreadyExists, match="taken"):
        await store.update_meta("a", ObjectMeta(name="taken"))
    await store.update_meta("a", ObjectMeta(name="b"))
    assert (await store.get("b")).data == LARGE
    assert (await store.get_info("b")).nuid != old.nuid, "chunks belong to one name"
    with pytest.raises(ObjectNotFoundError):
        await store.get_info("a", show_deleted=True)
    assert (await stored(js, bucket))["meta"] == 2
    # A name that was deleted is free.
    await store.delete("taken")
    await store.update_meta("b", ObjectMeta(name="taken"))
    assert (await store.get("taken")).data == LARGE


async def test_renames_to_one_name_at_once(store: ObjectStore) -> None:
    names = [f"{number}" for number in range(5)]
    for name in names:
        await store.put(name, name)
    done = await asyncio.gather(
        *(store.update_meta(name, ObjectMeta(name="one")) for name in names), return_exceptions=True
    )
    assert sum(result is None for result in done) == 1
    assert sum(isinstance(result, ObjectAlreadyExists) for result in done) == len(names) - 1
    winner = names[done.index(None)]
    assert (await store.get("one")).data == winner.encode()
    assert {info.name for info in await store.list()} == {"one", *names} - {winner}


async def test_nothing_to_change(store: ObjectStore) -> None:
    await store.put("a", b"1")
    await store.delete("a")
    for name in ("a", "never"):
        with pytest.raises(ObjectDeletedError):
            await store.update_meta(name, ObjectMeta(description="x"))


async def test_delete(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    await store.put("a", LARGE, ObjectMeta(description="d"))
    assert await store.delete("a") is None
    info = await store.get_info("a", show_deleted=True)
    assert (info.deleted, info.size, info.chunks, info.digest) == (True, 0, 0, "")
    assert await stored(js, bucket) == {"meta": 1}
    for name in ("a", "never"):
        with pytest.raises(ObjectNotFoundError):
            await store.delete(name)
    # Again it is an object like any other.
    await store.put("a", b"new")
    assert (await store.get("a")).data == b"new"
    assert (await store.get_info("a")).deleted is False


async def test_what_cannot_be_read(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    await store.put("good", b"1")
    for text in (b"", b"not json", b"[]", b'{"name": "a"}', b"17"):
        await js.publish(f"$O.{bucket}.M.YQ==", text, headers={"Nats-Rollup": "sub"})
        with pytest.raises(BadObjectMetaError):
            await store.get("a")
        assert [info.name for info in await store.list()] == ["good"], "the others are there all the same"
        async with await store.watch() as watcher:
            assert [info and info.name for info in (await watcher.updates(), await watcher.updates())] == ["good", None]


async def test_the_time_is_the_servers(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    await store.put("a", b"1")
    subject = f"$O.{bucket}.M.YQ=="
    msg = await js.get_last_msg(f"OBJ_{bucket}", subject)
    assert msg.data
    wrong = {**json.loads(msg.data), "mtime": "2001-01-01T00:00:00Z"}
    await js.publish(subject, json.dumps(wrong), headers={"Nats-Rollup": "sub"})
    time = (await js.get_last_msg(f"OBJ_{bucket}", subject)).time
    assert time
    info = await store.get_info("a")
    assert info.mtime == f"{time:%Y-%m-%dT%H:%M:%S.%f}Z".replace(".000000Z", "Z")
    assert await store.list() == [info]
    async with await store.watch() as watcher:
        assert await watcher.updates() == info


async def test_what_a_newer_client_says_is_kept(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    await store.put("a", b"1")
    subject = f"$O.{bucket}.M.YQ=="
    said = json.loads((await js.get_last_msg(f"OBJ_{bucket}", subject)).data or b"")
    await js.publish(subject, json.dumps({**said, "later": [1]}), headers={"Nats-Rollup": "sub"})
    await store.update_meta("a", ObjectMeta(description="d"))
    assert json.loads((await js.get_last_msg(f"OBJ_{bucket}", subject)).data or b"")["later"] == [1]


async def test_list(store: ObjectStore) -> None:
    with pytest.raises(NotFoundError):
        await store.list()
    infos = [await store.put(name, name) for name in "abc"]
    assert await store.list() == infos
    await store.put("a", b"again")
    await store.delete("b")
    assert [(info.name, info.deleted) for info in await store.list()] == [("c", False), ("a", False), ("b", True)]
    assert [info.name for info in await store.list(ignore_deletes=True)] == ["c", "a"]


async def test_a_long_list(store: ObjectStore) -> None:
    names = [f"object {number}" for number in range(500)]
    await asyncio.gather(*(store.put(name, b"x") for name in names))
    assert {info.name for info in await store.list()} == set(names)


async def test_link(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    target = await store.put("a", LARGE)
    link = await store.add_link("l", target)
    assert link.is_link()
    assert link.options == ObjectMetaOptions(link=ObjectLink(bucket, "a"))
    assert await store.get_info("l") == link
    result = await store.get("l")
    assert (result.info, result.data) == (target, LARGE)
    # It is the name that is linked to, not the version.
    await store.put("a", b"new")
    assert (await store.get("l")).data == b"new"
    # A link in the place of a link; by name.
    await store.put("b", b"other")
    await store.add_link("l", "b")
    assert (await store.get("l")).data == b"other"
    await store.delete("l")
    assert (await store.get("b")).data == b"other"
    await store.add_link("l", "b")
    await store.delete("b")
    with pytest.raises(ObjectNotFoundError):
        await store.get("l")
    # An object in the place of a link.
    await store.put("l", b"no link")
    assert (await store.get("l")).data == b"no link"


async def test_link_to_another_bucket(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    other = await js.create_object_store(f"{bucket}-2")
    await store.add_link("l", await other.put("a", LARGE))
    await store.add_link("small", await other.put("b", b"small"))
    assert (await store.get("l")).data == LARGE
    assert (await store.get("small")).data == b"small"
    await store.add_bucket_link("bucket", other)
    await store.add_bucket_link("bucket", f"{bucket}-2")
    link = await store.get_info("bucket")
    assert link.options == ObjectMetaOptions(link=ObjectLink(f"{bucket}-2"))
    with pytest.raises(LinkIsABucketError):
        await store.get("bucket")
    await js.delete_object_store(f"{bucket}-2")
    with pytest.raises(BucketNotFoundError, match=f"{bucket}-2"):
        await store.get("l")
    with pytest.raises(BucketNotFoundError, match=f"{bucket}-2"):
        await store.add_bucket_link("l", f"{bucket}-2")


async def test_links_that_are_none(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    info = await store.put("a", b"1")
    link = await store.add_link("l", info)
    for target in (link, "l"):
        with pytest.raises(LinkToLinkError):
            await store.add_link("m", target)
    await store.add_bucket_link("b", bucket)
    with pytest.raises(LinkToLinkError):
        await store.add_link("m", "b")
    with pytest.raises(ObjectAlreadyExists):
        await store.add_link("a", info)
    with pytest.raises(ObjectAlreadyExists):
        await store.add_bucket_link("a", bucket)
    with pytest.raises(ObjectNotFoundError):
        await store.add_link("m", "never")
    await store.delete("a")
    # The server's metadata decides, not the ObjectInfo of the caller.
    for gone in (info, "a"):
        with pytest.raises(ObjectDeletedError):
            await store.add_link("m", gone)
    with pytest.raises(ObjectNotFoundError):
        await store.get_info("m")
    with pytest.raises(BadObjectMetaError):
        await store.add_link("m", ObjectInfo(name="x", bucket="", nuid=""))


async def test_a_link_is_followed_once(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    """No client of ours makes a link to a link: a target may become one."""
    info = await store.put("a", b"1")
    await store.add_link("l", info)
    await store.delete("a")
    await store.put("b", b"2")
    await store.add_link("a", "b")
    with pytest.raises(BadObjectMetaError, match=r"it links to .a. of bucket .*, which is a link itself"):
        await store.get("l")
