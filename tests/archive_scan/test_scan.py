"""`jetarrow.polars.scan` with an archive: the rows up to its position from the archive, the rest from the stream."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import deltalake
import jetarrow.polars
import jetarrow.sync
import polars as pl
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from jetarrow.archive_scan import parquet as parquet_snapshot
from jetarrow.archive_scan import stream_rest
from jetarrow.js.errors import SinkError, SinkSchemaError
from polars.testing import assert_frame_equal

from ..avro_tools import ORDER, datum
from ..strategies import bounded
from ..test_polars_pushdown import Made, by_sequence, by_subject, by_time
from .tools import KINDS, NOWHERE, archive, collected, data_files, publish, sink

scan = jetarrow.polars.scan
sequence, stored = pl.col("seq"), pl.col("timestamp")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"flatten": False},
        {"schema": None},
        {"partition_by": "region"},
        {"partition_by": ["date", "region"]},
        {"partition_by": ["at", "hour"]},
        {"subjects": ["{stream}.a", "{stream}.b"]},
        {"schema": "infer", "time_zone": "Europe/Berlin"},
    ],
    ids=str,
)
def test_scan_equals_the_complete_archive(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    given = {**options, **({"subjects": [f"{stream}.a", f"{stream}.b"]} if "subjects" in options else {})}
    publish(sync_js, stream, 0, 60)
    sync_js.publish(f"{stream}.a", b'{"id": 60, "region": "a/b %\\u00e9 ="}', headers={"k": "v"})
    archive(sync_js, kind, stream, tmp_path, **given, rows=25)
    publish(sync_js, stream, 61, 100)
    lazy = scan(nats_url, stream, archive=tmp_path)
    schema, early = lazy.collect_schema(), collected(lazy)
    archive(sync_js, kind, stream, tmp_path, **given)
    # All rows are in the archive now, and no server is needed to read them.
    late = collected(scan(NOWHERE, stream, archive=tmp_path).filter(sequence <= 100))
    assert_frame_equal(early, late)
    assert early.schema == schema
    malformed = 0 if options.get("schema", "") is None else 10
    wanted = [id for id in range(100) if id % 10 != 7 or not malformed]
    assert early["seq"].to_list() == [id + 1 for id in wanted if "subjects" not in options or id % 3 < 2]


@pytest.mark.parametrize("kind", ["parquet", pytest.param("delta", marks=pytest.mark.slow)])
def test_predicates_columns_and_limits_do_not_change_the_result(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path, kind: str
) -> None:
    publish(sync_js, stream, 0, 40)
    archive(sync_js, kind, stream, tmp_path, partition_by="region", rows=9)
    publish(sync_js, stream, 40, 60)
    lazy = scan(nats_url, stream, archive=tmp_path)
    every = collected(lazy)
    times = [time + datetime.timedelta(0) for time in every["timestamp"].dt.cast_time_unit("us").to_list()]

    @bounded(60)
    @given(by_sequence() | by_time() | by_subject())
    def the_rows_are_equal(predicate: Made) -> None:
        expression = predicate(stream, times)
        assert_frame_equal(collected(lazy.filter(expression)), every.filter(expression))

    the_rows_are_equal()
    number, region, price, at = (pl.col(name) for name in ("id", "region", "price", "at"))
    for expression in (
        region == "eu",
        region.is_null(),
        region.is_in(["us", None]),
        ~region.is_in(["us"]),
        (region == "eu") & (number > 30) & (price > 1),
        (number >= 38) | (price < 1),
        price != 2.5,
        at.is_between(
            datetime.datetime(2026, 11, 3, tzinfo=datetime.UTC), datetime.datetime(2026, 11, 9, tzinfo=datetime.UTC)
        ),
        number.is_in([1, 39, 41]) & stored.is_not_null(),
    ):
        assert_frame_equal(collected(lazy.filter(expression)), every.filter(expression))
        only = lazy.filter(expression).select("price").collect()["price"]
        assert sorted(only.drop_nulls()) == sorted(every.filter(expression)["price"].drop_nulls())
    assert lazy.select(pl.len()).collect().item() == every.height
    assert lazy.head(3).collect().height == 3
    assert lazy.head(50).filter(number > 0).collect().height == 49
    assert lazy.head(0).collect().height == 0
    assert lazy.select("region", "seq").collect().columns == ["region", "seq"]
    grouped = lazy.group_by("region").agg(number.sum()).sort("region").collect()
    assert_frame_equal(grouped, every.group_by("region").agg(number.sum()).sort("region"))


def test_floats_that_are_no_number_are_compared_as_polars_does(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path
) -> None:
    schema = {"type": "record", "name": "F", "fields": [{"name": "f", "type": "double"}]}
    for value in (1.0, float("nan"), 3.0):
        sync_js.publish(f"{stream}.a", datum(schema, {"f": value}))
    archive(sync_js, "parquet", stream, tmp_path, schema=schema, format="avro")
    sync_js.publish(f"{stream}.a", datum(schema, {"f": float("nan")}))
    lazy = scan(nats_url, stream, archive=tmp_path, format="avro", schema=schema)
    assert collected(lazy.filter(pl.col("f") > 2))["seq"].to_list() == [2, 3, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_a_predicate_that_excludes_a_part_does_not_read_it(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path, kind: str
) -> None:
    publish(sync_js, stream, 0, 10)
    archive(sync_js, kind, stream, tmp_path, rows=5, partition_by="region")
    middle = collected(scan(nats_url, stream, archive=tmp_path))["timestamp"][5]
    publish(sync_js, stream, 10, 20)
    # Without the stream.
    nowhere = scan(NOWHERE, stream, archive=tmp_path)
    assert collected(nowhere.filter(sequence <= 10))["seq"].to_list() == [1, 2, 3, 4, 5, 6, 7, 9, 10]
    assert collected(nowhere.filter(stored < middle))["seq"].to_list() == [1, 2, 3, 4, 5]
    assert collected(nowhere.filter(sequence.is_in([2, 3])))["seq"].to_list() == [2, 3]
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
        nowhere.collect()
    # Without the files of the archive that the predicate excludes.
    lazy = scan(nats_url, stream, archive=tmp_path)
    late = collected(lazy)["timestamp"][9]
    for path in data_files(tmp_path):
        if "region=eu" in path.parts:
            path.unlink()
    assert lazy.filter(pl.col("region") == "us").select("id").collect()["id"].to_list() == [1, 5, 9, 13]
    for path in data_files(tmp_path):
        path.unlink()
    wanted = [seq for seq in range(11, 21) if seq != 18]
    assert collected(lazy.filter(sequence > 10))["seq"].to_list() == wanted
    assert collected(lazy.filter(stored >= late))["seq"].to_list() == wanted
    assert collected(lazy.filter((sequence > 12) & (pl.col("id") < 15)))["seq"].to_list() == [13, 14, 15]
    with pytest.raises(SinkError, match="could not read"):
        lazy.collect()


def test_only_needed_columns_are_read(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    spec = stream_rest.ReadSpec
    monkeypatch.setattr(
        stream_rest, "ReadSpec", lambda *args, **more: read.append(more["columns"]) or spec(*args, **more)
    )
    to_batches = ds.Dataset.to_batches

    def noted(self: Any, **options: Any) -> Any:
        read.append(options["columns"])
        return to_batches(self, **options)

    # pyarrow's classes cannot be patched, so the class of the parts is derived.
    class Noted(ds.FileSystemDataset):
        to_batches = noted

    monkeypatch.setattr(ds, "FileSystemDataset", Noted)
    for _ in range(2):
        for _ in range(4):
            sync_js.publish(f"{stream}.a", bytes(100_000))
        archive(sync_js, "parquet", stream, tmp_path, schema=None, rows=4)
    for _ in range(4):
        sync_js.publish(f"{stream}.a", bytes(100_000))
    lazy = scan(nats_url, stream, archive=tmp_path)
    assert lazy.select("subject").collect().to_series().to_list() == [f"{stream}.a"] * 12
    assert read == [["subject"], ["seq", "subject"]]
    assert lazy.filter(sequence > 8).select("data").collect().to_series().bin.size().to_list() == [100_000] * 4
    assert read[2:] == [["seq", "data"]]


def test_subject_filters_select_rows_of_both_parts(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path
) -> None:
    publish(sync_js, stream, 0, 30)
    filters = [f"{stream}.a", f"{stream}.b"]
    archive(sync_js, "parquet", stream, tmp_path, subjects=filters)
    publish(sync_js, stream, 30, 60)

    def found(subjects: Any, *predicates: pl.Expr) -> list[int]:
        lazy = scan(nats_url, stream, archive=tmp_path, subjects=subjects)
        return collected(lazy.filter(*predicates) if predicates else lazy)["id"].to_list()

    valid = [id for id in range(60) if id % 10 != 7]
    assert found(None) == [id for id in valid if id % 3 < 2]
    assert found(f"{stream}.a") == found(f"{stream}.a", pl.col("id") >= 0) == [id for id in valid if id % 3 == 0]
    # The sink left these out, so that they are not in the table.
    assert found(f"{stream}.c") == found(None, pl.col("subject") == f"{stream}.c") == []
    assert found(f"{stream}.*") == found(None)
    assert found(f"{stream}.>", pl.col("subject") == f"{stream}.b") == [id for id in valid if id % 3 == 1]


def test_added_columns_are_those_of_both_parts(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path
) -> None:
    publish(sync_js, stream, 0, 5)
    archive(sync_js, "delta", stream, tmp_path, schema={"id": int})
    publish(sync_js, stream, 10, 15)
    archive(sync_js, "delta", stream, tmp_path, schema={"id": int, "region": str}, evolve="add")
    publish(sync_js, stream, 20, 25)
    found = collected(scan(nats_url, stream, archive=tmp_path))
    regions = ["eu", "us", None, "ap"]
    assert found["region"].to_list() == [None] * 5 + [regions[id % 4] for id in [*range(10, 15), *range(20, 25)]]
    # A sink without the column: its rows have nulls.
    archive(sync_js, "delta", stream, tmp_path, schema={"id": int}, evolve="add")
    publish(sync_js, stream, 30, 33)
    found = collected(scan(nats_url, stream, archive=tmp_path))
    assert found["region"].to_list()[-3:] == [None] * 3


def test_avro_payloads(sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path) -> None:
    rows = [{"id": id, "region": "eu", "lines": [{"sku": "a", "n": id}]} for id in range(10)]
    sync_js.publish_batch(f"{stream}.a", [*(datum(ORDER, row) for row in rows[:6]), b"broken"])
    archive(sync_js, "parquet", stream, tmp_path, format="avro", schema=ORDER)
    sync_js.publish_batch(f"{stream}.a", [b"broken", *(datum(ORDER, row) for row in rows[6:])])
    found = collected(scan(nats_url, stream, archive=tmp_path, format="avro", schema=ORDER))
    assert found["seq"].to_list() == [1, 2, 3, 4, 5, 6, 9, 10, 11, 12]
    assert found.select("id", "region", "lines").to_dicts() == rows
    with pytest.raises(SinkSchemaError, match="give format='avro'"):
        scan(nats_url, stream, archive=tmp_path).collect()
    other = {**ORDER, "fields": ORDER["fields"][:1]}  # type: ignore[index]
    with pytest.raises(SinkSchemaError, match="other columns"):
        scan(nats_url, stream, archive=tmp_path, format="avro", schema=other).collect()


@pytest.mark.parametrize("kind", KINDS)
def test_gaps_of_a_durable_consumer_come_from_the_stream(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path, kind: str
) -> None:
    for retention in ("limits", "workqueue"):
        folder = tmp_path / retention
        sync_js.delete_stream(stream)
        sync_js.add_stream(name=stream, subjects=[f"{stream}.>"], retention=retention, allow_direct=True)
        sync_js.add_consumer(stream, durable_name="archive", ack_policy="explicit", ack_wait=1)
        publish(sync_js, stream, 0, 5)
        lost = sync_js.pull_subscribe_bind("archive", stream).fetch_batch(4)
        assert len(lost) == 4
        publish(sync_js, stream, 10, 15)
        options: dict[str, Any] = {"durable": "archive", "rows": 6, "seconds": 30}
        wanted = list(range(1, 11))
        with sink(sync_js, kind, stream, folder, **options) as one:
            assert one.step().rows == 6
            lazy = scan(nats_url, stream, archive=folder)
            assert collected(lazy)["seq"].to_list() == wanted
            assert collected(lazy.filter(sequence < 4))["seq"].to_list() == [1, 2, 3]
            assert lazy.select("seq").collect().height == 10
            if kind == "delta":
                # A later commit would remove messages that a fixed version does not have.
                fixed = scan(nats_url, stream, archive=deltalake.DeltaTable(folder))
                if retention == "workqueue":
                    with pytest.raises(SinkError, match="newest version"):
                        fixed.collect()
                else:
                    assert collected(fixed)["seq"].to_list() == wanted
                newest = scan(nats_url, stream, archive=lambda folder=folder: deltalake.DeltaTable(folder))
                assert collected(newest)["seq"].to_list() == wanted
            # The messages are delivered again, and committed.
            while one.step().rows != 4:
                pass
            assert collected(lazy)["seq"].to_list() == wanted


def test_parts_of_many_files_cut_no_row(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders whose files overlap in sequence, cut into parts in the middle of files."""
    publish(sync_js, stream, 0, 100)
    archive(sync_js, "parquet", stream, tmp_path, rows=40, partition_by="region")
    wanted = [seq for seq in range(1, 101) if seq % 10 != 8]
    for rows in (1, 7, 39, 1000):
        monkeypatch.setattr(parquet_snapshot, "PART_ROWS", rows)
        assert collected(scan(nats_url, stream, archive=tmp_path))["seq"].to_list() == wanted
