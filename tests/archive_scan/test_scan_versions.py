"""Scans of versions of an archive whose stream lost messages, was created again, or is one of several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import jetarrow.polars
import jetarrow.sync
import polars as pl
import pytest
from jetarrow.archive_scan import parquet as parquet_snapshot
from jetarrow.archive_scan.snapshot import check_append
from jetarrow.js.errors import DataLossError, NotFoundError, SinkError, SinkSchemaError, StreamRecreatedError

from .tools import KINDS, SCHEMA, archive, collected, publish, sink

scan = jetarrow.polars.scan
sequence, stored = pl.col("seq"), pl.col("timestamp")


@pytest.mark.parametrize("kind", KINDS)
def test_messages_that_neither_part_has_are_an_error(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path, kind: str
) -> None:
    publish(sync_js, stream, 0, 20)
    archive(sync_js, kind, stream, tmp_path)
    publish(sync_js, stream, 20, 60)
    sync_js.purge_stream(stream, seq=31)
    lazy = scan(nats_url, stream, archive=tmp_path)
    for filtered in (lazy, lazy.filter(sequence > 25), lazy.filter(pl.col("subject") == f"{stream}.a")):
        with pytest.raises(DataLossError, match=r"sequences 2\d to 30") as loss:
            filtered.collect()
        assert loss.value.asked in ((21, 31), (26, 31))
        assert loss.value.available == 31
    # The missing rows are not selected.
    wanted = [seq for seq in range(31, 61) if seq % 10 != 8]
    assert collected(lazy.filter(sequence > 30))["seq"].to_list() == wanted
    first = sync_js.get_msg(stream, 32).time
    assert collected(lazy.filter(stored >= first))["seq"].to_list() == wanted[1:]
    with pytest.warns(UserWarning, match="21 to 30"):
        rest = collected(scan(nats_url, stream, archive=tmp_path, on_data_loss="warn"))
    assert rest["seq"].to_list() == [seq for seq in range(1, 21) if seq % 10 != 8] + wanted
    sync_js.purge_stream(stream)
    with pytest.raises(DataLossError, match="21 to 60"):
        lazy.collect()
    # Messages that the archive has may be removed.
    with pytest.warns(UserWarning, match="21 to 60"):
        assert scan(nats_url, stream, archive=tmp_path, on_data_loss="warn").collect().height == 18


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_without_its_archived_messages_is_read(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path, kind: str
) -> None:
    publish(sync_js, stream, 0, 20)
    archive(sync_js, kind, stream, tmp_path)
    publish(sync_js, stream, 20, 25)
    sync_js.purge_stream(stream, seq=21)
    lazy = scan(nats_url, stream, archive=tmp_path)
    wanted = [seq for seq in range(1, 26) if seq % 10 != 8]
    assert collected(lazy)["seq"].to_list() == wanted
    archive(sync_js, kind, stream, tmp_path)
    sync_js.purge_stream(stream)
    assert collected(lazy)["seq"].to_list() == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_messages_that_are_archived_while_the_archive_is_read_are_read_from_it(
    sync_js: jetarrow.sync.JetStream,
    nats_url: str,
    stream: str,
    tmp_path: Path,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stream drops messages after the snapshot, which the sink has archived before."""
    monkeypatch.setattr(parquet_snapshot, "PART_ROWS", 10)
    monkeypatch.setattr("jetarrow.archive_scan.delta.PART_ROWS", 10)
    publish(sync_js, stream, 0, 40)
    archive(sync_js, kind, stream, tmp_path, rows=10)
    publish(sync_js, stream, 40, 60)
    moves = iter(range(3))
    check = jetarrow.polars.source.ArchiveTable._check_columns

    def moved(self: Any, snapshot: Any) -> None:
        """After each snapshot: the sink continues, and the stream drops its messages."""
        check(self, snapshot)
        if (move := next(moves, None)) is not None:
            with sink(sync_js, kind, stream, tmp_path, rows=5) as one:
                one.step()
                one.compact()
            sync_js.purge_stream(stream, seq=46 + 5 * move)

    monkeypatch.setattr(jetarrow.polars.source.ArchiveTable, "_check_columns", moved)
    found = collected(scan(nats_url, stream, archive=tmp_path))
    assert found["seq"].to_list() == [seq for seq in range(1, 61) if seq % 10 != 8]
    assert next(moves, None) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_was_created_again_is_an_error(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path, kind: str
) -> None:
    publish(sync_js, stream, 0, 20)
    archive(sync_js, kind, stream, tmp_path)
    sync_js.delete_stream(stream)
    lazy = scan(nats_url, stream, archive=tmp_path)
    with pytest.raises(NotFoundError, match=stream):
        lazy.collect()
    sync_js.add_stream(name=stream, subjects=[f"{stream}.>"])
    publish(sync_js, stream, 0, 30)
    with pytest.raises(StreamRecreatedError, match="archive"):
        lazy.collect()


def test_a_given_version_is_read_with_its_position(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path
) -> None:
    publish(sync_js, stream, 0, 30)
    archive(sync_js, "delta", stream, tmp_path, rows=10)
    table = deltalake.DeltaTable(tmp_path)
    table.load_as_version(table.version() - 1)
    publish(sync_js, stream, 30, 40)
    archive(sync_js, "delta", stream, tmp_path, rows=10)
    wanted = [seq for seq in range(1, 41) if seq % 10 != 8]
    assert collected(scan(nats_url, stream, archive=table))["seq"].to_list() == wanted
    sync_js.purge_stream(stream, seq=31)
    # This version ends at 20.
    with pytest.raises(DataLossError, match="21 to 30"):
        scan(nats_url, stream, archive=table).collect()


def test_several_streams_in_one_delta_table(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path
) -> None:
    other = f"{stream}X"
    sync_js.add_stream(name=other, subjects=[f"{other}.>"])
    try:
        for name, count in ((stream, 20), (other, 30)):
            publish(sync_js, name, 0, count)
            archive(sync_js, "delta", name, tmp_path)
        # Files with rows of both streams.
        deltalake.DeltaTable(tmp_path).optimize.compact()
        for name in (stream, other):
            publish(sync_js, name, 100, 105)
        for name, count in ((stream, 25), (other, 35)):
            found = collected(scan(nats_url, name, archive=tmp_path))
            assert found["stream"].unique().to_list() == [name]
            assert found["seq"].to_list() == [seq for seq in range(1, count + 1) if seq % 10 != 8]
    finally:
        sync_js.delete_stream(other)
    with pytest.raises(SinkError, match="no position of the stream"):
        scan(nats_url, "NONE", archive=tmp_path).collect()


def test_several_sinks_of_a_stream_in_one_delta_table(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path
) -> None:
    publish(sync_js, stream, 0, 20)
    archive(sync_js, "delta", stream, tmp_path, app_id="one")
    lazy = scan(nats_url, stream, archive=tmp_path)
    assert lazy.collect().height == 18
    publish(sync_js, stream, 20, 40)
    archive(sync_js, "delta", stream, tmp_path, app_id="two", start_seq=21)
    publish(sync_js, stream, 40, 50)
    with pytest.raises(SinkError, match=r"'one', 'two'; give app_id="):
        scan(nats_url, stream, archive=tmp_path).collect()
    for app in ("one", "two"):
        found = collected(scan(nats_url, stream, archive=tmp_path, app_id=app))
        assert found["seq"].to_list() == [seq for seq in range(1, 51) if seq % 10 != 8]
    with pytest.raises(SinkError, match="'three' is not in its log"):
        scan(nats_url, stream, archive=tmp_path, app_id="three").collect()


def test_options_that_no_archive_can_have(nats_url: str, stream: str, tmp_path: Path) -> None:
    for options, text in (
        ({"latest": True}, "latest=True"),
        ({"format": "arrow"}, 'not "arrow"'),
        ({"mode": "FAILFAST"}, "FAILFAST"),
        ({"time_zone": "Europe/Berlin"}, "time_zone"),
        ({"on_data_loss": "ignore"}, "on_data_loss"),
    ):
        with pytest.raises(ValueError, match=text):
            scan(nats_url, stream, archive=tmp_path, **options)  # type: ignore[arg-type]
    with pytest.raises(SinkError, match="no sink has committed there"):
        scan(nats_url, stream, archive=tmp_path).collect()
    with pytest.raises(TypeError, match="archive must be a folder"):
        scan(nats_url, stream, archive=5).collect()


def test_an_archive_of_other_payloads_is_an_error(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path
) -> None:
    publish(sync_js, stream, 0, 5)
    archive(sync_js, "parquet", stream, tmp_path / "decoded")
    archive(sync_js, "parquet", stream, tmp_path / "bytes", schema=None)
    assert collected(scan(nats_url, stream, archive=tmp_path / "decoded", schema=SCHEMA)).height == 5
    with pytest.raises(SinkSchemaError, match="other columns"):
        scan(nats_url, stream, archive=tmp_path / "decoded", schema={"id": int}).collect()
    with pytest.raises(SinkSchemaError, match="undecoded"):
        scan(nats_url, stream, archive=tmp_path / "bytes", schema=SCHEMA).collect()
    with pytest.raises(SinkError, match=f"archive of stream {stream!r}"):
        scan(nats_url, "OTHER", archive=tmp_path / "decoded").collect()


def test_a_table_with_one_row_for_each_key_is_no_archive() -> None:
    check_append({"stream": "S"}, "t")
    with pytest.raises(SinkError, match=r"could not read t and stream 'S' as one table"):
        check_append({"stream": "S", "merge": {"key": ["id"]}}, "t")
