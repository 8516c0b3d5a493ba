"""Reads a bucket as a table, and writes a table into a bucket."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import jetarrow
import polars
import pyarrow as pa
import pytest
from jetarrow import errors
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.js.kv import KeyValue
from jetarrow.server import NatsServer

from ..conftest import EAGER
from ..test_read_malformed import MALFORMED, publish_raw, wait_stored


def rows(table: pa.Table) -> dict[str, bytes]:
    keys = table["key"].to_pylist()
    assert len(keys) == len(set(keys))
    return dict(zip(keys, table["value"].to_pylist(), strict=True))


async def test_live_values_only(kv: KeyValue) -> None:
    assert (await kv.to_table()).num_rows == 0
    for key, value in [("a", b"1"), ("b.c", b"2"), ("gone", b"3"), ("purged", b"4"), ("a", b"5"), ("empty", b"")]:
        await kv.put(key, value)
    await kv.delete("gone")
    await kv.purge("purged")
    table = await kv.to_table()
    assert table.schema.names == ["key", "value", "revision", "created"]
    assert [field.nullable for field in table.schema] == [False] * 4
    assert table.schema.field("created").type == pa.timestamp("ns", "UTC")
    assert table["key"].to_pylist() == ["b.c", "a", "empty"]
    assert table["value"].to_pylist() == [b"2", b"5", b""]
    assert table["revision"].to_pylist() == [2, 5, 6]
    entry = await kv.get("a")
    assert table["created"].cast(pa.timestamp("us", "UTC"), safe=False).to_pylist()[1] == entry.created
    assert rows(await kv.to_table("a")) == {"a": b"5"}
    assert rows(await kv.to_table(["b.*", "b.>", "gone", "empty"])) == {"b.c": b"2", "empty": b""}
    assert (await kv.to_table("nothing")).num_rows == 0
    assert (await kv.to_table("nothing")).schema == table.schema
    assert (await kv.to_table(timestamp_unit="us")).schema.field("created").type == pa.timestamp("us", "UTC")


async def test_typed_values(kv: KeyValue) -> None:
    """Markers contain no JSON, and do not count as malformed rows."""
    for number in range(3):
        await kv.put(f"k{number}", json.dumps({"id": number, "name": f"n{number}"}))
    await kv.put("bad", b"not json")
    await kv.delete("k1")
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    table = await kv.to_table(["k0", "k1", "k2"], schema, mode="FAILFAST")
    assert table["value"].to_pylist() == [{"id": 0, "name": "n0"}, {"id": 2, "name": "n2"}]
    assert table["revision"].to_pylist() == [1, 3]
    table = await kv.to_table(schema=schema)
    assert table.schema.names == ["key", "value", "_corrupt_record", "_error", "revision", "created"]
    assert table["_corrupt_record"].to_pylist() == [None, None, "not json"]
    assert (await kv.to_table(schema=schema, mode="DROPMALFORMED")).num_rows == 2
    with pytest.raises(js_errors.DecodeError) as info:
        await kv.to_table(schema=schema, mode="FAILFAST")
    assert info.value.seq == 4


async def test_read_in_batches(kv: KeyValue) -> None:
    count = 1000
    (await kv.put_batch([f"k{number}" for number in range(count)], ["x"] * count)).raise_for_errors()
    seen: list[int] = []
    reported: list[tuple[int, int | None]] = []
    async with kv.read(batch_rows=100, progress=lambda done, total: reported.append((done, total))) as reader:
        async for batch in reader:
            assert len(batch) <= 100
            assert batch.schema.names == ["key", "value", "revision", "created"]
            seen += [seq or 0 for seq in batch.seqs.to_pylist()]
    assert seen == list(range(1, count + 1))
    assert reported[-1] == (count, count)
    frame = polars.DataFrame(kv.read("k1"))
    assert frame.rows()[0][:3] == ("k1", b"x", 2)


async def test_a_table_while_others_write(nats_url: str, js: JetStreamContext, bucket: str) -> None:
    """A read yields each key exactly once while its value changes.

    In a bucket with a longer history a key is missed only if all of its revisions change during the read.
    """
    kv = await js.create_key_value(bucket=bucket)
    count, stop = 3000, threading.Event()
    keys = [f"k{number}" for number in range(count)]
    (await kv.put_batch(keys, ["0"] * count)).raise_for_errors()

    def write() -> None:
        with jetarrow.sync.connect(nats_url) as nc:
            mine = nc.jetstream().key_value(bucket)
            while not stop.is_set():
                mine.put_batch(keys, ["1"] * count).raise_for_errors()

    thread = threading.Thread(target=write)
    thread.start()
    replaced = 0
    try:
        # The scheduler decides how often the writer runs between two reads.
        for number in range(200):
            if number >= 5 and replaced:
                break
            async with kv.read() as reader:
                table = await reader.read_all()
                assert sorted(table["key"].to_pylist()) == sorted(keys)
                replaced += sum(revision >= (reader.position or 0) for revision in table["revision"].to_pylist())
            assert sorted((await kv.to_table())["key"].to_pylist()) == sorted(keys)
    finally:
        stop.set()
        thread.join()
    assert replaced, "nothing was written while it read: the test saw nothing"


async def test_a_table_over_restarts(own_server: NatsServer) -> None:
    count = 100_000
    async with await jetarrow.connect(own_server.url, **EAGER) as nc:
        kv = await nc.jetstream().create_key_value(bucket="B", history=2)
        keys = [f"k{number}" for number in range(count)]
        for value in ("old" * 20, "new" * 20):
            (await kv.put_batch(keys, [value] * count)).raise_for_errors()
        seen: list[int] = []
        restarts = 0
        async with kv.read(batch_rows=5000) as reader:
            async for batch in reader:
                seen += [seq or 0 for seq in batch.seqs.to_pylist()]
                if restarts < 2 and len(seen) > (restarts + 1) * 15_000:
                    restarts += 1
                    await asyncio.to_thread(own_server.kill)
                    await asyncio.to_thread(own_server.start)
        assert restarts == 2
        assert seen == list(range(count + 1, 2 * count + 1))


async def test_a_deleted_consumer(own: JetStreamContext) -> None:
    count = 100_000
    kv = await own.create_key_value(bucket="B")
    (await kv.put_batch([f"k{number}" for number in range(count)], ["x" * 100] * count)).raise_for_errors()
    seen: list[int] = []
    deleted = False
    async with kv.read(batch_rows=5000) as reader:
        async for batch in reader:
            seen += [seq or 0 for seq in batch.seqs.to_pylist()]
            if not deleted:
                deleted = True
                for name in [name async for name in own.stream("KV_B").consumer_names()]:
                    await own.delete_consumer("KV_B", name)
    assert seen == list(range(1, count + 1))


@pytest.mark.parametrize("kind", MALFORMED)
async def test_values_with_malformed_headers(
    nats_url: str, kv: KeyValue, js: JetStreamContext, bucket: str, kind: str
) -> None:
    """One header breaks the connection at each delivery, from any start of the read; the read skips it."""
    for key in ("a", "b", "c", "a", "d"):
        await kv.put(key, b"1")
    publish_raw(nats_url, f"$KV.{bucket}.b", [(MALFORMED[kind][0], b"malformed")])
    await wait_stored(js, f"KV_{bucket}", 6)
    await kv.put("c", b"2")
    await kv.delete("d")
    await kv.put("e", b"3")

    async def quiet(_: Exception) -> None:
        pass

    async with await jetarrow.connect(nats_url, error_cb=quiet, reconnect_time_wait=0.05) as nc:
        mine = await nc.jetstream().key_value(bucket)
        table = await asyncio.wait_for(mine.to_table(), 30)
    assert rows(table) == {"a": b"1", "b": b"malformed", "c": b"2", "e": b"3"}


async def test_put_batch(kv: KeyValue, js: JetStreamContext, bucket: str) -> None:
    result = await kv.put_batch(["a", "b.c"], [b"1", "2"])
    assert (result.stored, result.seqs.to_pylist(), result.stream) == (2, [1, 2], f"KV_{bucket}")
    table = pa.table({"k": ["a", "d"], "v": [b"3", b"4"]})
    (await kv.put_batch(table["k"], table["v"])).raise_for_errors()
    (await kv.put_batch(pa.array(["e"], pa.large_string()), ["5"])).raise_for_errors()
    (await kv.put_batch(["f"], pa.array([b"6"]))).raise_for_errors()
    assert rows(await kv.to_table()) == {"a": b"3", "b.c": b"2", "d": b"4", "e": b"5", "f": b"6"}
    assert (await kv.put_batch([], [])).count == 0
    small = await js.update_key_value(bucket=bucket, max_value_size=40)
    partly = await small.put_batch(["g", "h"], [b"x", b"x" * 1000])
    assert (partly.stored, [row for row, _ in partly.errors]) == (1, [1])


async def test_put_batch_refuses_what_is_wrong(kv: KeyValue) -> None:
    with pytest.raises(js_errors.InvalidKeyError, match=r"keys\[1\]"):
        await kv.put_batch(["a", "b..c"], [b"", b""])
    with pytest.raises(js_errors.InvalidKeyError, match=r"keys\[1\]"):
        await kv.put_batch(pa.array(["a", None]), [b"", b""], validate_keys=False)
    wrong: list[tuple[Any, Any]] = [("ab", [b"", b""]), ([1, 2], [b"", b""]), (["a"], [None]), (5, [b""])]
    for keys, values in wrong:
        with pytest.raises(TypeError):
            await kv.put_batch(keys, values)
    with pytest.raises(ValueError, match="2 entries"):
        await kv.put_batch(["a", "b"], [b""])
    with pytest.raises(errors.MaxPayloadError):
        await kv.put_batch(["a"], [bytes(2_000_000)])
    assert (await kv.status()).values == 0
