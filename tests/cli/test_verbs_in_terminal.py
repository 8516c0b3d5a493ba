"""Every subcommand succeeds with a terminal as stdout and stderr."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.cli import main
from jetarrow.server import NatsServer

from tests.cli.test_run import ALL
from tests.cli.tools import SYSTEM_ACCOUNT, SYSTEM_USER, Terminal, run_in_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")

CSV = "".join(
    ["id,region,amount\n", *(f"{number},{'eu' if number % 2 else 'us'},{number}.5\n" for number in range(2000))]
)
NDJSON = "".join(f'{{"id": {number}, "region": "eu", "amount": {number}.5}}\n' for number in range(2000))
SUBJECT = "s.{region}"
# Arguments of each subcommand, and a text that its output has. They run in this order, on one server.
RUNS: list[tuple[tuple[str, ...], list[str], str]] = [
    (("stream", "add"), ["S", "--subjects", "s.>"], "created stream S"),
    (("load",), ["orders.csv", "--subject", SUBJECT], "stored 2,000 of 2,000 messages in S"),
    (("load",), ["orders.ndjson", "--subject", SUBJECT], "stored 2,000 of 2,000 messages in S"),
    (("load",), ["orders.json", "--subject", SUBJECT], "stored 2 of 2 messages in S"),
    (("load",), ["orders.parquet", "--subject", SUBJECT, "--state", "p"], "stored 1,000 of 1,000 messages in S"),
    (("publish",), ["s.eu", '{"id": 1, "region": "eu"}'], "stored S seq 5003"),
    (("read",), ["S", "--limit", "2"], "s.us"),
    (("read",), ["S", "--to", "out.parquet"], "wrote 5,003 rows"),
    (("read",), ["S", "--sql", "select region, count(*) as n from S group by 1"], "4002"),
    (("latest",), ["S", "--schema", "infer"], "4002"),
    (("stream", "ls"), [], "S"),
    (("stream", "info"), ["S"], "5,003"),
    (("stream", "subjects"), ["S"], "s.eu"),
    (("stream", "get"), ["S", "1"], "id"),
    (("stream", "report"), [], "S"),
    (("consumer", "ls"), ["S"], "C"),
    (("consumer", "info"), ["S", "C"], "C"),
    (("consumer", "lag"), ["S"], "C"),
    (("lag",), ["S"], "C"),
    (("consumer", "pause"), ["S", "C", "1h"], "paused consumer C"),
    (("consumer", "resume"), ["S", "C"], "C"),
    (("consumer", "rm"), ["S", "C", "--yes"], "C"),
    (("group", "create"), ["S", "G", "--partitions", "2", "--member", "m1"], "created elastic group G"),
    (("group", "ls"), ["S"], "G"),
    (("group", "info"), ["S", "G"], "m1"),
    (("group", "add-member"), ["S", "G", "m2"], "added m2 to group G"),
    (("group", "remove-member"), ["S", "G", "m2"], "removed m2 from group G"),
    (("group", "step-down"), ["S", "G", "m1"], "unpinned the client of member m1"),
    (("group", "rm"), ["S", "G", "--yes"], "removed group G"),
    (("doctor",), ["S"], "no findings"),
    (("migrate",), ["moved.py"], "nothing needs attention in 1 Python file"),
    (("sink", "parquet"), ["S", "archive"], "wrote 5,003 rows"),
    (("sink", "verify"), ["archive"], "verified 5,003 rows"),
    (("sink", "ls"), ["."], "archive"),
    (("sink", "delta"), ["S", "table"], "wrote 5,003 rows"),
    (("sink", "iceberg"), ["S", "db.s", "--catalog", "test"], "wrote 5,003 rows"),
    (("stream", "add"), ["T", "--subjects", "t.>", "--allow-atomic"], "created stream T"),
    (
        ("pipe",),
        ["S", "T", "--sql", "select id from S where id < 10", "--subject", "t.x"],
        "messages in T of 5,003 rows",
    ),
    (("kv", "add"), ["B", "--history", "5"], "created bucket B"),
    (("kv", "create"), ["B", "new", "1"], "new"),
    (("kv", "put"), ["B", "key", "1"], "key stored at revision"),
    (("kv", "get"), ["B", "key"], "1"),
    (("kv", "ls"), ["B"], "key"),
    (("kv", "history"), ["B", "key"], "key"),
    (("kv", "del"), ["B", "key"], "key"),
    (("kv", "purge"), ["B", "key"], "key"),
    (("kv", "rm"), ["B", "--yes"], "B"),
    (("object", "add"), ["O"], "O"),
    (("object", "put"), ["O", "orders.csv"], "orders.csv"),
    (("object", "get"), ["O", "orders.csv", "--to", "copy.csv"], "copy.csv"),
    (("object", "ls"), ["O"], "orders.csv"),
    (("object", "info"), ["O", "orders.csv"], "orders.csv"),
    (("object", "clean"), ["O"], "O"),
    (("object", "rm"), ["O", "orders.csv", "--yes"], "orders.csv"),
    (("context", "add"), ["prod", "--server", "nats://127.0.0.1:1"], "created context prod"),
    (("context", "ls"), [], "prod"),
    (("context", "show"), ["prod"], "prod"),
    (("context", "select"), ["prod"], "prod"),
    (("context", "rm"), ["prod", "--yes"], "prod"),
    (("man",), [], "EXIT STATUS"),
    (("completion",), ["bash"], "complete"),
    (("server", "ls"), SYSTEM_USER, "Uptime"),
    (("server", "info"), SYSTEM_USER, "Synced to disk  every 2m"),
    (("server", "report"), SYSTEM_USER, "JetStream"),
    (("trace",), ["s.eu"], "stream 'S'"),
    (("top",), ["--once", "--every", "100ms"], "S"),
    (("bench",), ["--msgs", "1000", "--size", "64"], "/s"),
    (("stream", "purge"), ["S", "--yes"], "S"),
    (("stream", "rm"), ["S", "--yes"], "S"),
]
# Subcommands that end with Ctrl-C, their arguments, and a text that is shown before.
FOLLOWING = [
    (("kv", "watch"), ["W"], "key"),
    (("group", "watch"), ["W", "G"], "m1"),
    (("serve",), ["--port", "0"], "nats://"),
    (("lag",), ["--serve", ":0"], "http://"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer(config=SYSTEM_ACCOUNT) as server:
        yield server


@pytest.fixture
def here(server: NatsServer, away: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NATS_URL", server.url)
    (away / "admin.txt").write_text("x", "utf-8")
    (away / "moved.py").write_text("import jetarrow as nats\n", "utf-8")
    (away / "orders.csv").write_text(CSV, "utf-8")
    (away / "orders.ndjson").write_text(NDJSON, "utf-8")
    (away / "orders.json").write_text('[{"id": 1, "region": "eu"}, {"id": 2, "region": "us"}]', "utf-8")
    return away


def test_every_subcommand_is_run_in_a_terminal() -> None:
    assert {path for path, *_ in RUNS} | {path for path, *_ in FOLLOWING} >= set(ALL)


@pytest.mark.usefixtures("iceberg_catalog")
def test_subcommands_succeed_in_a_terminal(here: Path, server: NatsServer) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": range(1000), "region": ["eu"] * 1000}), here / "orders.parquet")
    failed: list[str] = []
    with jetarrow.sync.connect(server.url) as nc:
        for path, arguments, text in RUNS:
            if path == ("consumer", "ls"):
                nc.jetstream().add_consumer("S", durable_name="C")
            if path == ("group", "step-down"):
                nc.jetstream().add_consumer("S-G", name="m1", priority_groups=["PCG"], priority_policy="pinned_client")
            code, shown = run_in_terminal(*path, *arguments)
            if code or text not in shown:
                failed.append(f"{' '.join(path)}: exit code {code}, {shown[-300:]!r}")
    assert failed == []


@pytest.mark.parametrize(("path", "arguments", "text"), FOLLOWING, ids=lambda value: str(value))
def test_following_subcommands_end_with_ctrl_c_in_a_terminal(
    path: tuple[str, ...], arguments: list[str], text: str, here: Path
) -> None:
    if path == ("kv", "watch"):
        assert main(["kv", "add", "W"]) == main(["kv", "put", "W", "key", "1"]) == 0
    if path == ("group", "watch"):
        assert main(["stream", "add", "W", "--subjects", "w.>"]) == 0
        assert main(["group", "create", "W", "G", "--partitions", "2", "--member", "m1"]) == 0
    with Terminal(*path, *arguments) as terminal:
        terminal.until(text)
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.end() == 130


def test_the_bar_of_a_query_does_not_come_between_its_rows(here: Path, server: NatsServer) -> None:
    assert main(["stream", "add", "Q", "--subjects", "q.>"]) == 0
    assert main(["load", "orders.csv", "--subject", "q.{region}"]) == 0
    _, shown = run_in_terminal("read", "Q", "--sql", "select id, region from Q")
    rows = re.split(r"id +region *\r", shown, maxsplit=1)[1]
    assert rows.count("us") == 1000
    assert "reading" not in rows
    assert "\x1b" not in rows
