"""Reading and writing keys: every verb, and the arguments that it rejects."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta

import pytest
from jetarrow import errors
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.js.kv import KeyValue
from jetarrow.server import NatsServer

from ..conftest import server_version
from ..tools import until

INVALID = ["", ".", ".a", "a.", "a..b", "a b", "a*", "a.>", "ä", "a:b", "a\n", "a\r\nPUB b 0"]


async def test_put_and_get(kv: KeyValue, bucket: str) -> None:
    begin = datetime.now(UTC) - timedelta(seconds=1)
    assert [await kv.put("a.b", b"1"), await kv.put("c", "2"), await kv.put("a.b", b"3")] == [1, 2, 3]
    entry = await kv.get("a.b")
    assert (entry.bucket, entry.key, entry.value, entry.revision) == (bucket, "a.b", b"3", 3)
    assert (entry.delta, entry.operation) == (0, None)
    assert entry.created is not None
    assert begin < entry.created < begin + timedelta(seconds=60)
    assert (await kv.get("c")).value == b"2"
    old = await kv.get("a.b", revision=1)
    assert (old.value, old.revision) == (b"1", 1)
    assert old.created is not None
    assert old.created < entry.created
    assert isinstance(entry, KeyValue.Entry)


@pytest.mark.parametrize("direct", [True, False])
async def test_both_ways_to_read_give_the_same(js: JetStreamContext, bucket: str, direct: bool) -> None:
    kv = await js.create_key_value(bucket=bucket, direct=direct, history=3)
    await kv.put("a", b"")
    await kv.put("b", b"x")
    entry = await kv.get("a")
    assert (entry.value, entry.revision, entry.delta, entry.operation) == (b"", 1, 0, None)
    assert entry.created is not None
    for wrong in ("c", "a.b"):
        with pytest.raises(js_errors.KeyNotFoundError):
            await kv.get(wrong)
    with pytest.raises(js_errors.KeyNotFoundError, match="it is a revision of key 'b'"):
        await kv.get("a", revision=2)
    with pytest.raises(js_errors.KeyNotFoundError):
        await kv.get("a", revision=99)
    await kv.delete("b")
    with pytest.raises(js_errors.KeyNotFoundError) as info:
        await kv.get("b")
    assert (info.value.op, info.value.entry.revision, info.value.entry.value) == ("DEL", 3, b"")
    # Its values remain.
    assert (await kv.get("b", revision=2)).value == b"x"


async def test_create(kv: KeyValue) -> None:
    assert await kv.create("a", b"1") == 1
    with pytest.raises(js_errors.KeyWrongLastSequenceError) as info:
        await kv.create("a", b"2")
    assert isinstance(info.value, js_errors.BadRequestError | js_errors.KeyValueError)
    assert info.value.err_code == 10071
    await kv.delete("a")
    assert await kv.create("a", b"3") == 3
    await kv.purge("a")
    assert await kv.create("a", b"4") == 5
    assert (await kv.get("a")).value == b"4"


async def test_update(kv: KeyValue) -> None:
    assert await kv.update("a", b"1") == 1
    assert await kv.update("a", b"2", last=1) == 2
    for last in (1, 0, None, 77):
        with pytest.raises(js_errors.KeyWrongLastSequenceError):
            await kv.update("a", b"3", last)
    assert (await kv.get("a")).value == b"2"


async def test_delete_and_purge(kv: KeyValue) -> None:
    for value in (b"1", b"2"):
        await kv.put("a", value)
    for remove in (kv.delete, kv.purge):
        with pytest.raises(js_errors.KeyWrongLastSequenceError):
            await remove("a", last=1)
    assert await kv.delete("a", last=2) is True
    assert [entry.operation for entry in await kv.history("a")] == [None, None, "DEL"]
    assert await kv.purge("a", last=3) is True
    assert [entry.operation for entry in await kv.history("a")] == ["PURGE"]
    # A key without any revision can be deleted.
    assert await kv.delete("b")
    assert await kv.purge("c")


async def test_delete_takes_msg_ttl_and_says_that_it_is_nothing(kv: KeyValue) -> None:
    with pytest.warns(DeprecationWarning, match="msg_ttl"):
        assert await kv.delete("a", msg_ttl=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert await kv.delete("a")


@pytest.mark.parametrize("key", INVALID)
async def test_invalid_keys(kv: KeyValue, key: str) -> None:
    for call in (
        kv.get(key),
        kv.put(key, b""),
        kv.create(key, b""),
        kv.update(key, b""),
        kv.delete(key),
        kv.purge(key),
        kv.put_batch(["a", key], [b"", b""]),
    ):
        with pytest.raises(js_errors.InvalidKeyError):
            await call
    assert (await kv.status()).values == 0


async def test_other_keys_where_nobody_looks(kv: KeyValue) -> None:
    key = "a:ä"
    assert await kv.put(key, b"1", validate_keys=False) == 1
    assert (await kv.get(key, validate_keys=False)).value == b"1"
    assert await kv.update(key, b"2", 1, validate_keys=False) == 2
    assert await kv.delete(key, validate_keys=False)
    assert await kv.create(key, b"3", validate_keys=False) == 4
    assert await kv.keys() == [key]
    assert await kv.purge(key, validate_keys=False)
    (await kv.put_batch([key], [b"4"], validate_keys=False)).raise_for_errors()
    assert (await kv.get(key, validate_keys=False)).value == b"4"


async def test_keys(kv: KeyValue) -> None:
    with pytest.raises(js_errors.NoKeysError):
        await kv.keys()
    for key in ("a", "a.b", "a.c.d", "ab", "gone", "purged"):
        await kv.put(key, b"1")
    await kv.delete("gone")
    await kv.purge("purged")
    assert await kv.keys() == ["a", "a.b", "a.c.d", "ab"]
    for filters, found in [
        (["a"], ["a"]),
        ("a", ["a"]),
        (["a.*"], ["a.b"]),
        (["a.>", "a"], ["a", "a.b", "a.c.d"]),
        # Filters that overlap, which the server would reject.
        (["a.b", "a.>", "a.*", "a.b"], ["a.b", "a.c.d"]),
        ([">", "a"], ["a", "a.b", "a.c.d", "ab"]),
        (["*"], ["a", "ab"]),
    ]:
        assert await kv.keys(filters) == found, filters
    with pytest.raises(js_errors.NoKeysError):
        await kv.keys(filters=["b"])
    for wrong in ("", "a..b", "a b", ">.a", "a.>.b", ".a"):
        with pytest.raises(js_errors.InvalidKeyError):
            await kv.keys([wrong])


async def test_lists_leave_no_consumer_behind(kv: KeyValue, js: JetStreamContext, bucket: str) -> None:
    await kv.put("a", b"1")
    await kv.keys()
    await kv.history("a")
    await kv.purge_deletes()
    (await kv.watchall(), await kv.watchall())
    async with await kv.watch("a"):
        assert (await js.stream_info(f"KV_{bucket}")).state.consumer_count == 3
    assert (await js.stream_info(f"KV_{bucket}")).state.consumer_count == 2


async def test_history(kv: KeyValue) -> None:
    for number in range(7):
        await kv.put("a", b"%d" % number)
        await kv.put("b", b"")
    entries = await kv.history("a")
    assert [entry.value for entry in entries] == [b"2", b"3", b"4", b"5", b"6"]
    assert [entry.delta for entry in entries] == [4, 3, 2, 1, 0]
    with pytest.raises(js_errors.NoKeysError):
        await kv.history("c")


async def test_purge_deletes(kv: KeyValue) -> None:
    for key in ("old", "kept", "again"):
        await kv.put(key, b"1")
        await kv.put(key, b"2")
        await kv.delete(key)
    await kv.purge("purged")
    await kv.put("again", b"3")
    assert await kv.purge_deletes() is True
    # Recent markers remain and the values before them are removed; a key with a new value is unchanged.
    found = [(entry.key, entry.operation) for entry in await kv.history(">")]
    assert found == [
        ("old", "DEL"),
        ("kept", "DEL"),
        ("again", None),
        ("again", None),
        ("again", "DEL"),
        ("purged", "PURGE"),
        ("again", None),
    ]
    assert await kv.purge_deletes(olderthan=-1)
    assert {entry.key for entry in await kv.history(">")} == {"again"}
    assert len(await kv.history("again")) == 4


async def test_markers_of_the_age_that_is_given_go(kv: KeyValue) -> None:
    await kv.put("a", b"1")
    await kv.delete("a")
    deleted = (await kv.history("a"))[-1].created
    assert deleted is not None
    await until(lambda: (datetime.now(UTC) - deleted).total_seconds() > 0.3)
    await kv.purge_deletes(olderthan=0.2)
    with pytest.raises(js_errors.NoKeysError):
        await kv.history("a")


async def test_status(kv: KeyValue, bucket: str) -> None:
    await kv.put("a", b"1")
    await kv.delete("a")
    status = await kv.status()
    assert (status.bucket, status.values, status.history, status.ttl, status.marker_ttl) == (bucket, 2, 5, 0, None)
    assert status.stream_info.config.name == f"KV_{bucket}"
    assert isinstance(status, KeyValue.BucketStatus)


async def test_a_bucket_that_is_gone(kv: KeyValue, js: JetStreamContext, bucket: str) -> None:
    await kv.put("a", b"1")
    await js.delete_key_value(bucket)
    for call in (kv.get("a"), kv.get("a", 1), kv.status(), kv.watchall(), kv.keys(), kv.history("a")):
        with pytest.raises(js_errors.BucketNotFoundError, match=bucket):
            await call
    with pytest.raises(errors.Error, match="no stream has the subject"):
        await kv.put("a", b"1")
    with pytest.raises(js_errors.NotFoundError):
        await kv.to_table()


async def test_a_value_that_the_bucket_does_not_take(js: JetStreamContext, bucket: str) -> None:
    kv = await js.create_key_value(bucket=bucket, max_value_size=10)
    with pytest.raises(js_errors.APIError, match="maximum"):
        await kv.put("a", b"x" * 1000)
    with pytest.raises(errors.MaxPayloadError):
        await kv.put("a", bytes(2_000_000))


@pytest.mark.skipif(server_version() < (2, 11), reason="what expires leaves markers from 2.11 on")
async def test_a_time_to_live(js: JetStreamContext, bucket: str) -> None:
    """A value that expires leaves a marker, and its key can be created again."""
    kv = await js.create_key_value(bucket=bucket, limit_marker_ttl=60)
    assert (await kv.status()).marker_ttl == 60
    async with await kv.watchall() as watcher:
        assert await watcher.updates() is None
        await kv.create("a", b"1", msg_ttl=1)
        assert (await watcher.updates()).value == b"1"
        marker = await watcher.updates(10)
        assert (marker.operation, marker.value, marker.revision) == ("PURGE", b"", 2)
        with pytest.raises(js_errors.KeyNotFoundError) as info:
            await kv.get("a")
        assert info.value.op == "PURGE"
        with pytest.raises(js_errors.NoKeysError):
            await kv.keys()
        assert (await kv.to_table()).num_rows == 0
        assert await kv.create("a", b"2", msg_ttl=timedelta(seconds=60)) == 3
    assert (await kv.get("a")).value == b"2"
    assert await kv.update("a", b"3", 3, msg_ttl=60) == 4
    await kv.purge("a", msg_ttl=1)

    async def gone() -> bool:
        return (await kv.status()).values == 0

    await until(gone)
    with pytest.raises(ValueError, match="msg_ttl"):
        await kv.create("b", b"", msg_ttl=0.5)


async def test_any_bucket_takes_a_time_to_live(kv: KeyValue) -> None:
    """Every bucket allows a time to live, as in nats-py."""
    await kv.create("a", b"1", msg_ttl=1)

    async def gone() -> bool:
        return (await kv.status()).values == 0

    await until(gone)


async def test_a_handle_by_hand(kv: KeyValue, js: JetStreamContext, bucket: str) -> None:
    await kv.put("a", b"1")
    mine = KeyValue(name=bucket, stream=f"KV_{bucket}", pre=f"$KV.{bucket}.", js=js, direct=False)
    assert (await mine.get("a")).value == b"1"
    assert await mine.put("a", b"2") == 2
    assert bucket in repr(mine)


async def test_a_server_that_does_not_answer(own_server: NatsServer, own: JetStreamContext) -> None:
    kv = await own.create_key_value(bucket="B")
    await kv.put("a", b"1")
    js = own._nc.jetstream(timeout=2)  # type: ignore[attr-defined]
    kv = await js.key_value("B")
    own_server.pause()
    try:
        for call in (kv.get("a"), kv.put("a", b"2"), kv.keys(), kv.status()):
            with pytest.raises(errors.TimeoutError):
                await call
    finally:
        own_server.resume()
