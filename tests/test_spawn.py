"""A child process ends, wherever Ctrl-C interrupts the calls that look after it."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from jetarrow._spawn import Child

from .interruption import Interruption
from .tools import PATIENCE

CALLS: dict[str, Callable[[Child], object]] = {
    "running": lambda child: child.running,
    "send": lambda child: child.send(0),
    "stop": lambda child: child.stop(),
    "kill": lambda child: child.stop(grace=0),
}


@pytest.mark.skipif(sys.platform == "win32", reason="needs cat")
@pytest.mark.parametrize("name", CALLS)
def test_an_interrupted_call_does_not_lock_a_child(name: str) -> None:
    for number in itertools.count(1):
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
            child = Child(process)
            is_over = Interruption(number).is_over(lambda child=child: CALLS[name](child))  # type: ignore[misc]
            # In a thread, so that a lock that is left does not stop the tests.
            end = threading.Thread(target=child.stop, daemon=True)
            end.start()
            end.join(PATIENCE)
            is_stuck = end.is_alive()
            if is_stuck:
                process._waitpid_lock.release()  # type: ignore[attr-defined]
            assert not is_stuck, f"interrupted at place {number}"
            assert not child.running
        if is_over:
            break
    assert number > 2
