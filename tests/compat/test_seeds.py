"""The scripts that the project started from, each as a process of its own against a real server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import jetarrow
import pytest
from jetarrow.server import NatsServer

SCRIPTS = Path(__file__).parent / "scripts"
PATIENCE = 30.0


class Process:
    """A running script, with the lines that it has printed so far."""

    def __init__(self, name: str, url: str) -> None:
        # Like a user's process: only the package and the address are set. Warnings are shown, not turned into errors.
        package = str(Path(jetarrow.__file__).parents[1])
        env = {**os.environ, "NATS_URL": url, "PYTHONPATH": package, "PYTHONUNBUFFERED": "1"}
        # The scripts use old names of errors, which cause a DeprecationWarning.
        env["PYTHONWARNINGS"] = "ignore::DeprecationWarning"
        self.name = name
        self._pipe = subprocess.Popen(
            [sys.executable, str(SCRIPTS / f"{name}.py")],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.errors = ""
        self._more = threading.Condition()
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self._pipe.stdout is not None
        for line in self._pipe.stdout:
            with self._more:
                self.lines.append(line.rstrip("\n"))
                self._more.notify_all()

    def _read_errors(self) -> None:
        assert self._pipe.stderr is not None
        self.errors = self._pipe.stderr.read()

    def wait_for(self, *texts: str) -> None:
        """Waits until every text is in some line."""
        with self._more:
            there = self._more.wait_for(lambda: all(any(t in line for line in self.lines) for t in texts), PATIENCE)
        assert there, f"{self.name} has not printed {texts}, but {self.lines}; {self.errors}"

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._pipe.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Waits for the end; returns the exit status."""
        status = self._pipe.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        return status

    def kill(self) -> None:
        if self._pipe.poll() is None:
            self._pipe.kill()
        self.end()
        for stream in (self._pipe.stdout, self._pipe.stderr):
            assert stream is not None
            stream.close()


class Runner:
    def __init__(self, url: str) -> None:
        self._url = url
        self._all: list[Process] = []

    def start(self, name: str) -> Process:
        self._all.append(Process(name, self._url))
        return self._all[-1]

    def run(self, name: str) -> list[str]:
        """Run a script to its end without errors, and return its output."""
        process = self.start(name)
        status = process.end()
        assert (status, "Traceback" in process.errors) == (0, False), f"{process.lines}\n{process.errors}"
        return process.lines

    def close(self) -> None:
        for process in self._all:
            process.kill()


@pytest.fixture
def runner(own_server: NatsServer) -> Iterator[Runner]:
    runner = Runner(own_server.url)
    yield runner
    runner.close()


@pytest.fixture
def with_stream(runner: Runner) -> Runner:
    runner.run("stream")
    return runner


MESSAGES = [f"received on my.subject.test: Message {number}" for number in range(1, 6)]


def test_stream(runner: Runner) -> None:
    made = "stream example_stream made"
    told = "max_age 9 s, max_msgs 1000, file"
    assert runner.run("stream") == ["no stream example_stream yet", made, told]
    again = runner.start("stream")
    assert again.end() == 0
    assert again.lines == ["old stream example_stream deleted", made, told]
    # Nanoseconds where seconds are meant: understood, with a warning that names both.
    assert "UserWarning" in again.errors
    assert "9000000000" in again.errors.replace("_", "")


def test_publisher(with_stream: Runner) -> None:
    published = [f"published Message {number}" for number in range(1, 6)]
    assert with_stream.run("publisher") == ["publisher connected", *published, "publisher disconnected"]


def test_publisher_without_a_server(own_server: NatsServer, runner: Runner) -> None:
    own_server.kill()
    lines = runner.run("publisher")
    assert (len(lines), lines[-1]) == (2, "publisher disconnected")
    assert lines[0].startswith("no server: nats: ")


def test_publisher_and_subscribers(with_stream: Runner) -> None:
    subscribers = [with_stream.start("subscriber") for _ in range(3)]
    for subscriber in subscribers:
        subscriber.wait_for("listening on my.subject.*")
    with_stream.run("publisher")
    for subscriber in subscribers:
        subscriber.wait_for(MESSAGES[-1])
        begin = time.monotonic()
        subscriber.interrupt()
        assert (subscriber.end(), subscriber.errors) == (0, "")
        assert time.monotonic() - begin < 20
        received = [line for line in subscriber.lines if line.startswith("received")]
        assert received == MESSAGES
        assert subscriber.lines[-1] == "subscriber disconnected"


def test_requester_and_replier(with_stream: Runner) -> None:
    replier = with_stream.start("replier")
    replier.wait_for("listening")
    lines = with_stream.run("requester")
    answer = "Response from consumer: HELLO, CONSUMERS!"
    # The response may arrive before the stream's ack of the request.
    assert sorted(lines[:2]) == [f"received {answer}", "request published"]
    assert lines[2:] == [f"all responses: ['{answer}']"]
    replier.wait_for("sent a response")
    replier.interrupt()
    # The script does not close its connection or catch Ctrl-C, so Python reports only KeyboardInterrupt.
    assert replier.end() != 0
    assert replier.errors.rstrip().endswith("KeyboardInterrupt")
    assert "Exception ignored" not in replier.errors
    assert "never retrieved" not in replier.errors


def test_task_publisher_and_workers(with_stream: Runner) -> None:
    workers = with_stream.start("worker")
    workers.wait_for("[Consumer1] listening", "[Consumer2] listening")
    for _ in range(4):
        with_stream.run("publisher")

    deadline = time.monotonic() + PATIENCE
    while len(received := [line for line in workers.lines if "received" in line]) < 20:
        assert time.monotonic() < deadline, workers.lines
        time.sleep(0.02)
    workers.interrupt()
    assert (workers.end(), workers.errors) == (0, "")
    texts = sorted(line.partition("] ")[2] for line in received)
    assert texts == sorted(MESSAGES * 4)
    assert {line.partition("]")[0] for line in received} == {"[Consumer1", "[Consumer2"}
    assert workers.lines[-1] == "shutting down"


def test_context(runner: Runner) -> None:
    assert runner.run("context") == [
        "stored at 1 True False None",
        "async at 1 and 2, pending 0",
        "expected stream EVENTS",
        "expected stream METRICS",
        "event events.user.login event events.user.logout",
        "order 1",
        "audit 0 audit 1 audit 2",
        "task 1",
        "bound got 1, status None",
        "bound iterated 2",
        "fetched 10",
        "failed: the first one fails",
        "iterated [10, 11, 11]",
        "bound to job-processor",
        "handled good (1)",
        "handled later (1)",
        "handled fatal (1)",
        "handled bad (1)",
        "handled bad (2)",
        "config 20.0 50 60.0 3600.0",
        "push ['flow_control', 'idle_heartbeat', 'rate_limit_bps']",
        "limits 524288 268435456",
        "all last new by_start_sequence by_start_time",
        "none all explicit instant original",
    ]


def test_essay(runner: Runner) -> None:
    assert runner.run("essay") == [
        "made QUEUE with workqueue",
        "stored at 1",
        "with an id at 2, duplicate False",
        "with an id at 2, duplicate True",
        "durable read 2",
        "it goes on with third",
        "pulled 3",
        "acknowledged ['fine', 'poison', 'retry', 'retry']",
        "from all: 1",
        "from last: 3",
        "from sequence: 2",
        "from time: 1",
        "from new: True",
        "shared 50 among 2",
        "100 messages, 1 to 100, True",
        "number 100 is on orders.many",
        "0 messages",
    ]


def test_every_script_is_run() -> None:
    here = Path(__file__).read_text("utf-8")
    names = [path.stem for path in SCRIPTS.glob("*.py")]
    assert len(names) >= 8
    assert all(f'"{name}"' in here for name in names)
