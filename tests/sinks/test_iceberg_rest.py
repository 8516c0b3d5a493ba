"""`js.to_iceberg` with a REST catalog: its answers, its conflicts, and commits with an unknown outcome."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.js.errors import SinkError, SinkLockedError

from ..tools import fill_sync
from .iceberg_tools import NAME, append, expire, seqs, sql_catalog
from .rest_catalog import RestServer
from .tools import SCHEMA, readings


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with RestServer(sql_catalog(tmp_path)) as server:
        yield server


def test_table_of_a_rest_catalog(sync_js: jetarrow.sync.JetStream, stream: str, server: RestServer) -> None:
    def run(first: int, **options: object) -> int:
        sync_js.publish_batch(f"{stream}.a", readings(first, first + 10)).raise_for_errors()
        done = sync_js.to_iceberg(stream, NAME, catalog=server.catalog, rows=4, **options).run()  # type: ignore[arg-type]
        return done.files

    assert run(1, schema={"id": int}) == 3
    append(server.tables.load_table(NAME))
    expire(server.tables.load_table(NAME))
    assert run(11, schema=SCHEMA, evolve="add") == 3
    assert seqs(server.tables) == [-1, *range(1, 21)]
    other = sync_js.to_iceberg(stream, "db.other", catalog=server.catalog, schema=SCHEMA, partition_by="region")
    assert other.run() == (20, 3, 1, 20, 0)
    with pytest.raises(SinkError, match="no namespace 'none'"):
        sync_js.to_iceberg(stream, "none.rows", catalog=server.catalog).run()


# 0: the connection breaks after the commit; negative: a status after the commit.
@pytest.mark.parametrize("fault", [409, 500, 502, 503, 504, -409, -500, -502, -503, -504, 0])
def test_commit_with_a_fault_is_made_once(
    sync_js: jetarrow.sync.JetStream, stream: str, server: RestServer, fault: int
) -> None:
    fill_sync(sync_js, stream, 10)
    server.faults = [fault]
    assert sync_js.to_iceberg(stream, NAME, catalog=server.catalog).run() == (10, 1, 1, 10, 0)
    assert seqs(server.tables) == list(range(1, 11))
    assert server.commits == (2 if fault > 0 else 1)
    assert len(server.tables.load_table(NAME).metadata.snapshots) == 1


def test_commit_that_landed_below_that_of_another_writer(
    sync_js: jetarrow.sync.JetStream, stream: str, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is lost, another writer appends, and the snapshot is expired before it is looked up."""
    fill_sync(sync_js, stream, 10)
    server.faults = [0]
    commit = server._commit

    def covered(name: tuple[str, str], body: object) -> object:
        answer = commit(name, body)
        append(server.tables.load_table(NAME))
        expire(server.tables.load_table(NAME))
        return answer

    monkeypatch.setattr(server, "_commit", covered)
    assert sync_js.to_iceberg(stream, NAME, catalog=server.catalog).run().rows == 10
    assert seqs(server.tables) == [-1, *range(1, 11)]
    assert server.commits == 1


def test_commit_that_lands_after_it_was_given_up(
    sync_js: jetarrow.sync.JetStream, stream: str, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server answers 504 to each attempt, and makes the first one when the sink has been started again."""
    fill_sync(sync_js, stream, 10)
    sync_js.to_iceberg(stream, NAME, catalog=server.catalog).run()
    fill_sync(sync_js, stream, 10)
    late: list[tuple[tuple[str, str], object]] = []
    commit = server._commit

    def slow(name: tuple[str, str], body: object) -> object:
        late.append((name, body))
        return 504

    monkeypatch.setattr(server, "_commit", slow)
    with pytest.raises(SinkError, match=r"could not commit to db\.rows"):
        sync_js.to_iceberg(stream, NAME, catalog=server.catalog).run()
    assert len(late) == 3

    def overtaken(name: tuple[str, str], body: object) -> object:
        monkeypatch.setattr(server, "_commit", commit)
        commit(*late[0])
        return commit(name, body)

    monkeypatch.setattr(server, "_commit", overtaken)
    with pytest.raises(SinkLockedError):
        sync_js.to_iceberg(stream, NAME, catalog=server.catalog).run()
    assert sync_js.to_iceberg(stream, NAME, catalog=server.catalog).run().rows == 0
    assert seqs(server.tables) == list(range(1, 21))


def test_catalog_that_does_not_answer_is_an_error(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path
) -> None:
    fill_sync(sync_js, stream, 10)
    with RestServer(sql_catalog(tmp_path)) as server:
        catalog = server.catalog
    with pytest.raises(SinkError, match=r"could not open db\.rows"):
        sync_js.to_iceberg(stream, NAME, catalog=catalog).run()
