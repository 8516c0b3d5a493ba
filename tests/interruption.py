"""A KeyboardInterrupt at a chosen instruction of a call."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interruption:
    """Raises a KeyboardInterrupt in this thread as a signal handler may: after a call, or at the begin of a function.

    Args:
        number: Number of the place, from 1.
    """

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode" and _may_be_interrupted(frame):
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt
        return self

    def is_over(self, call: Callable[[], object]) -> bool:
        """Returns whether the call ended before that place."""
        former = sys.gettrace()
        sys.settrace(self)
        try:
            call()
        except KeyboardInterrupt:
            return False
        finally:
            sys.settrace(former)
        return True


def _may_be_interrupted(frame: FrameType) -> bool:
    """Whether Python looks for signals between the instruction before and this one."""
    code, at = frame.f_code.co_code, frame.f_lasti - 2
    while at >= 0 and dis.opname[code[at]] == "CACHE":
        at -= 2
    return at >= 0 and dis.opname[code[at]].startswith(("CALL", "RESUME"))
