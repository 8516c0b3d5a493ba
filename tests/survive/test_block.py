"""Ctrl-C in every blocking call of the sync twin, with the server frozen."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .calls import CALLS, COVERED


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


def wait_until_blocked(pid: int) -> None:
    """Returns when the main thread has neither run nor wanted to for a while."""
    schedstat = Path(f"/proc/{pid}/task/{pid}/schedstat")

    def busy() -> int:
        return sum(map(int, schedstat.read_text().split()[:2]))

    while True:
        before = busy()
        time.sleep(0.2)
        if busy() - before < 5_000_000:
            return


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c(server: NatsServer, name: str) -> None:
    """Nothing but the signal can end the call."""
    program = Path(__file__).with_name("calls.py")
    command = [sys.executable, str(program), name, server.url, str(server.pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "go\n"
            # Whatever else it does would be interrupted as well.
            wait_until_blocked(child.pid)
            pressed = time.monotonic()
            child.send_signal(signal.SIGINT)
            outcome, at = child.stdout.readline().split()
            assert (outcome, float(at) > pressed) == ("KeyboardInterrupt", True)
            assert float(at) - pressed < 0.5
            assert child.stdout.readline() == f"{name}\n"
        finally:
            server.resume()
            child.kill()


def test_no_blocking_call_is_missing() -> None:
    found = set()
    for kind in (
        jetarrow.sync.Client,
        jetarrow.sync.JetStream,
        jetarrow.sync.MessageBatch,
        jetarrow.sync.Publisher,
        jetarrow.sync.PullSubscription,
        jetarrow.sync.Reader,
    ):
        for name, member in vars(kind).items():
            # One request each, as add_stream is, where the context itself has nothing to do with it.
            cold = kind is jetarrow.sync.JetStream and name not in vars(JetStreamContext)
            if hasattr(member, "__wrapped__") and not cold:
                found.add(f"{kind.__name__}.{name}")
    # The same as an ack, with another word.
    same = {"MessageBatch.nak", "MessageBatch.term", "MessageBatch.in_progress"}
    assert same < found
    assert found - same <= COVERED
