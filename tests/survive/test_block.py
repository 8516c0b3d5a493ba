"""Ctrl-C in every blocking call of the sync twin, with the server frozen."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

from .calls import CALLS, COVERED

# Arrow's stream interface has no word for an exception of Python: pyarrow's own names it in its text.
OTHERWISE = {"read_arrow_stream": "ArrowInvalid:KeyboardInterrupt"}


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
            assert (outcome, float(at) > pressed) == (OTHERWISE.get(name, "KeyboardInterrupt"), True)
            assert float(at) - pressed < 0.5
            assert child.stdout.readline() == f"{name}\n"
        finally:
            server.resume()
            child.kill()


def test_no_blocking_call_is_missing() -> None:
    found = {
        f"{kind}.{name}"
        for kind in jetarrow.sync.__all__
        for name, member in vars(getattr(jetarrow.sync, kind)).items()
        if isinstance(member, FunctionType) and hasattr(member, "__wrapped__")
    }
    # One request and its answer, as add_stream.
    requests = {name for name in found if re.match("JetStreamManager|Stream|Consumer|.*consumer_info|.*_bind", name)}
    # The same as an ack, with another word.
    acks = {"MessageBatch.nak", "MessageBatch.term", "MessageBatch.in_progress"}
    # Told to the server, which does not answer.
    told = {"Subscription.unsubscribe", "PullSubscription.unsubscribe", "Advisories.close", "Client.force_reconnect"}
    assert requests
    assert acks | told < found
    assert found - requests - acks - told <= COVERED
