"""Lock of a folder for one writer at a time."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from jetarrow.jetstream.errors import SinkError, SinkLockedError
from jetarrow.jetstream.sinks.folder import Folder

# Seconds without a renewal after which a lock may be taken over.
EXPIRES = 60.0
NAME = "_jetarrow/lock.json"
_WINDOWS = sys.platform == "win32"


class Lock:
    """Lock file with host and process of the writer, renewed by a thread while it is held.

    It may be taken over 60 seconds after its last renewal, or at once if its process on this machine has ended.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.token = secrets.token_hex(16)
        self._stopped = threading.Event()
        # Held for a renewal: a release in the middle of it would be undone.
        self._renewing = threading.Lock()
        self._me = {"host": socket.gethostname(), "pid": os.getpid(), "began": _start_time(os.getpid())}

    def acquire(self) -> bool:
        """Acquire the lock.

        Returns:
            Whether it was taken over from a writer that had not released it. That writer may be suspended.

        Raises:
            SinkLockedError: Another writer holds the lock.
        """
        held = self._read()
        if held is not None and self._is_valid(held):
            raise self._locked_error(held, "is written by")
        try:
            if held is not None:
                self._write()
            elif not self._folder.create(NAME, self._record()):
                raise self._locked_error(self._read() or {}, "is written by")
        except SinkError as error:
            # Another writer acquired it at the same time, and removed the temporary file.
            if isinstance(error.__cause__, FileNotFoundError):
                raise self.lost_error() from None
            raise
        self.check()
        threading.Thread(target=self._renew, daemon=True, name="jetarrow-sink-lock").start()
        return held is not None

    def check(self) -> None:
        """Raise `SinkLockedError` if another writer has taken the lock over."""
        held = self._read()
        if held is None or held.get("token") != self.token:
            self._stopped.set()
            raise self._locked_error(held or {}, "was taken over by")

    def release(self) -> None:
        """Release the lock if it is still held."""
        self._stopped.set()
        with self._renewing:
            held = self._read()
            if held is not None and held.get("token") == self.token:
                self._folder.delete(NAME)

    def holder(self) -> str | None:
        """Return host and process of the writer; None if no process holds a valid lock."""
        held = self._read()
        if not held or not self._is_valid(held):
            return None
        return f"{held.get('host')}:{held.get('pid')}"

    def abandon(self) -> None:
        """Stop the renewal without releasing the lock."""
        self._stopped.set()

    def _is_valid(self, held: dict[str, Any]) -> bool:
        """Return whether the holder of a lock may still write."""
        if held.get("host") == self._me["host"]:
            pid = held.get("pid")
            if isinstance(pid, int) and not _is_alive(pid, held.get("began")):
                return False
        return time.time() - float(held.get("renewed", 0)) < EXPIRES

    def lost_error(self) -> SinkLockedError:
        """Return the error of a writer whose lock was taken over."""
        self._stopped.set()
        return self._locked_error(self._read() or {}, "was taken over by")

    def _locked_error(self, held: dict[str, Any], state: str) -> SinkLockedError:
        host, pid = held.get("host"), held.get("pid")
        holder = f"process {pid} on {host}" if pid else "another writer"
        text = (
            f"could not lock {self._folder}: it {state} {holder}; stop that writer, whose lock then expires within"
            f" {EXPIRES:.0f} s"
        )
        return SinkLockedError(text, host=host, pid=pid)

    def _read(self) -> dict[str, Any] | None:
        try:
            held: dict[str, Any] = json.loads(self._folder.read(NAME))
        except FileNotFoundError:
            return None
        except ValueError:
            # Not a lock: locks are written atomically.
            return {}
        return held

    def _record(self) -> bytes:
        return json.dumps({**self._me, "token": self.token, "renewed": time.time()}).encode()

    def _write(self) -> None:
        self._folder.replace(NAME, self._record())

    def _renew(self) -> None:
        while not self._stopped.wait(EXPIRES / 4):
            # An unreachable folder may be reachable at the next renewal.
            with suppress(Exception), self._renewing:
                if not self._stopped.is_set():
                    self.check()
                    self._write()


def _is_alive(pid: int, began: object) -> bool:
    if _WINDOWS:
        # os.kill would terminate the process. The lock of a dead process expires.
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    # The process id may have been reused.
    return began is None or _start_time(pid) in (began, None)


def _start_time(pid: int) -> str | None:
    """Return the start time of a process for comparison; None if the system does not provide it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
