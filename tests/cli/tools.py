"""What a test of the command gets of a run."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from typing import Any, NamedTuple


class Ran(NamedTuple):
    """How a run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        assert self.code == 0, self.err
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Ran]


def command(*arguments: str) -> list[str]:
    """The command as a process of its own."""
    return [sys.executable, "-m", "jetarrow", *arguments]


class Terminal:
    """A process whose stdin, stdout and stderr are a terminal of 100 columns and 30 lines, or some of them.

    Args:
        arguments: What stands behind `jetarrow`.
        stdout: Another place for stdout, as for `Popen`; None is the terminal.
    """

    def __init__(self, *arguments: str, stdout: int | None = None) -> None:
        self._here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color"}
        environment.pop("COLUMNS", None)
        self.process = subprocess.Popen(
            command(*arguments), stdin=there, stdout=there if stdout is None else stdout, stderr=there, env=environment
        )
        os.close(there)
        self.shown = ""

    def until(self, text: str | None) -> str:
        """Waits until the text has been shown, or with None for the end; all that was shown so far."""
        deadline = time.monotonic() + 30
        while text is None or text not in self.shown:
            ready, _, _ = select.select([self._here], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{text!r} was not shown within 30 s: {self.shown[-2000:]!r}"
            try:
                piece = os.read(self._here, 65_536)
            except OSError:  # how Linux says that the other end is closed
                piece = b""
            self.shown += piece.decode("utf-8", "replace")
            if not piece:
                assert text is None, f"it ended before {text!r} was shown: {self.shown[-2000:]!r}"
                break
        return self.shown

    def type(self, keys: str) -> None:
        """Presses keys."""
        os.write(self._here, keys.encode())

    def end(self) -> int:
        """Waits for the end; the exit code."""
        self.until(None)
        return self.process.wait(30)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._here)
