"""`js.to_iceberg`: a commit is a snapshot of the table with the position."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jetarrow.sync
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jetarrow.errors import Error, UnsupportedError
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import (
    SinkError,
    SinkLockedError,
    SinkSchemaError,
    StreamRecreatedError,
)
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform

from ..tools import fill_sync, store
from .iceberg_tools import NAME, corrupt_files, rows, seqs, sql_catalog
from .tools import SCHEMA, fill, readings


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return sql_catalog(tmp_path)


async def test_all_messages_and_later_ones(js: JetStreamContext, stream: str, catalog: SqlCatalog) -> None:
    await fill(js, stream, 101)
    sink = js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA, rows=40)
    assert repr(sink) == f"<Sink of stream {stream} to {NAME}>"
    assert await sink.run() == (100, 3, 1, 100, 0)
    assert await js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA).run() == (0, 0, None, None, 0)
    await fill(js, stream, 111, start=101)
    assert (await js.to_iceberg(stream, ("db", "rows"), catalog=catalog, schema=SCHEMA).run()).rows == 10
    found = rows(catalog)
    assert found["id"].to_pylist() == found["seq"].to_pylist() == list(range(1, 111))
    metadata = catalog.load_table(NAME).metadata
    records = [json.loads(snapshot.summary["jetarrow"]) for snapshot in metadata.snapshots]
    assert [record["last_seq"] for record in records] == [40, 80, 100, 110]
    assert [record["number"] for record in records] == [1, 2, 3, 4]
    assert [record["snapshot_id"] for record in records] == [each.snapshot_id for each in metadata.snapshots]
    assert [record["sequence_number"] for record in records] == [each.sequence_number for each in metadata.snapshots]
    kept = json.loads(metadata.properties[f"jetarrow.jetarrow:{stream}"])
    assert {name: value for name, value in kept.items() if name not in ("schema", "columns")} == records[-1]
    assert (kept["stream"], kept["app_id"], max(kept["marks"])[0]) == (stream, f"jetarrow:{stream}", 110)


async def test_rows_without_a_schema_have_all_columns(js: JetStreamContext, stream: str, catalog: SqlCatalog) -> None:
    await js.publish(f"{stream}.a", b"\x00\xff", headers={"one": "1"})
    await js.to_iceberg(stream, NAME, catalog=catalog).run()
    (row,) = rows(catalog).to_pylist()
    assert (row["data"], row["headers"], row["subject"]) == (b"\x00\xff", [("one", ["1"])], f"{stream}.a")
    assert row["timestamp"] is not None


async def test_new_table_is_partitioned_by_columns_and_times(
    js: JetStreamContext, stream: str, catalog: SqlCatalog
) -> None:
    await fill(js, stream, 31)
    options: dict[str, Any] = {"schema": SCHEMA, "partition_by": ["region", "date"]}
    async with js.to_iceberg(stream, NAME, catalog=catalog, rows=10, **options) as sink:
        for _ in range(3):
            assert (await sink.step()).files == 3
        with pytest.raises(UnsupportedError, match="rewrite_data_files"):
            await sink.compact()
    table = catalog.load_table(NAME)
    assert [(field.name, field.transform) for field in table.spec().fields] == [
        ("region", IdentityTransform()),
        ("date", IdentityTransform()),
    ]
    assert seqs(catalog) == list(range(1, 31))
    assert sorted(table.scan(row_filter="region = 'eu'").to_arrow()["seq"].to_pylist()) == list(range(3, 31, 3))
    with pytest.raises(SinkSchemaError, match="partitioned by"):
        await js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA, partition_by="region").run()
    await fill(js, stream, 41, start=31)
    assert (await js.to_iceberg(stream, NAME, catalog=catalog, **options).run()).first_seq == 31


async def test_partitions_of_an_existing_table_are_kept(js: JetStreamContext, stream: str, catalog: SqlCatalog) -> None:
    await fill(js, stream, 1)
    await js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA).run()
    await fill(js, stream, 4)
    await js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA).run()
    table = catalog.load_table(NAME)
    with table.update_spec() as update:
        update.add_identity("region")
    await store(js, f"{stream}.a", [*readings(4, 7), b'{"id": 7}'])
    assert (await js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA).run()).files == 4
    assert seqs(catalog) == list(range(1, 8))
    assert catalog.load_table(NAME).scan(row_filter="region = 'us'").to_arrow()["seq"].to_pylist() == [4, 1]


async def test_names_of_columns_with_any_characters(js: JetStreamContext, stream: str, catalog: SqlCatalog) -> None:
    first = {"a.b": int, "größe": str, "a b": str}
    values = [{"a.b": 1, "größe": "x", "a b": "y"}, {"a.b": 2, "größe": "x/ÿ z", "a b": None}]
    await js.publish_batch(f"{stream}.a", [json.dumps(value).encode() for value in values])
    await js.to_iceberg(stream, NAME, catalog=catalog, schema=first, partition_by=["größe", "a.b"]).run()
    await js.publish(f"{stream}.a", b'{"a.b": 3, "1.x": 4}')
    wide = {**first, "1.x": int}
    await js.to_iceberg(stream, NAME, catalog=catalog, schema=wide, partition_by=["größe", "a.b"], evolve="add").run()
    assert rows(catalog).select(list(wide)).to_pylist() == [
        *({**value, "1.x": None} for value in values),
        {"a.b": 3, "größe": None, "a b": None, "1.x": 4},
    ]


async def test_transforms_of_partitions_need_pyiceberg_core(
    js: JetStreamContext, stream: str, catalog: SqlCatalog
) -> None:
    await fill(js, stream, 4)
    await js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA).run()
    with catalog.load_table(NAME).update_spec() as update:
        update.add_field("timestamp", DayTransform(), "day")
        update.add_field("id", BucketTransform(2), "bucket")
    await fill(js, stream, 11, start=4)
    sink = js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA)
    if find_spec("pyiceberg_core") is None:
        with pytest.raises(UnsupportedError, match="pyiceberg-core"):
            await sink.run()
        assert seqs(catalog) == [1, 2, 3]
    else:
        assert (await sink.run()).files == 2
        assert seqs(catalog) == list(range(1, 11))


async def test_float_partitions_are_refused_before_a_commit(
    js: JetStreamContext, stream: str, catalog: SqlCatalog
) -> None:
    await js.publish(f"{stream}.a", b'{"at": 1.5}')
    with pytest.raises(SinkSchemaError, match="'at' of type double"):
        await js.to_iceberg(stream, NAME, catalog=catalog, schema={"at": float}, partition_by="at").run()
    assert not catalog.table_exists(NAME)
    # An existing table may have them.
    await js.to_iceberg(stream, NAME, catalog=catalog, schema={"at": float}).run()
    with catalog.load_table(NAME).update_spec() as update:
        update.add_identity("at")
    await store(js, f"{stream}.a", [b'{"at": 0.0}', b'{"at": -0.0}'])
    with pytest.raises(SinkError, match=r"4 of 2 rows are in a partition"):
        await js.to_iceberg(stream, NAME, catalog=catalog, schema={"at": float}).run()
    assert seqs(catalog) == [1]


async def test_undecodable_rows_are_beside_the_table(js: JetStreamContext, stream: str, catalog: SqlCatalog) -> None:
    def sink() -> Any:
        return js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA)

    await store(js, f"{stream}.a", [b"first", *readings(2, 4), b"nope"])
    assert await sink().run() == (2, 1, 2, 3, 2)
    # Only such rows: the position is committed.
    await store(js, f"{stream}.a", [b"no"])
    assert await sink().run() == (0, 0, None, None, 1)
    assert await sink().run() == (0, 0, None, None, 0)
    files = corrupt_files(catalog)
    assert len(files) == 2
    # Rows of a commit that was not completed: the next commit has their number.
    left = files[0].with_name(f"{3:020d}-{'0' * 32}.parquet")
    left.write_bytes(b"incomplete")
    lost = files[0].with_name(f"{2:020d}-{'0' * 32}.parquet")
    lost.write_bytes(b"of a writer that lost number 2")
    assert (await sink().run()).corrupt == 0
    assert (left.exists(), lost.exists()) == (True, False)
    await store(js, f"{stream}.a", [b"again"])
    assert (await sink().run()).corrupt == 1
    assert not left.exists()
    found = pa.concat_tables([pq.read_table(path, partitioning=None) for path in corrupt_files(catalog)])
    assert found["_corrupt_record"].to_pylist() == ["first", "nope", "no", "again"]
    assert seqs(catalog) == [2, 3]


async def test_only_undecodable_rows_make_an_empty_table_with_a_position(
    js: JetStreamContext, stream: str, catalog: SqlCatalog
) -> None:
    await store(js, f"{stream}.a", [b"no"])
    assert (await js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA).run()).corrupt == 1
    assert (await js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA).run()).corrupt == 0
    assert rows(catalog).num_rows == 0


async def test_two_sinks_of_one_table(js: JetStreamContext, stream: str, catalog: SqlCatalog) -> None:
    await fill(js, stream, 11)
    await js.to_iceberg(stream, NAME, catalog=catalog, app_id="one", rows=5).run()
    await js.to_iceberg(stream, NAME, catalog=catalog, app_id="two").run()
    assert seqs(catalog) == sorted([*range(1, 11)] * 2)
    await fill(js, stream, 21, start=11)
    async with js.to_iceberg(stream, NAME, catalog=catalog, app_id="one", rows=5) as slow:
        await slow.step()
        await js.to_iceberg(stream, NAME, catalog=catalog, app_id="one").run()
        with pytest.raises(SinkLockedError, match="another sink with the app_id 'one'"):
            await slow.step()
        assert (await slow.step()).rows == 0
    assert rows(catalog).num_rows == 30


async def test_errors(
    js: JetStreamContext, stream: str, catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="a namespace and a name"):
        js.to_iceberg(stream, "rows", catalog=catalog)
    with pytest.raises(ValueError, match="evolve"):
        js.to_iceberg(stream, NAME, catalog=catalog, evolve="all")  # type: ignore[arg-type]
    await fill(js, stream, 4)
    with pytest.raises(SinkError, match=r"no namespace 'none'; create it"):
        await js.to_iceberg(stream, "none.rows", catalog=catalog).run()
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with pytest.raises(SinkError, match=r"could not load catalog 'unknown' of db\.rows"):
        await js.to_iceberg(stream, NAME, catalog="unknown").run()
    await js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA).run()
    await fill(js, stream, 6, start=4)
    with pytest.raises(SinkSchemaError, match="id was int64 and is string"):
        await js.to_iceberg(stream, NAME, catalog=catalog, schema={"id": str, "region": str}).run()
    with pytest.raises(SinkError, match="it is the archive of stream"):
        await js.add_stream(name=f"{stream}X", subjects=[f"{stream}X.>"])
        await js.to_iceberg(f"{stream}X", NAME, catalog=catalog, schema=SCHEMA, app_id=f"jetarrow:{stream}").run()
    await js.delete_stream(stream)
    await js.add_stream(name=stream, subjects=[f"{stream}.>"])
    with pytest.raises(StreamRecreatedError):
        await js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA).run()
    assert seqs(catalog) == [1, 2, 3]
    catalog.create_table("db.old", rows(catalog).schema, properties={"format-version": "1"})
    with pytest.raises(SinkSchemaError, match="format version 1"):
        await js.to_iceberg(stream, "db.old", catalog=catalog).run()


async def test_table_that_was_removed_is_an_error(js: JetStreamContext, stream: str, catalog: SqlCatalog) -> None:
    await fill(js, stream, 11)
    async with js.to_iceberg(stream, NAME, catalog=catalog, rows=5) as sink:
        await sink.step()
        catalog.drop_table(NAME)
        with pytest.raises(SinkError, match="removed since the last commit"):
            await sink.step()


async def test_catalog_by_name(
    js: JetStreamContext, stream: str, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyiceberg reads its configuration once, when it is imported; the environment is read with it."""
    from pyiceberg import catalog as catalogs

    monkeypatch.setattr(catalogs, "load_catalog", lambda name: {"prod": catalog}[name])
    await fill(js, stream, 4)
    assert (await js.to_iceberg(stream, NAME, catalog="prod").run()).rows == 3
    assert seqs(catalog) == [1, 2, 3]


def test_without_a_loop(sync_js: jetarrow.sync.JetStream, stream: str, catalog: SqlCatalog) -> None:
    fill_sync(sync_js, stream, 30)
    with sync_js.to_iceberg(stream, NAME, catalog=catalog, rows=20) as sink:
        assert [sink.step().rows, sink.step().rows] == [20, 10]
        assert sink.lag() == 0
    with pytest.raises(Error, match="closed"):
        sink.step()
    assert seqs(catalog) == list(range(1, 31))


def test_work_queue_is_acknowledged_after_the_commit(
    sync_js: jetarrow.sync.JetStream, stream: str, catalog: SqlCatalog
) -> None:
    sync_js.delete_stream(stream)
    sync_js.add_stream(name=stream, subjects=[f"{stream}.>"], retention="workqueue")
    fill_sync(sync_js, stream, 30)
    assert sync_js.to_iceberg(stream, NAME, catalog=catalog, durable="archive", rows=20).run().rows == 30
    assert sync_js.stream_info(stream).state.messages == 0
    assert seqs(catalog) == list(range(1, 31))
