"""A scan with an Iceberg table as archive."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import duckdb
import jetarrow.duckdb
import jetarrow.polars
import jetarrow.sync
import polars as pl
import pytest
from jetarrow.js.errors import DataLossError, SinkError, StreamRecreatedError
from polars.testing import assert_frame_equal
from pyiceberg.catalog.sql import SqlCatalog

from ..sinks.iceberg_tools import NAME, append, expire, sql_catalog
from .test_moving import running
from .tools import NOWHERE, SCHEMA, collected, publish

scan = jetarrow.polars.scan
sequence = pl.col("seq")


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return sql_catalog(tmp_path / "catalog")


def archive(js: jetarrow.sync.JetStream, stream: str, catalog: SqlCatalog, **options: Any) -> None:
    with js.to_iceberg(stream, NAME, catalog=catalog, **{"schema": SCHEMA, **options}) as one:
        one.run()


@pytest.mark.parametrize(
    "options", [{}, {"flatten": False}, {"schema": None}, {"partition_by": ["region", "date"]}], ids=str
)
def test_scan_equals_the_complete_archive(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, catalog: SqlCatalog, options: dict[str, Any]
) -> None:
    publish(sync_js, stream, 0, 60)
    sync_js.publish(f"{stream}.a", b'{"id": 60}', headers={"k": "v"})
    archive(sync_js, stream, catalog, **options, rows=25)
    publish(sync_js, stream, 61, 100)
    lazy = scan(nats_url, stream, archive=catalog.load_table(NAME))
    early = collected(lazy)
    assert early.schema == lazy.collect_schema()
    archive(sync_js, stream, catalog, **options)
    late = collected(scan(NOWHERE, stream, archive=catalog.load_table(NAME)).filter(sequence <= 100))
    assert_frame_equal(early, late)
    assert early["seq"].to_list() == [id + 1 for id in range(100) if id % 10 != 7 or "schema" in options]


def test_predicates_and_columns_do_not_change_the_result(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, catalog: SqlCatalog
) -> None:
    publish(sync_js, stream, 0, 40)
    archive(sync_js, stream, catalog, partition_by="region", rows=9)
    # Rows of other writers are not in the table.
    append(catalog.load_table(NAME))
    publish(sync_js, stream, 40, 60)
    lazy = scan(nats_url, stream, archive=lambda: catalog.load_table(NAME))
    every = collected(lazy)
    middle = every["timestamp"][20]
    for expression in (
        sequence > 20,
        sequence.is_between(5, 45),
        pl.col("region") == "eu",
        pl.col("region").is_null() & (pl.col("id") > 30),
        pl.col("timestamp") < middle,
        pl.col("price") > 2,
        pl.col("subject") == f"{stream}.b",
    ):
        assert_frame_equal(collected(lazy.filter(expression)), every.filter(expression))
        assert sorted(lazy.filter(expression).select("id").collect()["id"]) == every.filter(expression)["id"].to_list()
    assert lazy.head(3).collect().height == 3
    assert lazy.select(pl.len()).collect().item() == every.height
    with duckdb.connect() as con:
        table = lambda: catalog.load_table(NAME)  # noqa: E731
        jetarrow.duckdb.register(con, "orders", nats_url, stream=stream, archive=table)
        query = f"SELECT count(*), sum(id) FROM orders WHERE seq > 10 AND subject = '{stream}.b'"
        chosen = every.filter((sequence > 10) & (pl.col("subject") == f"{stream}.b"))
        assert con.execute(query).fetchall() == [(chosen.height, chosen["id"].sum())]


def test_a_table_has_the_position_of_its_loaded_version(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, catalog: SqlCatalog
) -> None:
    publish(sync_js, stream, 0, 5)
    archive(sync_js, stream, catalog)
    early = catalog.load_table(NAME)
    publish(sync_js, stream, 10, 15)
    archive(sync_js, stream, catalog)
    publish(sync_js, stream, 20, 25)
    # Expired snapshots do not remove the position.
    expire(catalog.load_table(NAME))
    assert collected(scan(nats_url, stream, archive=catalog.load_table(NAME)))["seq"].to_list() == list(range(1, 16))
    sync_js.purge_stream(stream, seq=11)
    assert collected(scan(nats_url, stream, archive=catalog.load_table(NAME)))["seq"].to_list() == list(range(1, 16))
    with pytest.raises((DataLossError, SinkError)):
        scan(nats_url, stream, archive=early).collect()
    with pytest.raises(SinkError, match="no position of 'x'"):
        scan(nats_url, stream, archive=early, app_id="x")
    with pytest.raises(SinkError, match="no position of the stream"):
        scan(nats_url, "NONE", archive=early)
    sync_js.delete_stream(stream)
    sync_js.add_stream(name=stream, subjects=[f"{stream}.>"])
    with pytest.raises(StreamRecreatedError):
        scan(nats_url, stream, archive=catalog.load_table(NAME)).collect()


def test_added_columns_are_those_of_both_parts(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, catalog: SqlCatalog
) -> None:
    publish(sync_js, stream, 0, 5)
    archive(sync_js, stream, catalog, schema={"id": int})
    publish(sync_js, stream, 10, 15)
    archive(sync_js, stream, catalog, schema={"id": int, "region": str}, evolve="add")
    publish(sync_js, stream, 20, 25)
    found = collected(scan(nats_url, stream, archive=catalog.load_table(NAME)))
    regions = ["eu", "us", None, "ap"]
    assert found["region"].to_list() == [None] * 5 + [regions[id % 4] for id in [*range(10, 15), *range(20, 25)]]


@pytest.mark.slow
def test_every_scan_is_a_prefix_of_the_stream(nats_url: str, stream: str, catalog: SqlCatalog) -> None:
    with jetarrow.sync.connect(nats_url) as writer, jetarrow.sync.connect(nats_url) as publisher:
        js, published, limit, done, steps = publisher.jetstream(), 0, 100, threading.Event(), 0

        def publish_some() -> None:
            nonlocal published
            if published > limit:
                done.wait(0.001)
                return
            rows = [json.dumps({"id": published + n}).encode() for n in range(1, 18)]
            js.publish_batch(f"{stream}.a", rows).raise_for_errors()
            published += 17

        def move() -> None:
            nonlocal steps
            one.step()
            steps += 1

        publish_some()
        one = writer.jetstream().to_iceberg(
            stream, NAME, catalog=catalog, schema={"id": int}, rows=40, seconds=0.02, follow=True
        )
        one.step()
        with one, running(done, publish_some, move):
            lazy = scan(nats_url, stream, archive=lambda: catalog.load_table(NAME)).select("seq", "id")
            before, start = 0, steps
            for _ in range(50):
                least = published
                found = collected(lazy)
                assert found["seq"].to_list() == found["id"].to_list() == list(range(1, found.height + 1))
                assert found.height >= max(least, before)
                before = found.height
                limit += 50
            assert steps > start
