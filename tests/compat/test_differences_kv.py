"""Intended differences from nats-py in key-value buckets. MIGRATION.md names each test."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ..conftest import server_version
from ..tools import until
from .face import Face, subject


@pytest.fixture
async def nc(ours: Face) -> Any:
    return await ours.connect()


@pytest.fixture
async def kv(js: Any) -> Any:
    return await js.create_key_value(bucket=subject(), history=5)


@pytest.mark.skipif(server_version() < (2, 11), reason="what expires leaves markers from 2.11 on")
async def test_a_key_that_expired_is_not_there(ours: Face, js: Any) -> None:
    # nats-py: an entry with the value None, and create after it fails.
    kv = await js.create_key_value(bucket=subject(), limit_marker_ttl=60)
    await kv.create("a", b"1", msg_ttl=1)

    async def expired() -> bool:
        return bool((await kv.history("a"))[0].operation == "PURGE")

    await until(expired)
    assert await ours.failure(kv.get("a")) == "js.errors.KeyNotFoundError"
    assert await kv.create("a", b"2") == 3


async def test_a_delete_with_a_wrong_revision(ours: Face, kv: Any) -> None:
    # nats-py: BadRequestError.
    await kv.put("a", b"1")
    assert await ours.failure(kv.delete("a", last=7)) == "js.errors.KeyWrongLastSequenceError"


async def test_keys_with_an_empty_token(ours: Face, kv: Any) -> None:
    # nats-py: NoStreamResponseError; its purge does not check the key.
    assert await ours.failure(kv.put("a..b", b"1")) == "js.errors.InvalidKeyError"
    assert await ours.failure(kv.get("a\n")) == "js.errors.InvalidKeyError"
    assert await ours.failure(kv.purge("a b")) == "js.errors.InvalidKeyError"


async def test_an_empty_value_is_bytes(kv: Any) -> None:
    # nats-py: None from get, b"" from watch.
    await kv.put("a", b"")
    assert (await kv.get("a")).value == b""
    assert (await kv.get("a", revision=1)).value == b""
    assert (await kv.history("a"))[0].value == b""


async def test_an_entry_knows_when_it_was_created(kv: Any) -> None:
    # nats-py: created and delta are None after get.
    await kv.put("a", b"1")
    entry = await kv.get("a")
    assert entry.delta == 0
    assert abs(datetime.datetime.now(datetime.UTC) - entry.created) < datetime.timedelta(minutes=1)


async def test_the_placement_of_a_bucket(ours: Face, js: Any) -> None:
    # nats-py: it is left out.
    placement = ours.api.Placement(tags=["ssd"])
    kv = await js.create_key_value(bucket=subject(), placement=placement)
    assert (await kv.status()).stream_info.config.placement.tags == ["ssd"]


async def test_filters_of_keys_are_the_servers(ours: Face, kv: Any) -> None:
    # nats-py: a key matches if it contains the text.
    for key in ("a", "ab", "b.a"):
        await kv.put(key, b"1")
    assert await kv.keys(filters=["a"]) == ["a"]
    assert await kv.keys(filters=["*.a", "ab"]) == ["ab", "b.a"]


async def test_headers_only_leaves_the_values_out(kv: Any) -> None:
    # nats-py: no effect; only meta_only has one.
    await kv.put("a", b"1")
    async with await kv.watchall(headers_only=True) as watcher:
        assert (await watcher.updates()).value == b""


async def test_markers_are_removed_up_to_the_marker(js: Any, kv: Any) -> None:
    # nats-py: values that were put between the listing and the removal are removed too.
    await kv.put("a", b"1")
    await kv.delete("a")
    real, put = js.purge_stream, []

    async def late(*args: Any, **options: Any) -> Any:
        put.append(await kv.put("a", b"2"))
        return await real(*args, **options)

    js.purge_stream = late
    await kv.purge_deletes(olderthan=0)
    assert put
    assert [entry.value for entry in await kv.history("a")] == [b"2"]


async def test_a_watch_of_a_bucket_that_is_deleted(
    ours: Face, js: Any, kv: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # nats-py: waits forever.
    monkeypatch.setattr("jetarrow.jetstream.kv.watcher.HEARTBEAT", 0.2)
    watcher = await kv.watchall()
    assert await watcher.updates() is None
    await js.delete_key_value((await kv.status()).bucket)
    with pytest.raises(ours.js_errors.BucketNotFoundError):
        await watcher.updates(timeout=10)


async def test_a_watch_that_is_stopped_leaves_no_consumer(js: Any, kv: Any) -> None:
    # nats-py: the consumer exists for five minutes, also after keys() and history().
    watcher = await kv.watchall()
    await watcher.stop()
    await kv.put("a", b"1")
    await kv.keys()
    assert (await kv.status()).stream_info.state.consumer_count == 0
