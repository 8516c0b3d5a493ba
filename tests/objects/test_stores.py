"""Buckets: made, opened, listed, sealed."""

from __future__ import annotations

import pytest
from jetarrow.js.api import ObjectStoreConfig, StorageType, StoreCompression
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import APIError, BadRequestError, BucketNotFoundError, InvalidBucketNameError
from jetarrow.js.object_store import ObjectStore


async def test_the_stream_of_a_bucket(js: JetStreamContext, bucket: str) -> None:
    store = await js.create_object_store(
        bucket,
        description="a text",
        ttl=3600,
        max_bytes=10_000_000,
        storage="memory",
        compression=True,
        metadata={"k": "v"},
    )
    info = await js.stream_info(f"OBJ_{bucket}")
    config = info.config
    assert config.subjects == [f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"]
    assert (config.max_age, config.max_bytes, config.storage) == (3600, 10_000_000, StorageType.MEMORY)
    assert (config.allow_rollup_hdrs, config.allow_direct, config.discard) == (True, True, "new")
    assert config.compression == StoreCompression.S2
    status = await store.status()
    assert (status.bucket, status.description, status.ttl, status.replicas) == (bucket, "a text", 3600, 1)
    assert (status.storage_type, status.sealed, status.compression) == (StorageType.MEMORY, False, True)
    assert status.metadata["k"] == "v"
    before = status.size
    await store.put("a", b"x" * 1000)
    assert (await store.status()).size > before + 1000
    assert repr(store) == f"<ObjectStore: bucket '{bucket}'>"
    assert await js.delete_object_store(bucket) is True


async def test_create_again(js: JetStreamContext, bucket: str) -> None:
    config = ObjectStoreConfig(bucket=bucket, description="d")
    store = await js.create_object_store(config=config)
    await store.put("a", b"1")
    again = await js.create_object_store(bucket, config=config)
    assert (await again.get("a")).data == b"1"
    assert config == ObjectStoreConfig(bucket=bucket, description="d"), "it is left as it is"
    with pytest.raises(BadRequestError):
        await js.create_object_store(bucket, config, description="other")
    assert (await (await js.object_store(bucket)).get("a")).data == b"1"
    await js.delete_object_store(bucket)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a\n", "ä", "*", None])
async def test_names_that_are_none(js: JetStreamContext, name: str) -> None:
    for call in (js.object_store(name), js.create_object_store(name), js.delete_object_store(name)):
        with pytest.raises(InvalidBucketNameError):
            await call


async def test_no_such_bucket(js: JetStreamContext, bucket: str) -> None:
    for call in (js.object_store(bucket), js.delete_object_store(bucket)):
        with pytest.raises(BucketNotFoundError, match=bucket):
            await call


async def test_lists(own: JetStreamContext) -> None:
    await own.add_stream(name="OBJ_other", subjects=["a"])
    await own.add_stream(name="stream", subjects=["b"])
    # It has a name that no bucket can have.
    await own.add_stream(name="OBJ_x=y", subjects=["$O.x=y.C.>"])
    for name in ("b", "a"):
        await own.create_object_store(name, description=name)
    assert [name async for name in own.object_store_names()] == ["a", "b"]
    assert [(status.bucket, status.description) async for status in own.object_stores()] == [("a", "a"), ("b", "b")]


async def test_seal(store: ObjectStore) -> None:
    info = await store.put("a", b"1")
    await store.seal()
    assert (await store.status()).sealed
    for call in (store.put("a", b"2"), store.put("b", b"2"), store.delete("a")):
        with pytest.raises(APIError, match="sealed"):
            await call
    assert (await store.get("a")).data == b"1"
    assert await store.list() == [info]
