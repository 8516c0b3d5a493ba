"""`jetarrow publish`, `load` and `read`."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jetarrow.sync
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.cli.tools import Command

ORDERS = pa.table(
    {
        "id": [1, 2, 3],
        "region": ["eu", "us", "eu"],
        "amount": [2.5, 3.0, None],
        "at": pa.array([datetime(2026, 11, 21, hour, tzinfo=UTC) for hour in (10, 11, 12)], pa.timestamp("us", "UTC")),
    }
)


def lines_in(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))


def test_publish(cli: Command, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("publish", f"{stream}.a", "one", "-H", "Colour: red", "--msg-id", "1").out == f"stored {stream} seq 1\n"
    again = cli("publish", f"{stream}.a", "one", "--msg-id", "1", "--json").json
    assert again == {"stream": stream, "seq": 1, "duplicate": True}
    lines_in(monkeypatch, b"two\nthree\r\n\nlast")
    assert cli("publish", f"{stream}.a").out == f"stored 4 messages in {stream}\n"
    rows = cli("read", stream, "--json").lines
    assert [row["data"] for row in rows] == ["one", "two", "three", "", "last"]
    assert rows[0]["headers"] == {"Colour": ["red"], "Nats-Msg-Id": ["1"]}
    assert cli("publish", f"{stream}.a", "x", "-H", "Colour").code == 2
    nowhere = cli("publish", "nobody.takes.this", "x")
    assert (nowhere.code, "no stream has the subject" in nowhere.err) == (1, True)


def written(path: Path) -> None:
    match path.suffix:
        case ".parquet":
            pq.write_table(ORDERS, path)
        case ".csv":
            pyarrow.csv.write_csv(ORDERS, path)
        case ".ndjson":
            path.write_text("".join(json.dumps(row, default=str) + "\n" for row in ORDERS.to_pylist()), "utf-8")
        case ".arrow":
            with pa.ipc.new_file(path, ORDERS.schema) as file:
                file.write_table(ORDERS)


@pytest.mark.parametrize("ending", ["parquet", "csv", "ndjson", "arrow"])
def test_load(cli: Command, stream: str, away: Path, ending: str) -> None:
    path = away / f"orders.{ending}"
    written(path)
    template = f"{stream}.{{region}}"
    only_said = cli("load", str(path), "--subject", template, "--dry-run")
    assert (only_said.code, only_said.out) == (0, "")
    assert "id int64, region string, amount double, at timestamp[us" in only_said.err
    assert f'first row: {stream}.eu  {{"id": 1, "region": "eu", "amount": 2.5' in only_said.err
    assert cli("read", stream, "--json").lines == []
    done = cli("load", str(path), "--subject", template, "--msg-id", "id", "--json").json
    assert done == [
        {
            "file": str(path),
            "stream": stream,
            "messages": 3,
            "stored": 3,
            "duplicates": 0,
            "skipped": 0,
            "errors": 0,
            "malformed": 0,
        },
    ]
    again = cli("load", str(path), "--subject", template, "--msg-id", "id")
    assert again.out == f"orders.{ending}: stored 0 of 3 messages in {stream} (3 duplicates)\n"
    rows = cli("read", stream, "--schema", "id BIGINT, region STRING, amount DOUBLE, at TIMESTAMP", "--json").lines
    assert [(row["subject"], row["id"], row["amount"]) for row in rows] == [
        (f"{stream}.eu", 1, 2.5),
        (f"{stream}.us", 2, 3.0),
        (f"{stream}.eu", 3, None),
    ]
    assert rows[1]["at"] == "2026-11-21T11:00:00.000000Z"


def test_a_row_that_cannot_be_sent_fails_the_load(cli: Command, stream: str, away: Path) -> None:
    (away / "bad.csv").write_text("id,region\n1,eu\n2,\n3,u s\n4,us\n", "utf-8")
    done = cli("load", "bad.csv", "--subject", f"{stream}.{{region}}")
    assert (done.code, done.out) == (1, f"bad.csv: stored 2 of 4 messages in {stream}\n")
    assert 'error: bad.csv, row 1: column "region": null cannot be in a subject' in done.err
    assert "row 2" in done.err
    assert cli("load", "bad.txt", "--subject", "x").code == 2
    (away / "bad.txt").touch()
    assert "use one of parquet, arrow, csv" in cli("load", "bad.txt", "--subject", "x").err


@pytest.fixture
def orders(cli: Command, sync_js: jetarrow.sync.JetStream, stream: str) -> str:
    sync_js.publish_table(ORDERS, f"{stream}.{{region}}").raise_for_errors()
    return stream


def test_read_into_files(cli: Command, orders: str, away: Path) -> None:
    for ending in ("parquet", "arrow", "csv", "ndjson"):
        done = cli("read", orders, "--schema", "infer", "--to", f"out.{ending}", "--columns", "seq,headers,value")
        assert (done.code, done.out) == (0, f"wrote 3 rows to out.{ending}\n")
    table = pq.read_table("out.parquet")
    assert table.column("id").to_pylist() == [1, 2, 3]
    assert pa.ipc.open_file("out.arrow").read_all().select(["seq", "id"]) == table.select(["seq", "id"])
    assert Path("out.csv").read_text("utf-8").splitlines()[1].startswith("1,,1,eu,2.5,2026-11-21T10:00:00")
    rows = [json.loads(line) for line in Path("out.ndjson").read_text("utf-8").splitlines()]
    assert [row["region"] for row in rows] == ["eu", "us", "eu"]
    assert cli("read", orders, "--to", "-", "--format", "csv", "--columns", "seq").out == "seq\n1\n2\n3\n"
    assert cli("read", orders, "--to", "out.xyz").code == 2
    assert sorted(path.name for path in away.iterdir()) == ["out.arrow", "out.csv", "out.ndjson", "out.parquet"]


def test_a_file_is_there_only_once_it_is_whole(cli: Command, orders: str, away: Path) -> None:
    Path("out.csv").write_text("as it was", "utf-8")
    failed = cli("read", orders, "--to", "out.csv", "--columns", "seq,nonsense")
    assert (failed.code, "nonsense" in failed.err) == (2, True)
    assert Path("out.csv").read_text("utf-8") == "as it was"
    assert len(list(away.iterdir())) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes and links")
def test_a_file_that_is_replaced_keeps_its_mode_and_place(cli: Command, orders: str, away: Path) -> None:
    (away / "kept").mkdir()
    kept = away / "kept" / "file.csv"
    kept.touch(0o640)
    kept.chmod(0o640)
    Path("out.csv").symlink_to(kept)
    assert cli("read", orders, "--to", "out.csv", "--columns", "seq").code == 0
    assert Path("out.csv").is_symlink()
    assert kept.read_text("utf-8") == "seq\n1\n2\n3\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    former = os.umask(0o027)
    try:
        assert cli("read", orders, "--to", "new.csv").code == 0
    finally:
        os.umask(former)
    assert stat.S_IMODE(Path("new.csv").stat().st_mode) == 0o640
    # A device file is written to, not replaced.
    assert cli("read", orders, "--to", "/dev/null", "--format", "csv").code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson", "arrow"])
def test_names_may_be_as_long_as_the_file_system_allows(cli: Command, orders: str, away: Path, form: str) -> None:
    name = "x" * (255 - len(form) - 1) + f".{form}"
    assert cli("read", orders, "--to", name).code == 0
    assert [path.name for path in away.iterdir()] == [name]


def test_read_a_part(cli: Command, orders: str) -> None:
    def seqs(*arguments: str) -> list[int]:
        return [row["seq"] for row in cli("read", orders, "--json", "--columns", "seq", *arguments).lines]

    assert seqs("--from-seq", "2") == [2, 3]
    assert seqs("--until-seq", "2") == [1]
    assert seqs("--since", "1h") == [1, 2, 3]
    assert seqs("--until", "1h") == []
    tomorrow = (datetime.now() + timedelta(days=1)).isoformat(timespec="minutes")
    assert seqs("--until", tomorrow, "--limit", "1") == [1]
    assert seqs("--subject", f"{orders}.us") == [2]


def test_read_for_people(cli: Command, orders: str) -> None:
    heading, first, *_ = cli("read", orders).out.splitlines()
    assert heading.split() == ["seq", "timestamp", "subject", "data"]
    assert first.split()[2] == f"{orders}.eu"
    assert first.endswith('"at":"2026-11-21T10:00:00Z"}')
    heading, first, *_ = cli("read", orders, "--schema", "id BIGINT, region STRING").out.splitlines()
    assert heading.split()[:3] == ["seq", "id", "region"]
    assert first.split() == ["1", "1", "eu"]


def test_what_a_stream_holds_does_not_steer_the_terminal(cli: Command, stream: str) -> None:
    cli("publish", f"{stream}.a", "a\x1b[2Jb\nc")
    assert cli("read", stream).out.splitlines()[1].endswith(r"a\x1b[2Jb\nc")


def test_queries(cli: Command, orders: str) -> None:
    query = f"select region, count(*)::int n, sum(amount) total from {orders} group by 1 order by 1"
    assert cli("read", orders, "--sql", query, "--json").lines == [
        {"region": "eu", "n": 2, "total": 2.5},
        {"region": "us", "n": 1, "total": 3.0},
    ]
    assert [line.split() for line in cli("read", orders, "--sql", query).out.splitlines()] == [
        ["region", "n", "total"],
        ["eu", "2", "2.5"],
        ["us", "1", "3.0"],
    ]
    cli("read", orders, "--sql", query, "--to", "out.parquet")
    assert pq.read_table("out.parquet").column("n").to_pylist() == [2, 1]
    wrong = cli("read", orders, "--sql", "select nothing")
    assert (wrong.code, wrong.err.count("\n")) == (1, 1)
    assert cli("read", orders, "--sql", f"select * from {orders}", "--follow").code == 2
    # The rows are untrusted; a query over them reads no local file.
    assert cli("read", orders, "--sql", "select * from read_text('out.parquet')").code == 1


def test_a_schema_in_a_file(cli: Command, orders: str, away: Path) -> None:
    (away / "orders.ddl").write_text("id BIGINT,\n  region STRING\n", "utf-8")
    rows = cli("read", orders, "--schema", "orders.ddl", "--columns", "value", "--json").lines
    assert rows[0] == {"id": 1, "region": "eu", "_corrupt_record": None, "_error": None}
    assert cli("read", orders, "--schema", "none.ddl").code == 1


def test_latest(cli: Command, orders: str) -> None:
    """Reads the last order of each region, with the columns, files and queries of `read`."""

    def ids(*arguments: str) -> list[tuple[str, int]]:
        rows = cli("latest", orders, "--json", "--schema", "id BIGINT", *arguments).lines
        return [(row["subject"].removeprefix(f"{orders}."), row["id"]) for row in rows]

    assert ids() == [("us", 2), ("eu", 3)]
    assert ids("--as-of-seq", "2") == [("eu", 1), ("us", 2)]
    assert ids("--subject", f"{orders}.us") == [("us", 2)]
    assert ids("--as-of", "1h") == []
    assert cli("latest", orders, "--sql", f"select count(*) as n from {orders}", "--json").lines == [{"n": 2}]
    assert cli("latest", orders, "--to", "state.parquet").out == "wrote 2 rows to state.parquet\n"
    assert len(cli("latest", orders).out.splitlines()) == 3


def test_tables_in_messages(cli: Command, stream: str, away: Path) -> None:
    """With `--format arrow` each message holds many rows, and `read` restores their types."""
    written(away / "orders.parquet")
    done = cli("load", "orders.parquet", "--subject", f"{stream}.{{region}}", "--format", "arrow", "--json").json
    assert (done[0]["messages"], done[0]["errors"]) == (2, 0)
    rows = cli("read", stream, "--payload", "arrow", "--json").lines
    assert sorted((row["id"], row["region"], row["amount"]) for row in rows) == [
        (1, "eu", 2.5),
        (2, "us", 3.0),
        (3, "eu", None),
    ]
    assert len(cli("read", stream, "--payload", "arrow").out.splitlines()) == 4
    query = f"select sum(id)::int as total from {stream}"
    assert cli("read", stream, "--payload", "arrow", "--sql", query, "--json").lines == [{"total": 6}]
    assert len(cli("latest", stream, "--payload", "arrow", "--json").lines) == 3
    cli("read", stream, "--payload", "arrow", "--to", "back.parquet", "--columns", "value")
    assert pq.read_table("back.parquet").schema.field("at").type == pa.timestamp("us", "UTC")
    assert cli("read", stream, "--payload", "xml").code == 2
