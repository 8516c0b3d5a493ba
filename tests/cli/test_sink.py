"""`jetarrow sink`: archives that continue after their last committed row."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jetarrow.sync
import pyarrow.dataset
import pytest

from tests.cli.tools import Command, Terminal, command
from tests.tools import wait_until


def test_parquet(cli: Command, sync_js: jetarrow.sync.JetStream, stream: str, away: Path) -> None:
    sync_js.publish_batch(f"{stream}.a", ['{"id": 1}', '{"id": 2}', "no JSON"]).raise_for_errors()
    first = cli("sink", "parquet", stream, "archive", "--schema", "id BIGINT", "--partition-by", "date", "--json").json
    assert (first["rows"], first["corrupt"], first["last_seq"]) == (2, 1, 2)
    sync_js.publish(f"{stream}.a", '{"id": 4}')
    second = cli("sink", "parquet", stream, "archive", "--schema", "id BIGINT", "--partition-by", "date")
    assert second.out == "wrote 1 row to 1 file of archive\n"
    files = [str(path) for path in Path("archive").rglob("date=*/*.parquet")]
    assert sorted(pyarrow.dataset.dataset(files).to_table().column("id").to_pylist()) == [1, 2, 4]
    sync_js.publish(f"{stream}.a", '{"other": "x"}')
    refused = cli("sink", "parquet", stream, "archive", "--schema", "other STRING", "--partition-by", "date")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert cli("sink", "parquet", "NONE", "elsewhere").code == 1


def test_delta(cli: Command, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    deltalake = pytest.importorskip("deltalake")
    sync_js.publish_batch(f"{stream}.a", ["one", "two"]).raise_for_errors()
    assert cli("sink", "delta", stream, "table", "--json").json["rows"] == 2
    assert cli("sink", "delta", stream, "table", "--json").json["rows"] == 0
    assert deltalake.DeltaTable("table").to_pyarrow_table().num_rows == 2


def test_delta_with_keys(cli: Command, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    deltalake = pytest.importorskip("deltalake")
    sync_js.publish_batch(
        f"{stream}.a", ['{"id": 1, "v": 1}', '{"id": 2, "v": 2}', '{"id": 1, "v": 3}']
    ).raise_for_errors()
    sync_js.publish(f"{stream}.a", b"", headers={"KV-Operation": "DEL"})
    keys = ["--schema", "id BIGINT, v BIGINT", "--merge", "upsert", "--key"]
    assert cli("sink", "delta", stream, "one", *keys, "subject").code == 0
    assert deltalake.DeltaTable("one").to_pyarrow_table().num_rows == 0
    assert cli("sink", "delta", stream, "two", *keys, "id", "--deletes", "none", "--json").json["rows"] == 3
    assert deltalake.DeltaTable("two").to_pyarrow_table().sort_by("id")["v"].to_pylist() == [3, 2]
    assert cli("sink", "delta", stream, "three", *keys, "id, v", "--deletes", "none").code == 0
    assert deltalake.DeltaTable("three").to_pyarrow_table().num_rows == 3
    changed = cli("sink", "delta", stream, "two", *keys, "subject", "--deletes", "none")
    assert (changed.code, changed.err.count("\n")) == (1, 1)
    assert "give the former options" in changed.err
    for wrong in (["--key", "id"], ["--merge", "upsert"], ["--merge", "upsert", "--key", "id", "--durable", "d"]):
        refused = cli("sink", "delta", stream, "four", *wrong)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert not Path("four").exists()


def test_iceberg(cli: Command, sync_js: jetarrow.sync.JetStream, stream: str, iceberg_catalog: Any) -> None:
    run = ["sink", "iceberg", stream, "db.rows", "--catalog", "test"]
    sync_js.publish_batch(f"{stream}.a", ['{"id": 1}', '{"id": 2, "name": "x"}', "no JSON"]).raise_for_errors()
    first = cli(*run, "--schema", "id BIGINT", "--partition-by", "date")
    assert first.out == "wrote 2 rows to 1 file of db.rows, 1 undecodable row beside it\n"
    sync_js.publish(f"{stream}.a", '{"id": 4, "name": "y"}')
    wider = ["--schema", "id BIGINT, name STRING", "--partition-by", "date"]
    refused = cli(*run, *wider)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert cli(*run, *wider, "--evolve", "add", "--json").json["rows"] == 1
    found = iceberg_catalog.load_table("db.rows").scan().to_arrow().sort_by("seq")
    assert found["name"].to_pylist() == [None, None, "y"]
    missing = cli("sink", "iceberg", stream, "none.rows", "--catalog", "test")
    assert (missing.code, "no namespace 'none'" in missing.err) == (1, True)


def test_iceberg_with_keys(cli: Command, sync_js: jetarrow.sync.JetStream, stream: str, iceberg_catalog: Any) -> None:
    sync_js.publish_batch(f"{stream}.a", ['{"id": 1}', '{"id": 2}', '{"id": 1}']).raise_for_errors()
    sync_js.publish(f"{stream}.a", b"", headers={"KV-Operation": "DEL"})
    run = ["sink", "iceberg", stream, "db.rows", "--catalog", "test", "--schema", "id BIGINT", "--merge", "upsert"]
    assert cli(*run, "--key", "id", "--deletes", "none", "--json").json["rows"] == 3
    found = iceberg_catalog.load_table("db.rows").scan().to_arrow().sort_by("seq")
    assert found["id"].to_pylist() == [2, 1]
    refused = cli(*run, "--key", "id", "--on-rollback", "continue")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_delta_evolves(cli: Command, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    deltalake = pytest.importorskip("deltalake")
    sync_js.publish(f"{stream}.a", '{"id": 1}')
    assert cli("sink", "delta", stream, "table", "--schema", "id BIGINT").code == 0
    sync_js.publish(f"{stream}.a", '{"id": 2, "name": "y"}')
    wider = ["sink", "delta", stream, "table", "--schema", "id BIGINT, name STRING"]
    assert cli(*wider).code == 1
    assert cli(*wider, "--evolve", "add", "--json").json["rows"] == 1
    found = deltalake.DeltaTable("table").to_pyarrow_table().sort_by("seq")
    assert found["name"].to_pylist() == [None, "y"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_ctrl_c_keeps_what_was_committed(
    cli: Command, sync_js: jetarrow.sync.JetStream, stream: str, away: Path
) -> None:
    sync_js.publish_batch(f"{stream}.a", ["one", "two"]).raise_for_errors()
    follow = command("sink", "parquet", stream, "archive", "--follow", "--every", "200ms")
    with subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: any(Path("archive").glob("_jetarrow/[0-9]*.json")), 30)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said == "stopped: wrote 2 rows to 1 file of archive, up to sequence 2; run the same command to continue\n"
    assert cli("sink", "parquet", stream, "archive", "--json").json["rows"] == 0
    assert sum(pyarrow.dataset.dataset(str(path)).count_rows() for path in Path("archive").glob("*.parquet")) == 2


def test_verify(cli: Command, sync_js: jetarrow.sync.JetStream, stream: str, away: Path) -> None:
    payloads = [json.dumps({"id": number, "region": "abc"[number % 3]}) for number in range(30)]
    sync_js.publish_batch(f"{stream}.a", [*payloads, "no JSON"]).raise_for_errors()
    options = ("--schema", "id BIGINT, region STRING", "--partition-by", "region")
    assert cli("sink", "parquet", stream, "archive", *options).code == 0
    whole = cli("sink", "verify", "archive", "--json")
    assert whole.json == {"rows": 30, "compared": 30, "misplaced": 0, "missing": 0, "twice": 0, "files": []}
    # As builds before 24 November 2026 did: rows of one value in another value's folder.
    (one,) = Path("archive/region=a").glob("*.parquet")
    (other,) = Path("archive/region=b").glob("*.parquet")
    swapped = one.read_bytes(), other.read_bytes()
    one.write_bytes(swapped[1])
    other.write_bytes(swapped[0])
    found = cli("sink", "verify", "archive")
    assert found.code == 1
    assert "verified 30 rows, 30 of them against the stream: 20 misplaced, 0 missing, 0 duplicated\n" in found.out
    assert str(one.relative_to("archive")) in found.out
    # Messages that the stream no longer holds cannot be compared.
    sync_js.purge_stream(stream, keep=2)
    assert '"compared": 1' in cli("sink", "verify", "archive", "--json").out
    missing = cli("sink", "verify", "elsewhere")
    assert (missing.code, missing.err.count("\n")) == (1, 1)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_ctrl_c_writes_the_rows_that_a_sink_holds(
    cli: Command, sync_js: jetarrow.sync.JetStream, stream: str, away: Path
) -> None:
    """The first commit would end after 60 s."""
    sync_js.publish_batch(f"{stream}.a", [b"x"] * 500).raise_for_errors()
    follow = ("sink", "parquet", stream, "archive", "--follow", "--json")
    with Terminal(*follow, stdout=subprocess.PIPE) as terminal:
        terminal.until("500 messages")
        assert not list(Path("archive").glob("_jetarrow/[0-9]*.json"))
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
        assert terminal.process.stdout is not None
        found = json.loads(terminal.process.stdout.read())
    assert found == {"rows": 500, "files": 1, "first_seq": 1, "last_seq": 500, "corrupt": 0}
    assert "stopped: wrote 500 rows to 1 file of archive, up to sequence 500; run the same command" in terminal.shown
    assert cli("sink", "verify", "archive").code == 0


def test_ls_lists_archives_and_durable_consumers(
    cli: Command, sync_js: jetarrow.sync.JetStream, stream: str, away: Path
) -> None:
    sync_js.publish_batch(f"{stream}.a", [b"x"] * 10).raise_for_errors()
    sync_js.publish_batch(f"{stream}.b", [b"x"] * 10).raise_for_errors()
    assert cli("sink", "ls", stream, "--json").json == []
    assert cli("sink", "parquet", stream, "lake/all").code == 0
    assert cli("sink", "parquet", stream, "lake/b", "--subject", f"{stream}.b").code == 0
    assert cli("sink", "parquet", stream, "lake/queue", "--durable", "archive").code == 0
    sync_js.publish_batch(f"{stream}.a", [b"x"] * 3).raise_for_errors()
    rows = {row["target"]: row for row in cli("sink", "ls", stream, "--json").json}
    assert {target: (row["format"], row["position"], row["lag"]) for target, row in rows.items()} == {
        "lake/all": ("parquet", 20, 3),
        "lake/b": ("parquet", 20, 0),
        "lake/queue": ("parquet", 20, 3),
    }
    assert rows["lake/all"]["behind"] > 0 == rows["lake/b"]["behind"]
    assert (rows["lake/b"]["subjects"], rows["lake/queue"]["durable"]) == ([f"{stream}.b"], "archive")
    # From another place the server knows only the sink with a consumer.
    (row,) = cli("sink", "ls", "elsewhere/", stream, "--json").json
    assert (row["target"], row["lag"], row["durable"], row["format"]) == ("lake/queue", 3, "archive", None)
    assert [row["target"] for row in cli("sink", "ls", "lake/all", "--json").json] == ["lake/all"]
    assert "lake/queue" in cli("sink", "ls", stream).out
    assert cli("sink", "ls", "NONE").code == 1
    with sync_js.to_parquet(stream, "lake/all", follow=True, seconds=1) as sink:
        sink.step()
        (row,) = cli("sink", "ls", "lake/all", "--json").json
        assert (row["lag"], str(os.getpid()) in row["writer"]) == (0, True)


def test_verify_uses_the_filters_of_the_archive(
    cli: Command, sync_js: jetarrow.sync.JetStream, stream: str, away: Path
) -> None:
    sync_js.publish_batch(f"{stream}.a", [b"x"] * 3).raise_for_errors()
    sync_js.publish_batch(f"{stream}.b", [b"x"] * 2).raise_for_errors()
    assert cli("sink", "parquet", stream, "archive", "--subject", f"{stream}.b").code == 0
    assert cli("sink", "verify", "archive", "--json").json["compared"] == 2
