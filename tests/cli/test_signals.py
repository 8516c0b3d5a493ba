"""Signals end the command: it finishes its files, writes one line, and its exit code names the signal."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jetarrow.sync
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from jetarrow.cli import row_writers
from jetarrow.js.errors import NotFoundError
from jetarrow.server import NatsServer

from tests.cli.tools import CODES, Terminal, command
from tests.tools import wait_until, wait_until_blocked

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals for one process"),
    pytest.mark.usefixtures("heard"),
]

ROWS = 50


@pytest.fixture
def filled(away: Path, sync_js: jetarrow.sync.JetStream, stream: str) -> str:
    """Fills a stream with rows that no format compresses, so that they exceed a writer's buffer."""
    sync_js.publish_batch(f"{stream}.a", [secrets.token_hex(500) for _ in range(ROWS)]).raise_for_errors()
    return stream


def stop(process: subprocess.Popen[str], *numbers: signal.Signals, line: str = "") -> None:
    """Sends the signals and checks the output on stderr, and that the exit code is that of one of the signals.

    Args:
        process: The command.
        numbers: The signals.
        line: Beginning of the only line; empty if the command writes none.
    """
    for number in numbers:
        process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode in [CODES[number] for number in numbers]
    assert said.startswith(f"stopped: {line}" if line else "")
    assert said.count("\n") == (1 if line else 0), said


ERRORS: Any = {"stderr": subprocess.PIPE, "text": True}


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, **ERRORS)


READERS: dict[str, Callable[[Path], int]] = {
    "parquet": lambda path: pq.read_table(path).num_rows,
    "csv": lambda path: pyarrow.csv.read_csv(path).num_rows,
    "ndjson": lambda path: len([json.loads(line) for line in path.read_text("utf-8").splitlines()]),
    "arrow": lambda path: pa.ipc.open_file(path).read_all().num_rows,
}


def unfinished() -> list[Path]:
    """Returns the temporary files that contain rows."""
    return [path for path in Path().glob(".*") if path.stat().st_size > 20_000]


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("form", READERS)
def test_read_that_follows_finishes_its_file(form: str, number: signal.Signals, filled: str, away: Path) -> None:
    with start("read", filled, "--follow", "--to", f"out.{form}", "--columns", "seq,data") as process:
        wait_until(unfinished, 30)
        # Other users cannot read the file before it has the mode that the umask allows.
        assert [stat.S_IMODE(path.stat().st_mode) for path in unfinished()] == [0o600]
        stop(
            process, number, line=f"wrote {ROWS} rows to out.{form}, up to sequence {ROWS}; continue with --from-seq 51"
        )
    assert [path.name for path in away.iterdir()] == [f"out.{form}"]
    assert READERS[form](Path(f"out.{form}")) == ROWS


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("verb", ["read", "kv"])
def test_rows_end_with_the_signal(
    verb: str, number: signal.Signals, filled: str, sync_js: jetarrow.sync.JetStream
) -> None:
    revision = sync_js.create_key_value(bucket="STOPPED").put("key", b"value")
    typed = {"read": ["read", filled, "--follow"], "kv": ["kv", "watch", "STOPPED"]}[verb]
    with start(*typed, "--json") as process:
        assert process.stdout is not None
        json.loads(process.stdout.readline())
        expected = {
            "read": f"read up to sequence {ROWS}; continue with --from-seq {ROWS + 1}",
            "kv": f"watched bucket STOPPED up to revision {revision}; continue with --from-revision {revision + 1}",
        }
        stop(process, number, line=expected[verb])


def test_stdout_gets_the_end_of_the_format(filled: str, away: Path) -> None:
    typed = command("read", filled, "--follow", "--to", "-", "--format", "parquet", "--columns", "data")
    with (
        Path("out").open("wb") as out,
        subprocess.Popen(typed, stdout=out, **ERRORS) as process,
    ):
        wait_until(lambda: Path("out").stat().st_size > 20_000, 30)
        stop(process, signal.SIGTERM, line="read up to sequence")
    assert pq.read_table("out").num_rows == ROWS


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sink_keeps_what_was_committed(number: signal.Signals, filled: str, away: Path) -> None:
    with start("sink", "parquet", filled, "archive", "--follow", "--every", "200ms") as process:
        wait_until(lambda: any(Path("archive").glob("_jetarrow/[0-9]*.json")), 30)
        stop(process, number, line="wrote 50 rows to 1 file of archive, up to sequence 50; run the same command")
    assert sum(pq.read_table(path).num_rows for path in Path("archive").glob("*.parquet")) == ROWS


def test_a_second_signal_of_the_system_does_not_cut_the_end_short(filled: str, away: Path) -> None:
    """systemd sends SIGTERM and SIGHUP together."""
    with start("read", filled, "--follow", "--to", "out.csv") as process:
        wait_until(unfinished, 30)
        stop(process, signal.SIGTERM, signal.SIGHUP, line=f"wrote {ROWS} rows to out.csv")
    assert READERS["csv"](Path("out.csv")) == ROWS


def test_nohup_is_respected(filled: str, sync_js: jetarrow.sync.JetStream) -> None:
    ignoring = ["nohup", *command("read", filled, "--follow", "--json", "--from-seq", str(ROWS))]
    with subprocess.Popen(
        ignoring, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        sync_js.publish(f"{filled}.a", "news")
        assert json.loads(process.stdout.readline())["data"] == "news"
        stop(process, signal.SIGTERM, line=f"read up to sequence {ROWS + 1}")


def test_a_terminal_that_is_closed_ends_it(filled: str, away: Path) -> None:
    with Terminal("read", filled, "--follow", "--to", "out.csv", session=True) as terminal:
        wait_until(unfinished, 30)
        terminal.close()
        assert terminal.process.wait(30) == 129
    assert READERS["csv"](Path("out.csv")) == ROWS


@pytest.mark.usefixtures("filled")
def test_top_leaves_the_terminal_as_it_was() -> None:
    with Terminal("top", "--every", "100ms") as terminal:
        terminal.until("q quits")  # a crowded server's table may leave out the stream of this test
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.end() == 143
    assert "\x1b[?1049l" in terminal.shown


# With time to remove the data, which a busy server exceeds otherwise.
PATIENT_PUT = """
import sys
from jetarrow.cli import main
from jetarrow.jetstream.objects import put

put.CANCEL_TIMEOUT = 60
sys.exit(main(sys.argv[1:]))
"""


@contextlib.contextmanager
def interrupted_put(js: jetarrow.sync.JetStream, said: list[str], *, is_patient: bool = False) -> Iterator[None]:
    """Interrupts a put after the block, which begins when the bucket has data; adds its stderr to `said`."""
    js.create_object_store(bucket="STOPPED_PUT")
    words = ["object", "put", "STOPPED_PUT", "-", "--name", "half"]
    put = [sys.executable, "-c", PATIENT_PUT, *words] if is_patient else command(*words)
    with subprocess.Popen(put, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **ERRORS) as process:
        assert process.stdin is not None
        process.stdin.write("x" * 20_000_000)
        process.stdin.flush()
        wait_until(lambda: js.stream_info("OBJ_STOPPED_PUT").state.messages, 30)
        yield
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        process.stdin = None
        assert process.stderr is not None
        said.append(process.stderr.read())
        assert process.wait(30) == 130


RESTS = ", and `jetarrow object clean STOPPED_PUT` later: some of its data may still be there"


def test_an_interrupted_put_stores_no_object(away: Path, sync_js: jetarrow.sync.JetStream) -> None:
    said: list[str] = []
    with interrupted_put(sync_js, said, is_patient=True):
        pass
    assert said == ["stopped: half was not stored; run the same command again\n"]
    assert not sync_js.stream_info("OBJ_STOPPED_PUT").state.messages
    with pytest.raises(NotFoundError):
        sync_js.object_store("STOPPED_PUT").get_info("half")


def test_an_interrupted_put_names_the_data_that_it_could_not_remove(
    away: Path, own_server: NatsServer, own_sync: jetarrow.sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", own_server.url)
    said: list[str] = []
    with interrupted_put(own_sync, said):
        own_server.pause()
    own_server.resume()
    assert said == [f"stopped: half was not stored; run the same command again{RESTS}\n"]


def test_publish_names_the_line_that_continues(away: Path, stream: str) -> None:
    with subprocess.Popen(
        command("publish", f"{stream}.a"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, **ERRORS
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        with jetarrow.sync.connect(os.environ["NATS_URL"]) as nc:
            js = nc.jetstream()
            process.stdin.write("line\n" * 10_000)
            process.stdin.flush()
            wait_until(lambda: js.stream_info(stream).state.messages == 10_000, 30)
        process.stdin.write("line\n")
        process.stdin.flush()
        # Until the command waits for more lines: then it has handled the acks.
        wait_until_blocked(process.pid)
        stop(process, signal.SIGINT, line="stored the first 10,000 lines; continue with line 10,001")


def test_bench_removes_its_stream(own_server: jetarrow.server.NatsServer, own_sync: jetarrow.sync.JetStream) -> None:
    with start("bench", "--msgs", "100000000", "--size", "1", "--server", own_server.url) as process:
        wait_until(lambda: own_sync.streams_info(), 30)
        stop(process, signal.SIGTERM)
    assert own_sync.streams_info() == []


SIGNALLED_LOOP = """
import asyncio, os, signal, sys
from jetarrow.cli import main

class Loop(asyncio.SelectorEventLoop):
    def __init__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        super().__init__()

class Policy(asyncio.DefaultEventLoopPolicy):
    _loop_factory = Loop

asyncio.set_event_loop_policy(Policy())
sys.exit(main(sys.argv[1:]))
"""


def test_a_signal_while_bench_creates_its_loop(
    own_server: jetarrow.server.NatsServer, own_sync: jetarrow.sync.JetStream
) -> None:
    arguments = ["bench", "--msgs", "10000", "--size", "1", "--server", own_server.url]
    with subprocess.Popen([sys.executable, "-c", SIGNALLED_LOOP, *arguments], **ERRORS) as process:
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (CODES[signal.SIGTERM], "")
    assert own_sync.streams_info() == []


ONE_BATCH = pa.record_batch([[1, 2]], ["id"])


@pytest.mark.parametrize("form", READERS)
def test_an_interrupted_range_leaves_no_file(form: str, away: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        row_writers.writing(f"out.{form}", form, ONE_BATCH.schema, keep=lambda: False) as writer,
    ):
        writer.write(ONE_BATCH)
        raise KeyboardInterrupt
    assert list(away.iterdir()) == []
