"""Programs run in forked children of one interpreter, which has imported their modules and done nothing else.

A child ends as a program does: its main thread leaves the last frame, and the interpreter waits for threads, runs the
`atexit` functions and frees its modules. Only the start of an interpreter and the imports are saved.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

ROOT = Path(__file__).parent.parent


class Child:
    """A program that runs; its output and errors are files."""

    def __init__(self, forks: Forks, pid: int, stdout: IO[str], stderr: IO[str]) -> None:
        self._forks = forks
        self.pid, self.stdout, self.stderr = pid, stdout, stderr
        self.returncode: int | None = None

    def wait(self, timeout: float) -> int:
        """Returns the exit status, negative if a signal ended it; raises `TimeoutError` after `timeout` seconds."""
        if self.returncode is None:
            self.returncode = self._forks.receive(timeout)
        return self.returncode

    def kill(self) -> None:
        """Ends the program if it runs, and closes its files."""
        if self.returncode is None:
            os.kill(self.pid, 9)
            self.wait(10)
        self.stdout.close()
        self.stderr.close()


class Forks:
    """The interpreter, as a context manager. It runs one program at a time.

    Args:
        imports: Modules that it imports before the first fork.
    """

    def __init__(self, *imports: str) -> None:
        self._ours, theirs = socket.socketpair()
        command = [sys.executable, "-W", "default", "-m", "tests.forks", str(theirs.fileno()), *imports]
        self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()

    def start(self, program: str, *arguments: str) -> Child:
        """Starts the code with `sys.argv[1:]`."""
        (stdout, out), (stderr, err) = os.pipe(), os.pipe()
        socket.send_fds(self._ours, [json.dumps([program, arguments]).encode()], [out, err])
        os.close(out)
        os.close(err)
        return Child(self, self.receive(30), os.fdopen(stdout), os.fdopen(stderr))

    def receive(self, timeout: float) -> int:
        """Returns the next number from the interpreter: the id of a process, then its exit status."""
        self._ours.settimeout(timeout)
        answer = self._ours.recv(4)
        assert len(answer) == 4, "the interpreter that forks has ended"
        return int.from_bytes(answer, "big", signed=True)

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._ours.close()
        self._process.wait(10)


def serve(descriptor: int) -> tuple[str, Sequence[str]] | None:
    """Forks for each request; returns the program in the child, and None in the interpreter when it has no client."""
    with socket.socket(fileno=descriptor) as client:
        while True:
            request, descriptors, _, _ = socket.recv_fds(client, 1 << 16, 2)
            if not request:
                return None
            pid = os.fork()
            if pid == 0:
                for number, file in enumerate(descriptors, 1):
                    os.dup2(file, number)
            for file in descriptors:
                os.close(file)
            if pid == 0:
                program, arguments = json.loads(request)
                return program, arguments
            client.send(pid.to_bytes(4, "big"))
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            client.send(status.to_bytes(4, "big", signed=True))


if __name__ == "__main__":
    for name in sys.argv[2:]:
        importlib.import_module(name)
    if asked := serve(int(sys.argv[1])):
        sys.argv[1:] = asked[1]
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(asked[0], "<program>", "exec"), names)
