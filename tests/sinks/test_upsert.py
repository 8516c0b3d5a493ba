"""`js.to_delta(merge="upsert")`: one row for each key, in the transaction with the position."""

from __future__ import annotations

import asyncio
import json
import warnings
from pathlib import Path
from typing import Any

import deltalake
import jetarrow.polars
import jetarrow.sync
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jetarrow.jetstream.sinks.delta_merge import DeltaMerge
from jetarrow.js.api import StreamConfig
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SinkError, SinkLockedError, SinkSchemaError

SCHEMA = {"id": int, "value": str}


def rows(folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    table = deltalake.DeltaTable(folder).to_pyarrow_table().sort_by("seq")
    return list(zip(*(table[name].to_pylist() for name in columns or ("id", "value")), strict=True))


def position(folder: Path, stream: str) -> int | None:
    return deltalake.DeltaTable(folder).transaction_version(f"jetarrow:{stream}")


async def put(js: JetStreamContext, stream: str, *values: tuple[Any, Any], subject: str = "a") -> None:
    payloads = [json.dumps({"id": id, "value": value}).encode() for id, value in values]
    (await js.publish_batch(f"{stream}.{subject}", payloads)).raise_for_errors()


async def mark(js: JetStreamContext, stream: str, subject: str = "a") -> None:
    await js.publish(f"{stream}.{subject}", b"", headers={"KV-Operation": "DEL"})


def upsert(js: Any, stream: str, folder: Path, **options: Any) -> Any:
    return js.to_delta(stream, folder, **{"schema": SCHEMA, "merge": "upsert", "key": ["id"], **options})


async def test_upsert_by_column_keeps_the_last_row_of_each_key(
    js: JetStreamContext, stream: str, tmp_path: Path
) -> None:
    await put(js, stream, (1, "a"), (2, "b"), (1, "c"))
    assert await upsert(js, stream, tmp_path).run() == (3, 1, 1, 3, 0)
    await put(js, stream, (3, "d"), (2, "e"))
    assert await upsert(js, stream, tmp_path, key="id").run() == (2, 1, 4, 5, 0)
    assert rows(tmp_path) == [(1, "c"), (3, "d"), (2, "e")]
    assert await upsert(js, stream, tmp_path).run() == (0, 0, None, None, 0)
    operations = [commit["operation"] for commit in deltalake.DeltaTable(tmp_path).history()]
    assert operations == ["MERGE", "MERGE", "CREATE TABLE"]


async def test_upsert_of_a_bucket_equals_its_keys(js: JetStreamContext, tmp_path: Path) -> None:
    """The bucket has one message for each key, so that its first messages vanish behind the position."""
    bucket = await js.create_key_value(bucket="upsert_test")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for turn in range(4):
                for key in range(5):
                    await bucket.put(f"k{key}", b"%d" % turn)
                await bucket.delete(f"k{turn}")
                if turn == 2:
                    await bucket.purge("k4")
                await upsert(js, "KV_upsert_test", tmp_path, schema=None, key="subject").run()
                keys = {(f"$KV.upsert_test.{key}", (await bucket.get(key)).value) for key in await bucket.keys()}
                assert set(rows(tmp_path, "subject", "data")) == keys
        assert keys == {(f"$KV.upsert_test.k{key}", b"3") for key in (0, 1, 2, 4)}
    finally:
        await js.delete_key_value("upsert_test")


async def test_marker_of_an_expired_message_deletes_its_row(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await js.delete_stream(stream)
    # The server raises a message's time to live to that of its marker.
    await js.add_stream(
        StreamConfig(name=stream, subjects=[f"{stream}.>"], allow_msg_ttl=True, subject_delete_marker_ttl=8)
    )
    await js.publish(f"{stream}.a", b'{"id": 1}', headers={"Nats-TTL": "8s"})
    await js.publish(f"{stream}.b", b'{"id": 2}')
    await upsert(js, stream, tmp_path, key="subject").run()
    assert rows(tmp_path, "id") == [(1,), (2,)]
    async with js.read(stream, start_seq=3, follow=True) as reader:
        marker = await anext(reader)
    assert marker.to_pyarrow()["headers"][0].as_py()[0] == ("Nats-Marker-Reason", ["MaxAge"])
    assert (await upsert(js, stream, tmp_path, key="subject").run()).rows == 1
    assert rows(tmp_path, "id") == [(2,)]


async def test_markers_delete_all_rows_of_their_subject(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await put(js, stream, (1, "a"), (2, "a"))
    await put(js, stream, (3, "b"), (2, "b"), subject="b")
    await upsert(js, stream, tmp_path).run()
    await mark(js, stream)
    await put(js, stream, (4, "a"))
    await upsert(js, stream, tmp_path).run()
    assert rows(tmp_path) == [(3, "b"), (2, "b"), (4, "a")]


async def test_ignored_markers_change_only_the_position(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await put(js, stream, (1, "a"))
    await mark(js, stream)
    assert (await upsert(js, stream, tmp_path, deletes="none").run()) == (1, 1, 1, 1, 0)
    await mark(js, stream)
    assert (await upsert(js, stream, tmp_path, deletes="none").run()) == (0, 0, None, None, 0)
    assert position(tmp_path, stream) == 3
    assert rows(tmp_path) == [(1, "a")]


async def test_merge_without_changes_commits_its_position(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    """A merge that changes no row makes no transaction."""
    await mark(js, stream)
    assert (await upsert(js, stream, tmp_path, key="subject").run()).rows == 1
    assert position(tmp_path, stream) == 1
    await mark(js, stream)
    await upsert(js, stream, tmp_path, key="subject").run()
    assert position(tmp_path, stream) == 2
    assert rows(tmp_path, "seq") == []


async def test_rows_without_a_key_are_corrupt(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await put(js, stream, (1, "a"), (None, "b"), (2, None), (2, ""), (3, "c"))
    options: dict[str, Any] = {"key": ["id", "value"], "partition_by": "value"}
    assert (await upsert(js, stream, tmp_path, **options).run()).corrupt == 3
    assert rows(tmp_path) == [(1, "a"), (3, "c")]
    (folder,) = (tmp_path / "_corrupt").iterdir()
    found = pq.read_table(folder, partitioning=None).sort_by("seq")
    assert found["seq"].to_pylist() == [2, 3, 4]
    assert found["_error"].to_pylist() == [
        "key column 'id' is null",
        "key column 'value' is null",
        "key column 'value' is empty, which is null as a partition",
    ]
    assert json.loads(found["_corrupt_record"][0].as_py()) == {"id": None, "value": "b"}


async def test_key_that_moves_to_another_partition_exists_once(
    js: JetStreamContext, stream: str, tmp_path: Path
) -> None:
    for value in ("eu", "us", "eu"):
        await put(js, stream, (1, value), (2, "ap"))
        await upsert(js, stream, tmp_path, partition_by="value").run()
        assert rows(tmp_path) == [(1, value), (2, "ap")]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["", "a", "A", "a'b", "`", "é", "x" * 300]),
        (pa.int8(), [-128, 0, 127]),
        (pa.int64(), [-(2**63), 0, 2**63 - 1]),
        (pa.bool_(), [True, False]),
        (pa.binary(), ["AA==", "/w==", "YWJj"]),
        (pa.decimal128(38, 2), ["-1.50", "1.50", "0.00"]),
        (pa.date32(), ["1969-12-31", "2026-11-26"]),
        (pa.timestamp("us", "UTC"), ["1969-12-31T23:59:59.999999Z", "2026-11-26T10:00:00.000001Z"]),
        (pa.timestamp("ms"), ["2026-11-26T10:00:00.001", "2026-11-26T10:00:00.002"]),
    ],
)
async def test_key_of_each_type_is_found_again(
    js: JetStreamContext, stream: str, tmp_path: Path, kind: pa.DataType, values: list[Any]
) -> None:
    schema = pa.schema([("id", kind), ("value", pa.string())])
    for turn in ("one", "two"):
        await put(js, stream, *((value, turn) for value in values))
        await upsert(js, stream, tmp_path, schema=schema, rows=2).run()
        found = rows(tmp_path)
        assert len({id for id, _ in found}) == len(found) == len(values)
        assert {value for _, value in found} == {turn}


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("price", "'price' of type double"),
        ("count", "'count' of type uint64"),
        ("tags", "'tags' of type list<"),
        ("at", r"'at' of type timestamp\[ns\]"),
        ("place", "'place' of type struct<"),
        ("seq", "'seq' as a key"),
        ("nothing", "key columns can be subject, price, count"),
    ],
)
async def test_key_that_has_no_exact_equality_is_refused(
    js: JetStreamContext, stream: str, tmp_path: Path, key: str, reason: str
) -> None:
    schema = pa.schema(
        [
            ("price", pa.float64()),
            ("count", pa.uint64()),
            ("tags", pa.list_(pa.string())),
            ("at", pa.timestamp("ns")),
            ("place", pa.struct([("x", pa.int64())])),
        ]
    )
    await put(js, stream, (1, "a"))
    with pytest.raises(SinkSchemaError, match=reason):
        await upsert(js, stream, tmp_path / "t", schema=schema, key=["subject", key]).run()
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"merge": "upsert"}, "needs the key"),
        ({"merge": "upsert", "key": []}, "needs the key"),
        ({"merge": "upsert", "key": ["id", "id"]}, "twice: id, id"),
        ({"merge": "replace"}, "merge"),
        ({"merge": "upsert", "key": "id", "deletes": "all"}, "deletes"),
        ({"key": "id"}, "give merge='upsert' too"),
        ({"deletes": "none"}, "give merge='upsert' too"),
        ({"merge": "upsert", "key": "id", "durable": "d"}, "durable exclude each other"),
        ({"merge": "upsert", "key": "id", "on_rollback": "continue"}, "give on_rollback='earliest'"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    sync_js: jetarrow.sync.JetStream, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        sync_js.to_delta("S", "never", **options)


async def test_restart_with_other_options_is_an_error(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await put(js, stream, (1, "a"))
    await upsert(js, stream, tmp_path / "keys").run()
    await js.to_delta(stream, tmp_path / "plain", schema=SCHEMA).run()
    for options in ({"key": "subject"}, {"deletes": "none"}, {"key": ["id", "value"]}):
        with pytest.raises(SinkError, match=r"key=\['id'\], deletes='markers', and this sink has merge='upsert', key="):
            await upsert(js, stream, tmp_path / "keys", **options).run()
    with pytest.raises(SinkError, match="and this sink has merge='append'; give the former options"):
        await js.to_delta(stream, tmp_path / "keys", schema=SCHEMA).run()
    with pytest.raises(SinkError, match="were written with merge='append'"):
        await upsert(js, stream, tmp_path / "plain").run()


async def test_streams_of_one_table_have_their_own_rows(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    other = f"{stream}X"
    await js.add_stream(name=other, subjects=[f"{other}.>"])
    for turn in ("a", "b"):
        for name in (stream, other):
            await put(js, name, (1, f"{turn} {name}"), (2, turn))
            await mark(js, name, subject="none")
            await upsert(js, name, tmp_path).run()
    await mark(js, other)
    await upsert(js, other, tmp_path).run()
    assert rows(tmp_path, "stream", "id", "value") == [(stream, 1, f"b {stream}"), (stream, 2, "b")]
    with pytest.raises(SinkError, match=f"the sink with the app_id 'jetarrow:{stream}' writes it"):
        await upsert(js, stream, tmp_path, app_id="second").run()


def test_second_sink_of_an_app_id_fails_in_its_transaction(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = DeltaMerge._merge

    def overtaken(self: DeltaMerge, *args: Any) -> None:
        monkeypatch.setattr(DeltaMerge, "_merge", merge)
        assert upsert(sync_js, stream, tmp_path).run().rows == 1
        merge(self, *args)

    for value in ("a", "b"):
        sync_js.publish(f"{stream}.a", json.dumps({"id": 1, "value": value}).encode())
        if value == "a":
            upsert(sync_js, stream, tmp_path).run()
    monkeypatch.setattr(DeltaMerge, "_merge", overtaken)
    with pytest.raises(SinkLockedError, match="another sink with the app_id"):
        upsert(sync_js, stream, tmp_path).run()
    assert rows(tmp_path) == [(1, "b")]


@pytest.mark.parametrize("id", [1, 5])
def test_merge_is_repeated_after_a_write_of_another_program(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id: int
) -> None:
    """The row of the other program has a key of the merge, or another one."""
    merge, merges = DeltaMerge._merge, []

    def crossed(self: DeltaMerge, table: Any, *args: Any) -> None:
        merges.append(table.version())
        if len(merges) == 1:
            foreign = deltalake.DeltaTable(tmp_path)
            row = {"stream": "other", "seq": 99, "subject": "x", "timestamp": 0, "id": id, "value": "foreign"}
            schema = pa.schema(foreign.schema().to_arrow())
            deltalake.write_deltalake(foreign, pa.Table.from_pylist([row], schema), mode="append")
            foreign.optimize.compact()
        merge(self, table, *args)

    sync_js.publish(f"{stream}.a", b'{"id": 1, "value": "a"}')
    upsert(sync_js, stream, tmp_path).run()
    sync_js.publish(f"{stream}.a", b'{"id": 1, "value": "b"}')
    monkeypatch.setattr(DeltaMerge, "_merge", crossed)
    upsert(sync_js, stream, tmp_path).run()
    assert rows(tmp_path) == [(1, "b"), (id, "foreign")]
    assert len(merges) == 2


def test_merge_that_never_commits_is_an_error(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    def conflict(self: DeltaMerge, *args: Any) -> None:
        attempts.append(args)
        raise deltalake.exceptions.CommitFailedError("a concurrent transactions added new data")

    sync_js.publish(f"{stream}.a", b'{"id": 1}')
    monkeypatch.setattr(DeltaMerge, "_merge", conflict)
    with pytest.raises(SinkError, match="could not merge rows in 10 attempts"):
        upsert(sync_js, stream, tmp_path).run()
    assert len(attempts) == 10
    assert position(tmp_path, stream) is None


async def test_columns_of_any_name_are_merged(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    names = ["a.b", "a b", "Größe", "SELECT", "it's", 'a"b']
    schema = pa.schema([(name, pa.string()) for name in names])
    for turn in ("1", "2"):
        await js.publish(f"{stream}.a", json.dumps(dict.fromkeys(names, turn) | {"a.b": "key"}).encode())
        await mark(js, stream, subject="b")
        await upsert(js, stream, tmp_path, schema=schema, key=["a.b", 'a"b'][:1]).run()
    assert rows(tmp_path, *names) == [("key", *["2"] * 5)]


async def test_value_that_the_table_cannot_have_names_its_column(
    js: JetStreamContext, stream: str, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64()), ("count", pa.uint32())])
    await js.publish(f"{stream}.a", b'{"id": 1, "count": 4294967295}')
    with pytest.raises(SinkSchemaError, match="column 'count' is uint32, and int32 in the table"):
        await upsert(js, stream, tmp_path, schema=schema).run()
    assert position(tmp_path, stream) is None


async def test_table_of_other_columns_is_refused(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await put(js, stream, (1, "a"))
    deltalake.write_deltalake(tmp_path, pa.table({"id": [1], "other": ["x"]}))
    with pytest.raises(SinkSchemaError, match="headers, other, seq, stream"):
        await upsert(js, stream, tmp_path).run()


def test_sink_with_keys_without_a_loop(sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path) -> None:
    for value in range(10):
        sync_js.publish(f"{stream}.a{value % 2}", b"%d" % value)
    with upsert(sync_js, stream, tmp_path, schema=None, key="subject", rows=5) as sink:
        assert [sink.step().rows, sink.lag(), sink.step().rows] == [5, 5, 5]
        assert sink.compact() >= 0
    assert rows(tmp_path, "data") == [(b"8",), (b"9",)]


async def test_new_columns_are_added_by_a_merge(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await put(js, stream, (1, "a"), (2, "b"))
    await upsert(js, stream, tmp_path).run()
    schemas: list[dict[str, Any]] = [{"id": int, "value": str, "more": int}, {"id": int, "more": int}]
    await js.publish(f"{stream}.a", b'{"id": 2, "value": "c", "more": 7}')
    with pytest.raises(SinkSchemaError, match="more is new"):
        await upsert(js, stream, tmp_path, schema=schemas[0]).run()
    await upsert(js, stream, tmp_path, schema=schemas[0], evolve="add").run()
    assert rows(tmp_path, "id", "value", "more") == [(1, "a", None), (2, "c", 7)]
    # Columns that the rows do not have are null in them.
    await js.publish(f"{stream}.a", b'{"id": 2, "more": 8}')
    await mark(js, stream, subject="b")
    await upsert(js, stream, tmp_path, schema=schemas[1], evolve="add").run()
    assert rows(tmp_path, "id", "value", "more") == [(1, "a", None), (2, None, 8)]
    await js.publish(f"{stream}.a", b'{"id": 2, "more": "x"}')
    with pytest.raises(SinkSchemaError, match="its column 'more' is long, and that of the rows is string"):
        await upsert(js, stream, tmp_path, schema={"id": int, "more": str}, evolve="add").run()


async def test_table_with_keys_is_no_archive_of_its_stream(
    js: JetStreamContext, nats_url: str, stream: str, tmp_path: Path
) -> None:
    """Rows of the stream would have to replace rows of the table."""
    await put(js, stream, (1, "a"))
    await upsert(js, stream, tmp_path).run()
    await put(js, stream, (1, "b"))
    with pytest.raises((SinkError, pl.exceptions.ComputeError), match="keeps one row for each key"):
        await asyncio.to_thread(
            lambda: jetarrow.polars.scan(nats_url, stream, archive=str(tmp_path), schema=SCHEMA).collect()
        )
