"""Memory that Python owns, and Python's code: not under our locks, nor below native code when the process ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from jetarrow.jetstream.context import JetStreamContext

from .foreign_memory import CALLS

ROOT = Path(__file__).parents[2]
PATIENCE = 60


def run(*arguments: str) -> None:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.survive.foreign_memory", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            program.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            # It writes where its threads are.
            program.send_signal(signal.SIGABRT)
        # A debug build panics where it drops such memory under a lock; a panic is logged.
        assert (program.communicate()[1], program.returncode) == ("", 0)


def test_python_memory_is_dropped_without_locks_when_the_link_breaks() -> None:
    run("break", "3")


@pytest.fixture
async def few(js: JetStreamContext, nats_url: str, stream: str) -> str:
    """A server with a stream of `s.>` that keeps little."""
    await js.update_stream((await js.stream_info(stream)).config.evolve(subjects=["s.>"], max_msgs=100))
    return nats_url


async def test_a_program_ends_while_batches_of_python_memory_are_pending(few: str) -> None:
    # Half of the runs ended with SIGABRT before.
    for _ in range(5):
        run("exit", few)


async def test_a_program_ends_while_a_callback_of_a_publish_runs(few: str) -> None:
    # Nearly every run ended with SIGABRT or SIGSEGV before.
    for _ in range(3):
        run("callback", few)


@pytest.mark.parametrize("name", CALLS)
async def test_a_program_ends_while_a_call_runs_python_code(few: str, name: str) -> None:
    # Each ended with SIGABRT or SIGSEGV before.
    run(name, few)
