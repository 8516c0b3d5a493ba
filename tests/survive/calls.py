"""Every call of `jetarrow.sync` that blocks, made while the server is frozen.

For Ctrl-C a program calls `main(name, url, pid of the server)`. It prints `go` once the server is frozen and the call
is made, then what became of it and when, then whether the client still works once the server does.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from . import calls_core, calls_jetstream, calls_read
from .setting import CALLS, COVERED, LONG, Setting

__all__ = ["CALLS", "COVERED", "Setting", "calls_core", "calls_jetstream", "calls_read"]


def main(name: str, url: str, pid: str) -> None:
    at = Setting(name, url, int(pid))
    outcome: Any = "it returned"
    try:
        CALLS[name](at)
    except BaseException as error:
        outcome = type(error).__name__
        if outcome != "KeyboardInterrupt" and "KeyboardInterrupt" in str(error):
            outcome += ":KeyboardInterrupt"
    print(outcome, time.monotonic(), flush=True)
    os.kill(at.pid, signal.SIGCONT)
    print(at.js.publish(at.subject, b"still alive", timeout=LONG).stream, flush=True)
