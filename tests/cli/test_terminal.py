"""The command as a process: terminals, pipes, signals."""

from __future__ import annotations

import io
import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.cli.rates import Sample, rates_of
from jetarrow.cli.top import _screen
from jetarrow.server import NatsServer
from rich.console import Console

from tests.cli.tools import Command, Terminal, command
from tests.tools import fill_sync, wait_until_blocked

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")


@pytest.fixture
def filled(away: Path, sync_js: jetarrow.sync.JetStream, stream: str) -> str:
    fill_sync(sync_js, stream, 30_000)
    return stream


def test_top_redraws_until_q(filled: str, sync_js: jetarrow.sync.JetStream) -> None:
    sync_js.add_consumer(filled, durable_name="billing")
    with Terminal("top", "--every", "200ms") as terminal:
        shown = terminal.until("billing")
        assert filled in shown
        assert "30,000" in shown
        fill_sync(sync_js, filled, 1234)
        terminal.until("31,234")
        terminal.type("q")
        assert terminal.end() == 0
        # The terminal shows its earlier content again.
        assert "\x1b[?1049l" in terminal.shown


@pytest.mark.parametrize(("streams", "consumers"), [(0, 0), (1, 0), (3, 2), (100, 0), (100, 3), (3, 100), (100, 100)])
def test_top_fits_the_terminal(streams: int, consumers: int) -> None:
    """`top` lists as many streams and consumers as fit, with the most active ones first."""
    sample = Sample()
    for number in range(streams):
        counts = {"messages": 1, "bytes": 1, "last_seq": 1, "max_bytes": None, "storage": "file"}
        sample.streams[f"S{number}"] = counts
    for number in range(consumers):
        counts = {"pending": number, "ack_pending": 0, "redelivered": 0, "delivered": 0}
        sample.consumers["S0", f"C{number}"] = counts
    console = Console(width=100, height=30, file=io.StringIO())
    console.print(_screen(*rates_of(sample, sample), 30))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert len(shown.splitlines()) <= 30
    assert min(streams, 10) <= len(re.findall(r"^S\d", shown, re.MULTILINE)) <= streams
    assert min(consumers, 10) <= len(re.findall(r"^C\d", shown, re.MULTILINE)) <= consumers
    assert ("more" in shown) == (streams > 20 or consumers > 20)


def test_top_for_scripts(cli: Command, filled: str) -> None:
    found = cli("top", "--json", "--every", "100ms").json
    (row,) = (row for row in found["streams"] if row["stream"] == filled)
    assert (row["messages"], row["in_per_second"], row["lag"]) == (30_000, 0.0, None)
    assert filled in cli("top", "--once", "--every", "100ms").out
    assert cli("top", "--every", "1ms").code == 2


def test_a_bar_and_an_answer(filled: str) -> None:
    with Terminal("read", filled, "--to", "out.parquet") as terminal:
        assert terminal.end() == 0
    assert "30,000 of 30,000 messages" in terminal.shown
    assert "wrote 30,000 rows to out.parquet" in terminal.shown


def test_a_bar_does_not_come_between_rows(filled: str) -> None:
    with Terminal("read", filled, "--limit", "3") as terminal:
        assert terminal.end() == 0
    assert "reading" not in terminal.shown
    assert len(terminal.shown.splitlines()) == 4


def test_head_ends_it_quietly(filled: str) -> None:
    line = f"{shlex.join(command('read', filled, '--json'))} | head -2"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, timeout=60, check=False
    )
    assert [json.loads(row)["seq"] for row in done.stdout.splitlines()] == [1, 2]
    assert (done.stderr, done.returncode) == ("", 0)


def test_ctrl_c_ends_what_follows(filled: str, sync_js: jetarrow.sync.JetStream) -> None:
    follow = command("read", filled, "--follow", "--json", "--from-seq", "30000")
    with subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["seq"] == 30_000
        sync_js.publish(f"{filled}.a", "news")
        assert json.loads(process.stdout.readline())["data"] == "news"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said == "stopped: read up to sequence 30001; continue with --from-seq 30002\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_serve(away: Path, number: int, code: int) -> None:
    serve = command("serve", "--port", "0", "--store-dir", "data", "--json")
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = ""
        while not told.endswith("}\n"):
            told += process.stdout.readline()
        found = json.loads(told)
        with jetarrow.sync.connect(found["url"]) as nc:
            nc.jetstream().add_stream(name="S")
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (code, "")
    assert found["store_dir"] == str(away / "data")
    assert (away / "data").exists()


def test_the_library_does_without_it() -> None:
    """`import jetarrow` imports no module of the command, and neither typer nor rich."""
    script = (
        "import sys, jetarrow, jetarrow.sync, jetarrow.server;"
        "print({n.partition('.')[0] for n in sys.modules} & {'typer', 'rich', 'duckdb', 'pyarrow'},"
        " 'jetarrow.cli' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set() False\n"


def test_a_password_is_asked_for_and_not_shown(away: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "correct-horse-battery"
    with NatsServer(config=f'authorization {{ user: "ann", password: "{secret}" }}') as server:
        monkeypatch.setenv("NATS_URL", server.url)
        with Terminal("stream", "ls", "--user", "ann") as terminal:
            terminal.until("Password of ann:")
            terminal.type(secret + "\n")
            assert terminal.end() == 0
    assert "no streams" in terminal.shown
    assert secret not in terminal.shown


def test_what_is_not_confirmed_is_not_done(filled: str, sync_js: jetarrow.sync.JetStream) -> None:
    for keys, code in (("n\n", 1), ("\x03", 130)):
        with Terminal("stream", "rm", filled) as terminal:
            terminal.until("with 30,000 messages? [y/N]")
            if keys == "\x03":
                # The terminal is not the controlling one, and sends no signal. Python does not look for one that comes
                # after the prompt and before it reads.
                wait_until_blocked(terminal.process.pid)
                terminal.process.send_signal(signal.SIGINT)
            else:
                terminal.type(keys)
            assert terminal.end() == code
    assert sync_js.stream_info(filled).state.messages == 30_000


def test_completion(away: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_JETARROW_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "jetarrow stream pu")
    monkeypatch.setenv("COMP_CWORD", "2")
    done = subprocess.run(command(), capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["purge"]
