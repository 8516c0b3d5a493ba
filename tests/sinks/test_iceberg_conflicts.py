"""Commits of an Iceberg sink that meet other writers, or whose outcome is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jetarrow.sync
import pyarrow.parquet as pq
import pytest
from jetarrow.js.errors import SinkError, SinkLockedError
from pyiceberg.catalog.sql import SqlCatalog

from ..tools import fill_sync
from .iceberg_tools import NAME, append, corrupt_files, seqs, sql_catalog
from .tools import SCHEMA, readings


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return sql_catalog(tmp_path)


def test_commit_of_another_writer_is_retried(
    sync_js: jetarrow.sync.JetStream, stream: str, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of a user comes between the last look at the table and the commit, several times."""
    fill_sync(sync_js, stream, 10)
    sync_js.to_iceberg(stream, NAME, catalog=catalog).run()
    fill_sync(sync_js, stream, 10)
    commit_table, others = catalog.commit_table, []

    def overtaken(*args: Any) -> Any:
        if len(others) < 6:
            others.append(len(others))
            with monkeypatch.context() as usual:
                usual.setattr(catalog, "commit_table", commit_table)
                append(catalog.load_table(NAME), -len(others))
        return commit_table(*args)

    monkeypatch.setattr(catalog, "commit_table", overtaken)
    assert sync_js.to_iceberg(stream, NAME, catalog=catalog).run() == (10, 1, 11, 20, 0)
    assert len(others) == 6
    assert seqs(catalog) == [*range(-6, 0), *range(1, 21)]
    location = Path(catalog.load_table(NAME).location().removeprefix("file://"))
    # The rows were written once.
    assert len(list(location.rglob("*.parquet"))) == 8


def test_second_sink_with_the_same_app_id_is_detected_in_the_commit(
    sync_js: jetarrow.sync.JetStream, stream: str, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_sync(sync_js, stream, 10)
    sync_js.to_iceberg(stream, NAME, catalog=catalog).run()
    sync_js.publish_batch(f"{stream}.a", [b'{"id": 1, "region": "eu"}', b"no"]).raise_for_errors()
    commit_table = catalog.commit_table

    def overtaken(*args: Any) -> Any:
        monkeypatch.setattr(catalog, "commit_table", commit_table)
        assert sync_js.to_iceberg(stream, NAME, catalog=catalog).run().rows == 2
        return commit_table(*args)

    monkeypatch.setattr(catalog, "commit_table", overtaken)
    with pytest.raises(SinkLockedError, match="another sink with the app_id"):
        sync_js.to_iceberg(stream, NAME, catalog=catalog).run()
    assert seqs(catalog) == list(range(1, 13))


def test_loser_of_a_commit_removes_its_undecodable_rows(
    sync_js: jetarrow.sync.JetStream, stream: str, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"catalog": catalog, "schema": SCHEMA}
    sync_js.publish_batch(f"{stream}.a", readings(1, 4)).raise_for_errors()
    sync_js.to_iceberg(stream, NAME, **options).run()
    sync_js.publish_batch(f"{stream}.a", [b"no"]).raise_for_errors()
    commit_table = catalog.commit_table

    def overtaken(*args: Any) -> Any:
        monkeypatch.setattr(catalog, "commit_table", commit_table)
        assert sync_js.to_iceberg(stream, NAME, **options).run().corrupt == 1
        return commit_table(*args)

    monkeypatch.setattr(catalog, "commit_table", overtaken)
    with pytest.raises(SinkLockedError):
        sync_js.to_iceberg(stream, NAME, **options).run()
    (file,) = corrupt_files(catalog)
    assert pq.read_table(file, partitioning=None)["seq"].to_pylist() == [4]


@pytest.mark.parametrize("has_landed", [True, False])
def test_unknown_outcome_of_a_commit_is_looked_up(
    sync_js: jetarrow.sync.JetStream,
    stream: str,
    catalog: SqlCatalog,
    monkeypatch: pytest.MonkeyPatch,
    has_landed: bool,
) -> None:
    fill_sync(sync_js, stream, 10)
    commit_table, calls = catalog.commit_table, []

    def lost(*args: Any) -> Any:
        calls.append(args)
        if has_landed or len(calls) > 1:
            answer = commit_table(*args)
            if len(calls) > 1:
                return answer
        raise ConnectionResetError("connection reset by https://user:secret@catalog")

    monkeypatch.setattr(catalog, "commit_table", lost)
    assert sync_js.to_iceberg(stream, NAME, catalog=catalog).run() == (10, 1, 1, 10, 0)
    assert len(calls) == (1 if has_landed else 2)
    assert seqs(catalog) == list(range(1, 11))


def test_catalog_that_fails_is_an_error_without_secrets(
    sync_js: jetarrow.sync.JetStream, stream: str, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_sync(sync_js, stream, 10)
    sync_js.to_iceberg(stream, NAME, catalog=catalog, rows=5).step()
    commit_table, calls = catalog.commit_table, []

    def failing(*args: Any) -> Any:
        calls.append(args)
        raise ConnectionRefusedError("refused by https://user:secret@catalog")

    with sync_js.to_iceberg(stream, NAME, catalog=catalog, rows=5) as sink:
        monkeypatch.setattr(catalog, "commit_table", failing)
        with pytest.raises(SinkError, match=r"could not commit to db.rows: refused by https://\*\*\*@catalog"):
            sink.step()
        assert len(calls) == 3
        monkeypatch.setattr(catalog, "commit_table", commit_table)
        assert sink.step().rows == 5
    assert seqs(catalog) == list(range(1, 11))
