"""Every subcommand in a terminal, and every subcommand with `--json`: one session on a server of its own.

tests/cli/test_load.py has those of `load`.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jetarrow.sync
import pytest
from jetarrow.cli.json_shape import JsonShape
from jetarrow.server import NatsServer

from tests.cli.test_run import ALL
from tests.cli.tools import SYSTEM_ACCOUNT, SYSTEM_USER, Command, Terminal, run_in_terminal

# An escape sequence that sets the title of a terminal, in payloads, values, descriptions and file names.
TITLE = "\x1b]0;owned\x07"
PAYLOAD = json.dumps({"id": 1, "name": "eu"})
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Step(NamedTuple):
    """One run: its words after `jetarrow`, and the index of its shape of `--json`; None leaves `--json` out."""

    words: list[str]
    shape: int | None = 0
    code: int = 0


def step(text: str, *more: str, shape: int | None = 0, code: int = 0) -> Step:
    return Step([*text.split(), *more], shape, code)


STEPS = [
    step("context add here --server nats://127.0.0.1:4222 --description", TITLE),
    step("context ls"),
    step("context show here"),
    step("context select here"),
    step("context rm here --yes"),
    step("stream add ORDERS --subjects orders.> --max-bytes 64MiB --description", TITLE),
    step("publish orders.eu", PAYLOAD),
    step("publish orders.us", PAYLOAD, "--header", f"Note: {TITLE[1:-1]}"),
    step("publish orders.raw", TITLE),
    step("publish orders.lines", shape=1),
    step("stream ls"),
    step("stream info ORDERS"),
    step("stream report --every 100ms"),
    step("stream subjects ORDERS"),
    step("stream get ORDERS 1"),
    step("stream get ORDERS 3"),
    step("read ORDERS"),
    step("read ORDERS --sql", "select subject, id from ORDERS where id = 1", "--schema", "id BIGINT", shape=1),
    step("read ORDERS --to out.parquet", shape=2),
    step("latest ORDERS"),
    step("latest ORDERS --to state.csv", shape=2),
    step("consumer ls ORDERS"),
    step("consumer info ORDERS billing"),
    step("consumer lag ORDERS"),
    step("lag ORDERS"),
    step("doctor ORDERS --batch 5000", code=1),
    step("migrate service.py", code=1),
    step("consumer pause ORDERS billing 1h"),
    step("consumer resume ORDERS billing"),
    step("consumer rm ORDERS billing --yes"),
    step("group create ORDERS billing --partitions 6 --filter orders.* --member m1"),
    step("group ls ORDERS"),
    step("group info ORDERS billing"),
    step("group add-member ORDERS billing m2"),
    step("group remove-member ORDERS billing m2"),
    step("group step-down ORDERS billing m1"),
    step("group rm ORDERS billing --yes"),
    step("sink parquet ORDERS archive"),
    step("sink delta ORDERS table"),
    step("sink iceberg ORDERS db.orders --catalog test"),
    step("sink ls ORDERS"),
    step("sink verify archive"),
    step("stream add LARGE --subjects large.> --allow-atomic"),
    step("pipe ORDERS LARGE --on-error skip --subject large.x --sql", "select id from ORDERS"),
    step("kv add CONFIG --history 5"),
    step("kv ls", shape=0),
    step("kv put CONFIG key", TITLE),
    step("kv create CONFIG other 1"),
    step("kv get CONFIG key"),
    step("kv history CONFIG key"),
    step("kv ls CONFIG", shape=1),
    step("kv del CONFIG other"),
    step("kv purge CONFIG other"),
    step("kv rm CONFIG --yes"),
    step("object add FILES"),
    step("object ls", shape=0),
    step("object put FILES out.parquet --name", TITLE),
    step("object info FILES", TITLE),
    step("object get FILES", TITLE, "--to", "copy.bin"),
    step("object ls FILES", shape=1),
    step("object rm FILES --yes", TITLE),
    step("object clean FILES --older-than 0s --dry-run"),
    step("server ls", *SYSTEM_USER),
    step("server info", *SYSTEM_USER),
    step("server report", *SYSTEM_USER),
    step("trace orders.eu", PAYLOAD, "--header", f"Note: {TITLE[1:-1]}"),
    step("top --once --every 100ms"),
    step("bench --msgs 200"),
    step("completion fish"),
    step("man"),
    step("stream purge ORDERS --yes"),
    step("stream rm ORDERS --yes"),
]
# Subcommands that run until they are stopped: their tests are below. `load` has its own file.
FOLLOWING = {("kv", "watch"), ("group", "watch"), ("serve",), ("load",)}


@pytest.fixture
def work(away: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Starts a server without streams; its store has chunks without an object."""
    Path("admin.txt").write_text("x", "utf-8")
    Path("service.py").write_text("import nats\n", "utf-8")
    with NatsServer(config=SYSTEM_ACCOUNT) as server:
        monkeypatch.setenv("NATS_URL", server.url)
        yield server.url


def prepare(words: list[str], url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes what no subcommand makes: a consumer, lines on stdin, chunks that a killed put left."""
    with jetarrow.sync.connect(url) as nc:
        if words[:2] == ["consumer", "ls"]:
            nc.jetstream().add_consumer("ORDERS", durable_name="billing")
        if words[:2] == ["group", "step-down"]:
            nc.jetstream().add_consumer(
                "ORDERS-billing", name="m1", priority_groups=["PCG"], priority_policy="pinned_client"
            )
        if words[:2] == ["object", "clean"]:
            nc.jetstream().publish("$O.FILES.C.left", b"12345")
    if words == ["publish", "orders.lines"]:
        Path("lines").write_text(PAYLOAD + "\n", "utf-8")
        monkeypatch.setattr("sys.stdin", open("lines", encoding="utf-8"))  # noqa: SIM115


def verb_of(words: list[str]) -> tuple[str, ...]:
    return tuple(words[:2]) if tuple(words[:2]) in ALL else tuple(words[:1])


def test_the_session_has_every_subcommand() -> None:
    assert {verb_of(words) for words, *_ in STEPS} | FOLLOWING == set(ALL)
    assert len(ALL) > 45


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
@pytest.mark.usefixtures("iceberg_catalog")
def test_every_subcommand_runs_in_a_terminal(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = ""
    for words, _, code in STEPS:
        prepare(words, work, monkeypatch)
        found, screen = run_in_terminal(*words)
        assert found == code, (words, screen)
        assert screen, words
        assert "Traceback" not in screen
        assert TITLE not in screen, words
        shown += screen
    # The text is there, escaped.
    assert shown.count(r"\x1b]0;owned\x07") >= 8


def keys_of(value: Any, nested: set[str]) -> set[str]:
    """Returns the keys of an object; those of objects in the arrays `nested` are `array[].key`."""
    found: set[str] = set()
    for key, inner in value.items():
        if key in nested:
            assert inner, f"{key} has no objects to compare"
            found |= {f"{key}[].{name}" for one in inner for name in one}
        else:
            found.add(key)
    return found


def assert_documented(shape: JsonShape, text: str, words: list[str]) -> None:
    lines = [json.loads(line) for line in text.splitlines()] if shape.form == "lines" else []
    value = lines or json.loads(text)
    objects = [value] if shape.form == "object" else value
    assert objects, f"{words} wrote nothing to compare"
    if shape.form == "texts":
        assert all(isinstance(one, str) for one in objects)
        return
    nested = {key.partition("[]")[0] for key in shape.keys if "[]" in key}
    optional = {key.rstrip("?") for key in shape.keys if key.endswith("?")}
    wanted = {key for key in shape.keys if not key.endswith("?")}
    for one in objects:
        if any(" " in key for key in shape.keys):
            continue  # keys that options select
        found = keys_of(one, nested)
        assert (found - optional, words) == (wanted, words)


@pytest.mark.usefixtures("iceberg_catalog")
def test_every_subcommand_writes_the_documented_keys(cli: Command, work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = set()
    for words, shape, code in STEPS:
        prepare(words, work, monkeypatch)
        if words[0] == "top":
            # Rows of both tables.
            with jetarrow.sync.connect(work) as nc:
                nc.jetstream().add_consumer("ORDERS", durable_name="slow")
        done = cli(*words, "--json")
        assert done.code == code, (words, done.err)
        assert shape is not None
        shapes = ALL[verb_of(words)].shapes
        assert_documented(shapes[shape], done.out, words)
        compared.add((verb_of(words), shape))
    everything = {(path, at) for path in set(ALL) - FOLLOWING for at in range(len(ALL[path].shapes))}
    assert compared >= everything - {(("latest",), 1), (("lag",), 1)}
    assert all(ALL[path].shapes for path in set(ALL) - {("load",)})


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
@pytest.mark.parametrize("as_json", [False, True])
def test_kv_watch_in_a_terminal(as_json: bool, work: str) -> None:
    with jetarrow.sync.connect(work) as nc:
        bucket = nc.jetstream().create_key_value(bucket="CONFIG")
        bucket.put("key", TITLE.encode())
    escaped = r"\u001b]0;owned\u0007" if as_json else r"\x1b]0;owned\x07"
    with Terminal("kv", "watch", "CONFIG", *(["--json"] if as_json else []), session=True) as terminal:
        shown = terminal.until(escaped)
        terminal.type("\x03")
        assert terminal.end() == 130
    assert TITLE not in terminal.shown
    assert "stopped: watched bucket CONFIG up to revision 1; continue with --from-revision 2" in terminal.shown
    if as_json:
        line = next(line for line in shown.splitlines() if line.startswith("{"))
        assert_documented(ALL["kv", "watch"].shapes[0], line, ["kv", "watch"])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
@pytest.mark.parametrize(
    "words", [["sink", "parquet", "ORDERS", "archive", "--follow"], ["read", "ORDERS", "--follow"]]
)
def test_ctrl_c_in_a_terminal_ends_a_following_command_with_one_line(words: list[str], work: str) -> None:
    with jetarrow.sync.connect(work) as nc:
        js = nc.jetstream()
        js.add_stream(name="ORDERS", subjects=["orders.>"])
        js.publish_batch("orders.eu", [b"%d" % number for number in range(1000)])
    with Terminal(*words, session=True) as terminal:
        terminal.until("1,000 messages" if words[0] == "sink" else "1000")
        terminal.type("\x03")
        assert terminal.end() == 130
    (line,) = re.findall("stopped: [^\r\n]*", terminal.shown)
    assert "up to sequence 1000; " in line
    if words[0] == "sink":
        assert "wrote 1,000 rows to 1 file of archive" in line


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_a_stream_report_follows_until_q(work: str) -> None:
    with jetarrow.sync.connect(work) as nc:
        js = nc.jetstream()
        js.add_stream(name="ORDERS", subjects=["orders.>"])
        with Terminal("stream", "report", "--follow", "--every", "100ms") as terminal:
            terminal.until("ORDERS")
            js.publish_batch("orders.eu", [b"x" * 1000] * 5000)
            terminal.until("5,000")
            terminal.type("q")
            assert terminal.end() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_query_in_a_terminal_has_no_progress_between_its_rows(more: list[str], work: str) -> None:
    with jetarrow.sync.connect(work) as nc:
        js = nc.jetstream()
        js.add_stream(name="ORDERS", subjects=["orders.>"])
        js.publish_batch("orders.eu", [b'{"id": %d}' % number for number in range(20_000)])
    query = "select id from ORDERS where id % 4000 = 0"
    with Terminal("read", "ORDERS", "--sql", query, *more) as terminal:
        assert terminal.end() == 0
    rows = terminal.shown[terminal.shown.index('{"id":0}' if more else "id\r\n") :].split()
    ids = range(0, 20_000, 4000)
    assert rows == ([f'{{"id":{number}}}' for number in ids] if more else ["id", *map(str, ids)])
    # The bar was erased before the first row.
    assert terminal.shown.index("reading") < terminal.shown.index("\x1b[2K" + rows[0])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_serve_has_its_streams_after_ctrl_c_and_a_restart(away: Path) -> None:
    for run in range(2):
        with Terminal("serve", "--port", "0", "--store-dir", "data", session=True) as terminal:
            url = re.search(r"nats://\S+", terminal.until("stop it with Ctrl-C"))
            assert url is not None
            with jetarrow.sync.connect(url[0]) as nc:
                js = nc.jetstream()
                if run == 0:
                    js.add_stream(name="ORDERS", subjects=["orders.>"])
                    js.publish_batch("orders.eu", [b"x"] * 1000).raise_for_errors()
                assert js.stream_info("ORDERS").state.messages == 1000
            terminal.type("\x03")
            assert terminal.end() == 130


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_serve_stops_by_an_interrupt_that_its_parent_ignores(away: Path) -> None:
    """A shell script starts background commands with SIGINT ignored."""
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        terminal = Terminal("serve", "--port", "0", "--store-dir", "data")
    finally:
        signal.signal(signal.SIGINT, former)
    with terminal:
        terminal.until("stop it with Ctrl-C")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_no_color_disables_colours(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    runs = (["stream", "ls", "--help"], ["--help"], ["stream", "add", "A"], ["stream", "report", "--every", "100ms"])
    coloured = {" ".join(words): _COLOUR.findall(run_in_terminal(*words)[1]) for words in runs[:2]}
    assert all(coloured.values())
    monkeypatch.setenv("NO_COLOR", "1")
    for words in runs:
        with contextlib.suppress(SystemExit):
            _, shown = run_in_terminal(*words)
            # Bold and dim text is not a colour.
            codes = {int(code or 0) for found in _COLOUR.findall(shown) for code in found[2:-1].split(";")}
            assert codes <= {0, 1, 2, 3, 4, 7, 22, 23, 24}, (words, codes)
