"""Foreign text does not control the terminal: every subcommand escapes it on stdout and on stderr."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import jetarrow.sync
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jetarrow.server import NatsServer

from tests.cli.test_run import ALL
from tests.cli.tools import SYSTEM_ACCOUNT, SYSTEM_USER, Command, Terminal, command, run_in_terminal

# Sets the terminal's title, rings the bell, sets red (C1), reorders, deletes.
FOREIGN = "\x1b]0;EVIL\x07\x9b31m\u202e\x7f"
RAW = ("\x1b]0;", "\x07", "\x9b", "\u202e", "\x7f")
# The escaped forms that the command, JSON, and Rust's and Python's quoting produce.
ESCAPED = re.compile(r"\\(x1b|u001b|u\{1b\})\]0;EVIL")


def request_raw(url: str, subject: str, payload: str) -> str:
    """Sends a request with a subject that jetarrow rejects and other clients do not; returns the response."""
    where = urlsplit(url)
    data = payload.encode()
    with socket.create_connection((where.hostname, where.port), timeout=20) as sock, sock.makefile("rwb") as file:
        file.readline()
        file.write(b'CONNECT {"verbose":false}\r\nSUB _INBOX.raw 1\r\n')
        file.write(b"PUB %s _INBOX.raw %d\r\n%s\r\n" % (subject.encode(), len(data), data))
        file.flush()
        size = int(file.readline().split()[-1])
        return file.read(size).decode()


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    """Starts a server on which every text that clients can write contains escape sequences."""
    named = f'server_name: "n\\x1b]0;EVIL\\x07"\n{SYSTEM_ACCOUNT}'
    with NatsServer(config=named) as server, jetarrow.sync.connect(server.url, name=FOREIGN) as nc:
        nc.subscribe("s.a")
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["s.>"], description=FOREIGN, metadata={FOREIGN: FOREIGN})
        js.publish("s.a", f"{FOREIGN}\r\n\t", headers={"X": FOREIGN})
        # The server omits subjects with a DEL from its lists.
        assert "error" not in request_raw(server.url, f"s.{FOREIGN[:-1]}", json.dumps({FOREIGN: FOREIGN}))
        config = {"durable_name": "D", "ack_policy": "explicit", "description": FOREIGN}
        request_raw(
            server.url, "$JS.API.CONSUMER.DURABLE.CREATE.S.D", json.dumps({"stream_name": "S", "config": config})
        )
        config["durable_name"] = name = f"C{FOREIGN}"
        created = request_raw(
            server.url,
            f"$JS.API.CONSUMER.DURABLE.CREATE.S.{name}",
            json.dumps({"stream_name": "S", "config": config}),
        )
        assert "error" not in created
        stream = {"name": f"N{FOREIGN}", "subjects": [f"n.{FOREIGN}"]}
        assert "error" not in request_raw(server.url, f"$JS.API.STREAM.CREATE.{stream['name']}", json.dumps(stream))
        js.create_key_value(bucket="B", history=5).put("key", f"{FOREIGN}\n")
        entry = {"max_members": 2, "partitioning_filters": [{"filter": f"s.*.{FOREIGN}"}], "members": ["m1"]}
        groups = js.create_key_value(bucket="elastic-consumer-groups")
        groups.put("S.G", json.dumps(entry).encode())
        groups.put("S.BAD", json.dumps({**entry, "members": [FOREIGN]}).encode())
        store = js.create_object_store(bucket="O", description=FOREIGN)
        store.put(f"o{FOREIGN}\n", FOREIGN.encode())
        yield server.url


@pytest.fixture
def here(hostile: str, away: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NATS_URL", hostile)
    monkeypatch.setenv("COLUMNS", "300")
    contexts = Path(os.environ["XDG_CONFIG_HOME"]) / "nats" / "context"
    contexts.mkdir(parents=True)
    (contexts / "p.json").write_text(json.dumps({"url": f"nats://h/{FOREIGN}", "description": FOREIGN}), "utf-8")
    (away / "admin.txt").write_text("x", "utf-8")
    (away / PROGRAM).write_text("import nats\n", "utf-8")
    pq.write_table(pa.table({f"c{FOREIGN}": [FOREIGN], "subject": ["s.x"]}), away / f"f{FOREIGN}.parquet")
    return away


OBJECT, FILE, PROGRAM = f"o{FOREIGN}\n", f"f{FOREIGN}.parquet", f"m{FOREIGN}.py"
# If a subcommand shows no foreign text, its arguments contain escape sequences, and the error text quotes them.
RUNS: dict[tuple[str, ...], list[list[str]]] = {
    ("bench",): [["--size", FOREIGN], ["--only", FOREIGN]],
    ("completion",): [[FOREIGN]],
    ("consumer", "info"): [["S", "D"], ["S", "D", "--json"]],
    ("consumer", "lag"): [["S"], ["S", "--json"], []],
    ("lag",): [["S"], ["S", "--json"], []],
    ("consumer", "ls"): [["S"], ["S", "--json"]],
    ("consumer", "pause"): [["S", FOREIGN, "1h"]],
    ("consumer", "resume"): [["S", FOREIGN]],
    ("consumer", "rm"): [["S", FOREIGN, "--yes"]],
    ("context", "add"): [[FOREIGN]],
    ("context", "ls"): [[], ["--json"]],
    ("context", "rm"): [[FOREIGN, "--yes"]],
    ("context", "select"): [[FOREIGN]],
    ("context", "show"): [["p"], ["p", "--json"]],
    ("doctor",): [["--batch", "5000"], ["S", "--batch", "5000", "--json"], [FOREIGN]],
    ("group", "add-member"): [["S", "G", FOREIGN], ["S", "BAD", "m1"]],
    ("group", "create"): [["S", "G", "--partitions", "2", "--member", FOREIGN], ["S", FOREIGN, "--partitions", "2"]],
    ("group", "info"): [["S", "G"], ["S", "G", "--json"], ["S", "BAD"], ["S", FOREIGN]],
    ("group", "ls"): [["S"], ["S", "--json"], [FOREIGN]],
    ("group", "remove-member"): [["S", FOREIGN, "m1"]],
    ("group", "rm"): [["S", FOREIGN, "--yes"]],
    ("group", "step-down"): [["S", "G", FOREIGN]],
    ("group", "watch"): [["S", "BAD"], ["S", FOREIGN]],
    ("kv", "add"): [[FOREIGN]],
    ("kv", "create"): [["B", FOREIGN, "1"]],
    ("kv", "del"): [["B", FOREIGN]],
    ("kv", "get"): [["B", "key"], ["B", "key", "--json"]],
    ("kv", "history"): [["B", "key"], ["B", "key", "--json"]],
    ("kv", "ls"): [[FOREIGN]],
    ("kv", "purge"): [["B", FOREIGN]],
    ("kv", "put"): [["B", FOREIGN, "1"]],
    ("kv", "rm"): [[FOREIGN, "--yes"]],
    ("man",): [[FOREIGN]],
    ("migrate",): [[PROGRAM], [PROGRAM, "--json"], [FOREIGN]],
    ("latest",): [["S", "--subject", "s.a"], ["S", "--subject", "s.a", "--json"]],
    ("load",): [[FILE, "--dry-run"], [FILE, "--subject", f"s.{FOREIGN}"]],
    ("object", "add"): [["O2", "--ttl", FOREIGN]],
    ("object", "clean"): [["O", "--older-than", FOREIGN]],
    ("object", "get"): [["O", OBJECT, "--to", "-"], ["O", OBJECT, "--to", f"t{FOREIGN}"], ["O", FOREIGN]],
    ("object", "info"): [["O", OBJECT], ["O", OBJECT, "--json"]],
    ("object", "ls"): [["O"], ["O", "--json"]],
    ("object", "put"): [["O", FILE], ["O", FILE, "--json"]],
    ("object", "rm"): [["O", f"no{FOREIGN}", "--yes"]],
    ("pipe",): [
        ["S", FOREIGN, "--sql", "select 1"],
        ["S", "S", "--python", f"{FOREIGN}:x"],
    ],
    ("publish",): [[f"s.{FOREIGN}", "x"], ["s.a", "x", "--header", FOREIGN]],
    ("read",): [
        ["S"],
        ["S", "--json"],
        ["S", "--to", "-", "--format", "csv"],
        ["S", "--schema", "infer"],
        ["S", "--sql", f"select '{FOREIGN}' as \"{FOREIGN}\" from S"],
        ["S", "--sql", f"select {FOREIGN}"],
        ["S", "--to", f"t{FOREIGN}.csv"],
    ],
    ("serve",): [["--config", FOREIGN]],
    ("server", "info"): [[FOREIGN, *SYSTEM_USER], SYSTEM_USER, [*SYSTEM_USER, "--json"]],
    ("server", "ls"): [SYSTEM_USER, [*SYSTEM_USER, "--json"]],
    ("server", "report"): [SYSTEM_USER, [*SYSTEM_USER, "--json"]],
    ("sink", "delta"): [[FOREIGN, "table"]],
    ("sink", "iceberg"): [["S", "db.table", "--catalog", FOREIGN]],
    ("sink", "ls"): [[f"nix{FOREIGN}/"], [FOREIGN]],
    ("sink", "parquet"): [["S", f"archive{FOREIGN}", "--subject", "s.a"]],
    ("sink", "verify"): [[f"archive{FOREIGN}"]],
    ("stream", "add"): [[FOREIGN]],
    ("stream", "get"): [["S", "1"], ["S", "2"], ["S", "1", "--json"]],
    ("stream", "info"): [["S"], ["S", "--json"]],
    ("stream", "ls"): [[], ["--json"]],
    ("stream", "purge"): [[FOREIGN, "--yes"]],
    ("stream", "report"): [[], ["--json"]],
    ("stream", "rm"): [[FOREIGN], [FOREIGN, "--yes"]],
    ("stream", "subjects"): [["S"], ["S", "--json"]],
    ("top",): [["--once", "--every", "100ms"], ["--json", "--every", "100ms"]],
    ("trace",): [["s.a"], ["s.a", "--json"], [f"s.{FOREIGN}"], ["s.a", "--header", FOREIGN]],
}
FOLLOWING = [
    ("kv", "watch", "B"),
    ("kv", "watch", "B", "--json"),
    ("read", "S", "--follow"),
    ("top", "--every", "100ms"),
]


def assert_escaped(shown: str) -> None:
    assert not [text for text in RAW if text in shown], shown
    # Guards against an output without any text to escape.
    assert ESCAPED.search(shown), shown


def test_every_subcommand_is_run() -> None:
    assert {*RUNS, *(tuple(word for word in run if word.islower()) for run in FOLLOWING)} >= set(ALL)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
@pytest.mark.parametrize("path", RUNS, ids=" ".join)
def test_subcommand_shows_foreign_text_escaped(path: tuple[str, ...], here: Path) -> None:
    for arguments in RUNS[path]:
        _, shown = run_in_terminal(*path, *arguments)
        assert_escaped(shown)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
@pytest.mark.parametrize("arguments", FOLLOWING, ids=" ".join)
def test_subcommand_that_follows_shows_foreign_text_escaped(arguments: tuple[str, ...], here: Path) -> None:
    with Terminal(*arguments) as terminal:
        terminal.until("EVIL")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
    assert_escaped(terminal.shown)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_a_terminal_alone_is_guarded(here: Path) -> None:
    """Escaping is decided for stdout and stderr separately: output to a pipe is not escaped."""
    with Terminal("stream", "get", "S", "1", stdout=subprocess.PIPE) as process:
        process.end()
        assert process.process.stdout is not None
        assert process.process.stdout.read() == f"{FOREIGN}\r\n\t\n".encode()
    assert ESCAPED.search(process.shown)


def test_pipes_and_files_get_payloads_as_they_are(here: Path) -> None:
    def piped(*arguments: str) -> bytes:
        return subprocess.run(command(*arguments), capture_output=True, timeout=60, check=True).stdout

    assert piped("kv", "get", "B", "key") == f"{FOREIGN}\n".encode()
    assert piped("object", "get", "O", OBJECT, "--to", "-") == FOREIGN.encode()
    assert json.loads(piped("kv", "get", "B", "key", "--json"))["value"] == f"{FOREIGN}\n"
    rows = [json.loads(line) for line in piped("read", "S", "--json").splitlines()]
    assert rows[0]["data"] == f"{FOREIGN}\r\n\t"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_json_on_a_terminal_is_the_same_document(here: Path) -> None:
    with Terminal("kv", "get", "B", "key", "--json") as process:
        assert process.end() == 0
    assert json.loads(process.shown)["value"] == f"{FOREIGN}\n"


def test_rows_stay_lines_in_a_pipe(cli: Command, here: Path) -> None:
    assert len(cli("read", "S").out.splitlines()) == 3
    (line,) = (line for line in cli("object", "info", "O", OBJECT).out.splitlines() if "Object" in line)
    assert line.endswith(r"\x7f\n")


def test_helps_of_typer_keep_their_styles(here: Path) -> None:
    with Terminal("stream", "--help") as process:
        assert process.end() == 0
    assert "\x1b[" in process.shown
    assert r"\x1b" not in process.shown


def test_a_prompt_is_escaped(here: Path) -> None:
    with Terminal("kv", "rm", FOREIGN) as process:
        process.until("[y/N]")
        process.type("n\n")
        assert process.end() == 1
    assert_escaped(process.shown)
