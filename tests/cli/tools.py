"""Helpers of the command's tests: runs in this process, in a process of its own, in a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from jetarrow.cli import main

# Signals that end the command, with its exit codes.
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
# Configuration with a user of the system account, and the options of its connection. Others connect as before.
SYSTEM_ACCOUNT = "accounts { $SYS { users: [ { user: admin, password: x } ] } }"
SYSTEM_USER = ["--user", "admin", "--password-file", "admin.txt"]


class Ran(NamedTuple):
    """Result of a run of the command."""

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
    """Returns the command line that starts the command as a process."""
    return [sys.executable, "-m", "jetarrow", *arguments]


def run_in_terminal(*arguments: str) -> tuple[int, str]:
    """Runs the command in this process, with a terminal as stdout and stderr; exit code and output.

    Faster than a `Terminal`, for runs that need neither keys nor signals.
    """
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    pieces: list[bytes] = []

    def read() -> None:
        # On Linux a read fails with EIO after the other end is closed.
        with contextlib.suppress(OSError):
            while piece := os.read(here, 65_536):
                pieces.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with (
            open(there, "w", encoding="utf-8") as screen,
            contextlib.redirect_stdout(screen),
            contextlib.redirect_stderr(screen),
        ):
            code = main(arguments)
        reader.join(30)
    finally:
        os.close(here)
    return code, b"".join(pieces).decode("utf-8", "replace")


class Terminal:
    """A process whose stdin, stdout and stderr are a terminal of 100 columns and 30 lines, or some of them.

    Args:
        arguments: The command line arguments after `jetarrow`.
        stdout: Another destination of stdout, as for `Popen`; None is the terminal.
        session: Whether it is the controlling terminal, which sends signals to the process.
    """

    def __init__(self, *arguments: str, stdout: int | None = None, session: bool = False) -> None:
        self._here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color"}
        environment.pop("COLUMNS", None)
        self.process = subprocess.Popen(
            command(*arguments),
            stdin=there,
            stdout=there if stdout is None else stdout,
            stderr=there,
            env=environment,
            start_new_session=session,
            preexec_fn=(lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if session else None,
        )
        os.close(there)
        self._is_open = True
        self.shown = ""

    def until(self, text: str | None) -> str:
        """Waits until the text is shown, or with None until the end; returns the output so far."""
        deadline = time.monotonic() + 30
        while text is None or text not in self.shown:
            ready, _, _ = select.select([self._here], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{text!r} was not shown within 30 s: {self.shown[-2000:]!r}"
            try:
                piece = os.read(self._here, 65_536)
            except OSError:  # EIO: the other end is closed
                piece = b""
            self.shown += piece.decode("utf-8", "replace")
            if not piece:
                assert text is None, f"it ended before {text!r} was shown: {self.shown[-2000:]!r}"
                break
        return self.shown

    def type(self, keys: str) -> None:
        """Types the keys."""
        os.write(self._here, keys.encode())

    def close(self) -> None:
        """Closes the terminal's window."""
        if self._is_open:
            os.close(self._here)
        self._is_open = False

    def end(self) -> int:
        """Waits for the end and returns the exit code."""
        self.until(None)
        return self.process.wait(30)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.close()
