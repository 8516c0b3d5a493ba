"""Metadata that is forged or damaged reaches no subject, filter or path."""

from __future__ import annotations

import json
from typing import Any

import jetarrow.sync
import pytest
from jetarrow.js.api import ObjectMeta
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import BadObjectMetaError
from jetarrow.js.object_store import ObjectStore

from .tools import CHUNK, contents, stored

SUBJECT = "$O.{bucket}.M.YQ=="  # "a"
NUIDS = [">", "*", "a.b", "a.>", " ", "a b", "a\n", "\x00", "ü", "x" * 200, ".", 5, None, ["x"], {}]
FIELDS: list[dict[str, Any]] = [
    *({"nuid": nuid} for nuid in NUIDS),
    {"name": "b"},
    {"name": ""},
    {"name": "\ud800"},
    {"name": None},
    {"bucket": 7},
    {"size": -1},
    {"size": "1"},
    {"size": 1.5},
    {"size": True},
    {"size": 2**64},
    {"chunks": -5},
    {"digest": 5},
    {"deleted": "no"},
    {"description": ["x"]},
    {"headers": "x"},
    {"headers": {"A": 5}},
    {"headers": {"A": [5]}},
    {"metadata": {"k": 5}},
    {"metadata": "x"},
    {"options": 5},
    {"options": {"max_chunk_size": -1}},
    {"options": {"max_chunk_size": "1"}},
    {"options": {"link": 5}},
    {"options": {"link": {"bucket": ">"}}},
    {"options": {"link": {"bucket": "a.b", "name": "x"}}},
    {"options": {"link": {"bucket": ""}}},
    {"options": {"link": {"bucket": 5}}},
    {"options": {"link": {"bucket": "B", "name": 5}}},
]


async def forge(js: JetStreamContext, bucket: str, fields: dict[str, Any]) -> None:
    """Replaces fields in the metadata of object "a"."""
    good = {"name": "a", "bucket": bucket, "nuid": "x", "size": 1, "chunks": 1, "digest": "", "deleted": False}
    await js.publish(SUBJECT.format(bucket=bucket), json.dumps({**good, **fields}), headers={"Nats-Rollup": "sub"})


@pytest.mark.parametrize("fields", FIELDS, ids=str)
async def test_forged_metadata_is_refused_and_can_be_replaced(
    js: JetStreamContext, store: ObjectStore, bucket: str, fields: dict[str, Any]
) -> None:
    await store.put("b", b"x" * (2 * CHUNK))
    await forge(js, bucket, fields)
    for call in (
        store.get("a"),
        store.get_info("a"),
        store.delete("a"),
        store.update_meta("a", ObjectMeta(name="c")),
        store.update_meta("a", ObjectMeta(description="c")),
        store.update_meta("b", ObjectMeta(name="a")),
        store.add_link("l", "a"),
    ):
        with pytest.raises(BadObjectMetaError):
            await call
    assert [info.name for info in await store.list()] == ["b"]
    async with await store.watch() as watcher:
        assert [info and info.name for info in (await watcher.updates(), await watcher.updates())] == ["b", None]
    await store.put("a", b"new")
    await store.delete("a")
    await forge(js, bucket, fields)
    await store.add_link("a", "b")
    assert (await store.get("a")).data == (await store.get("b")).data == b"x" * (2 * CHUNK)


async def test_metadata_without_nuid_is_replaced_and_nothing_is_purged(
    js: JetStreamContext, store: ObjectStore, bucket: str
) -> None:
    await store.put("b", b"x")
    await forge(js, bucket, {"nuid": ""})
    for call in (store.get("a"), store.delete("a"), store.update_meta("a", ObjectMeta(name="c"))):
        with pytest.raises(BadObjectMetaError):
            await call
    await store.put("a", b"new")
    assert await contents(store) == {"a": b"new", "b": b"x"}


async def test_bucket_of_metadata_is_the_one_that_was_read(
    js: JetStreamContext, store: ObjectStore, bucket: str
) -> None:
    await store.put("a", b"x")
    good = json.loads((await js.get_last_msg(f"OBJ_{bucket}", SUBJECT.format(bucket=bucket))).data or b"")
    await forge(js, bucket, {**good, "bucket": "OTHER"})
    info = await store.get_info("a")
    assert info.bucket == bucket
    await store.add_link("l", info)
    assert (await store.get("l")).data == b"x"


async def test_unreadable_metadata_protects_the_chunks_that_it_names(
    js: JetStreamContext, store: ObjectStore, bucket: str
) -> None:
    """A newer client may write fields that this one refuses."""
    info = await store.put("a", b"x")
    await forge(js, bucket, {"nuid": info.nuid, "options": {"max_chunk_size": "later"}})
    assert await store.clean(0) == []
    assert await stored(js, bucket) == {"meta": 1, info.nuid: 1}


def test_blocking_put_over_forged_metadata_keeps_the_other_objects(
    sync_js: jetarrow.sync.JetStream, bucket: str
) -> None:
    store = sync_js.create_object_store(bucket)
    store.put("b", b"x")
    text = json.dumps({"name": "a", "bucket": bucket, "nuid": ">", "size": 1, "chunks": 1, "digest": ""})
    sync_js.publish(SUBJECT.format(bucket=bucket), text, headers={"Nats-Rollup": "sub"})
    store.put("a", b"new")
    assert (store.get("a").data, store.get("b").data) == (b"new", b"x")
    sync_js.delete_object_store(bucket)
