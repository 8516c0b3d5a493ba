"""A child process ends, wherever Ctrl-C interrupts the calls that look after it."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from jetarrow._spawn import Child

PATIENCE = 30


class Interruption:
    """Raises a KeyboardInterrupt in this thread before the instruction of this number, as a signal handler may."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def is_over(self, call: Callable[[], object]) -> bool:
        """Returns whether the call ended before that instruction."""
        former = sys.gettrace()
        sys.settrace(self)
        try:
            call()
        except KeyboardInterrupt:
            return False
        finally:
            sys.settrace(former)
        return True


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
            assert not is_stuck, f"interrupted before instruction {number}"
            assert not child.running
        if is_over:
            break
    assert number > 10
