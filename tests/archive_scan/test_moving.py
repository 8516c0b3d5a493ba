"""Scans while sink, compaction and publisher continue: every scan has the messages 1 to n, each once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jetarrow.polars
import jetarrow.sync
import polars as pl
import pyarrow.dataset as ds
import pytest
from jetarrow.archive_scan import parquet as parquet_snapshot
from jetarrow.archive_scan.parquet import ParquetSnapshot
from jetarrow.js.errors import SinkError

from .tools import archive, collected, publish, sink

SCANS = 30


@contextmanager
def running(done: threading.Event, *works: Callable[[], Any]) -> Iterator[None]:
    """Repeats functions in threads until the end of the block, and raises their errors."""
    errors: list[BaseException] = []

    def repeat(work: Callable[[], Any]) -> None:
        try:
            while not done.is_set():
                work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"partition_by": "region"}, marks=pytest.mark.slow),
        pytest.param({"durable": "archive"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [pytest.param("parquet", marks=pytest.mark.slow), "delta"])
def test_every_scan_is_a_prefix_of_the_stream(
    nats_url: str, stream: str, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    with jetarrow.sync.connect(nats_url) as writer, jetarrow.sync.connect(nats_url) as publisher:
        js, published, limit, done = publisher.jetstream(), 0, 100, threading.Event()

        def publish_some() -> None:
            nonlocal published
            if published > limit:
                # Another 100 messages for each scan: the test is of many commits, not of many rows.
                done.wait(0.001)
                return
            rows = [json.dumps({"id": published + n, "region": "eu"}).encode() for n in range(1, 18)]
            js.publish_batch(f"{stream}.a", rows).raise_for_errors()
            published += 17

        publish_some()
        one = sink(writer.jetstream(), kind, stream, tmp_path, rows=40, seconds=0.02, follow=True, **options)
        steps = positions = 0
        one.step()

        def move() -> None:
            nonlocal steps
            one.step()
            steps += 1
            if steps % 4 == 0:
                one.compact()

        with one, running(done, publish_some, move):
            lazy = jetarrow.polars.scan(nats_url, stream, archive=tmp_path)
            last, ends, scans = 0, set(), 0
            # On a busy machine the sink may make few commits.
            while scans < SCANS or (len(ends) <= 5 and scans < 20 * SCANS):
                scans += 1
                before = published
                found = collected(lazy.select("seq", "id"))
                assert found["seq"].to_list() == found["id"].to_list() == list(range(1, found.height + 1))
                # At least what was published before, and never less than an earlier scan.
                assert found.height >= max(before, last)
                last = found.height
                limit += 100
                ends.add(steps)
            positions = len(ends)
        # Both moved during the scans.
        assert positions > 5
        assert published > SCANS


@pytest.mark.parametrize("retention", ["workqueue", pytest.param("interest", marks=pytest.mark.slow)])
def test_every_scan_is_a_prefix_of_a_stream_whose_acknowledged_messages_are_removed(
    nats_url: str, stream: str, tmp_path: Path, retention: str
) -> None:
    with jetarrow.sync.connect(nats_url) as writer, jetarrow.sync.connect(nats_url) as publisher:
        js, published, limit, done = publisher.jetstream(), 0, 100, threading.Event()
        js.delete_stream(stream)
        js.add_stream(name=stream, subjects=[f"{stream}.>"], retention=retention, allow_direct=True)
        js.add_consumer(stream, durable_name="archive", ack_policy="explicit", ack_wait=30)

        def publish_some() -> None:
            nonlocal published
            if published > limit:
                done.wait(0.001)
                return
            js.publish_batch(f"{stream}.a", [b'{"id": 1}'] * 13).raise_for_errors()
            published += 13

        publish_some()
        one = sink(
            writer.jetstream(), "parquet", stream, tmp_path, rows=40, seconds=0.02, follow=True, durable="archive"
        )
        one.step()
        with one, running(done, publish_some, one.step):
            lazy = jetarrow.polars.scan(nats_url, stream, archive=tmp_path)
            scans = 0
            while scans < SCANS or (js.stream_info(stream).state.first_seq <= 100 and scans < 20 * SCANS):
                scans += 1
                before = published
                found = collected(lazy.select("seq"))["seq"].to_list()
                assert found == list(range(1, len(found) + 1))
                assert len(found) >= before
                limit += 100
        assert js.stream_info(stream).state.first_seq > 100


@pytest.mark.parametrize("partition_by", [None, "region"])
def test_a_compaction_between_two_parts_changes_no_row(
    sync_js: jetarrow.sync.JetStream,
    stream: str,
    tmp_path: Path,
    partition_by: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files are replaced after the snapshot, after its first part, and while a part is read."""
    monkeypatch.setattr(parquet_snapshot, "PART_ROWS", 15)
    publish(sync_js, stream, 0, 50)
    archive(sync_js, "parquet", stream, tmp_path, rows=10, partition_by=partition_by)
    wanted = [seq for seq in range(1, 51) if seq % 10 != 8]

    def replace() -> None:
        end = sync_js.stream_info(stream).state.last_seq
        publish(sync_js, stream, end, end + 30)
        # Folders of the newest commit, which has one row, are not compacted.
        archive(sync_js, "parquet", stream, tmp_path, rows=29, partition_by=partition_by)
        with sink(sync_js, "parquet", stream, tmp_path, rows=1000, partition_by=partition_by) as one:
            assert one.compact() > 0

    for moment in ("snapshot", "first part", "while read"):
        snapshot = ParquetSnapshot.open(tmp_path, None)
        assert snapshot is not None
        position = snapshot.state.last_seq
        found: list[int] = []
        reads = 0
        if moment == "snapshot":
            replace()

        def read(dataset: ds.Dataset, moment: str = moment) -> list[int]:
            nonlocal reads
            reads += 1
            if moment == "while read" and reads == 2:
                rows = dataset.head(1).num_rows
                replace()
                return (
                    dataset.to_table().column("seq").to_pylist()[:rows] + dataset.to_table()["seq"].to_pylist()[rows:]
                )
            seqs: list[int] = dataset.to_table().column("seq").to_pylist()
            return seqs

        for part in snapshot.visit(None, None, read):
            found += part
            if moment == "first part" and len(found) == len(part):
                replace()
        assert sorted(found) == [seq for seq in range(1, position + 1) if seq % 10 != 8]
    assert position > wanted[-1]


def test_rows_that_fill_a_gap_after_the_snapshot_are_not_in_it(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path
) -> None:
    sync_js.add_consumer(stream, durable_name="archive", ack_policy="explicit", ack_wait=5)
    options: dict[str, Any] = {"durable": "archive", "seconds": 30}
    publish(sync_js, stream, 0, 1)
    with sink(sync_js, "parquet", stream, tmp_path, rows=1, **options) as one:
        one.step()
    publish(sync_js, stream, 1, 5)
    assert len(sync_js.pull_subscribe_bind("archive", stream).fetch_batch(4)) == 4
    publish(sync_js, stream, 10, 15)
    with sink(sync_js, "parquet", stream, tmp_path, rows=5, **options) as one:
        one.step()
        snapshot = ParquetSnapshot.open(tmp_path, None)
        assert snapshot is not None
        assert snapshot.state.gaps == ((2, 5),)
        while one.step().rows != 4:
            pass
    with sink(sync_js, "parquet", stream, tmp_path, durable="archive") as one:
        assert one.compact() == 2
    seqs = [seq for part in snapshot.visit(None, None, ds.Dataset.to_table) for seq in part["seq"].to_pylist()]
    assert seqs == [1, 6, 7, 8, 9, 10]


def test_an_archive_that_was_replaced_by_another_one_is_an_error(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path
) -> None:
    publish(sync_js, stream, 0, 10)
    archive(sync_js, "parquet", stream, tmp_path)
    snapshot = ParquetSnapshot.open(tmp_path, None)
    assert snapshot is not None
    for path in [*tmp_path.rglob("*.json"), *tmp_path.rglob("*.parquet")]:
        path.unlink()
    with pytest.raises(SinkError, match="replaced by another one"):
        list(snapshot.visit(None, None, ds.Dataset.to_table))


def test_records_that_a_compaction_replaces_during_a_listing(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing may lack removed records and not have the new one yet. It is not used."""
    publish(sync_js, stream, 0, 30)
    archive(sync_js, "parquet", stream, tmp_path, rows=10)
    listed = parquet_snapshot.ParquetTable._record_paths
    listings = 0

    def partial(self: Any) -> list[str]:
        nonlocal listings
        listings += 1
        return sorted(listed(self))[1:] if listings == 1 else listed(self)

    monkeypatch.setattr(parquet_snapshot.ParquetTable, "_record_paths", partial)
    snapshot = ParquetSnapshot.open(tmp_path, None)
    assert snapshot is not None
    assert listings > 1
    rows = sum(part.num_rows for part in snapshot.visit(None, None, ds.Dataset.to_table))
    assert rows == collected(jetarrow.polars.scan(nats_url, stream, archive=tmp_path).filter(pl.col("seq") < 31)).height
