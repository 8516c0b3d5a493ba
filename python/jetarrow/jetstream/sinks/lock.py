"""One writer at a time in a folder."""

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

# Seconds after which the lock of a writer that says nothing may be taken over.
EXPIRES = 60.0
NAME = "_jetarrow/lock.json"
_WINDOWS = sys.platform == "win32"


class Lock:
    """A record of who writes, renewed in a thread while it is held.

    It may be taken over once it was not renewed for 60 seconds, and at once where its process is dead on this machine.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.token = secrets.token_hex(16)
        self._stopped = threading.Event()
        self._me = {"host": socket.gethostname(), "pid": os.getpid(), "began": _start_time(os.getpid())}

    def acquire(self) -> bool:
        """Takes it.

        Returns:
            Whether somebody had it who did not give it back. That writer may still be there, and stand still.

        Raises:
            SinkLockedError: Another writer has it.
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
            # Another one took it at the same moment, and removed what was half written.
            if isinstance(error.__cause__, FileNotFoundError):
                raise self.lost_error() from None
            raise
        self.check()
        threading.Thread(target=self._renew, daemon=True, name="jetarrow-sink-lock").start()
        return held is not None

    def check(self) -> None:
        """Raises `SinkLockedError` where another writer has taken it over."""
        held = self._read()
        if held is None or held.get("token") != self.token:
            self._stopped.set()
            raise self._locked_error(held or {}, "was taken over by")

    def release(self) -> None:
        """Gives it back, if it is still ours."""
        self._stopped.set()
        held = self._read()
        if held is not None and held.get("token") == self.token:
            self._folder.delete(NAME)

    def abandon(self) -> None:
        """Stops renewing it."""
        self._stopped.set()

    def _is_valid(self, held: dict[str, Any]) -> bool:
        """Whether whoever took it may still write."""
        if held.get("host") == self._me["host"]:
            pid = held.get("pid")
            if isinstance(pid, int) and not _is_alive(pid, held.get("began")):
                return False
        return time.time() - float(held.get("renewed", 0)) < EXPIRES

    def lost_error(self) -> SinkLockedError:
        """The error of a writer in whose place another one has written."""
        self._stopped.set()
        return self._locked_error(self._read() or {}, "was taken over by")

    def _locked_error(self, held: dict[str, Any], what: str) -> SinkLockedError:
        host, pid = held.get("host"), held.get("pid")
        who = f"process {pid} on {host}" if pid else "another writer"
        text = f"{self._folder} {what} {who}: one writer at a time; a dead one's lock ends after {EXPIRES:.0f} s"
        return SinkLockedError(text, host=host, pid=pid)

    def _read(self) -> dict[str, Any] | None:
        try:
            said = self._folder.read(NAME)
            held: dict[str, Any] = json.loads(said)
        except FileNotFoundError:
            return None
        except ValueError:
            # Nobody's: a lock is written as a whole.
            return {}
        return held

    def _record(self) -> bytes:
        return json.dumps({**self._me, "token": self.token, "renewed": time.time()}).encode()

    def _write(self) -> None:
        self._folder.replace(NAME, self._record())

    def _renew(self) -> None:
        while not self._stopped.wait(EXPIRES / 4):
            # A folder that cannot be reached now may be in time the next time.
            with suppress(Exception):
                self.check()
                self._write()


def _is_alive(pid: int, began: object) -> bool:
    if _WINDOWS:
        # os.kill would end it. The lock of a dead one expires.
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    # Another process may have its number by now.
    return began is None or _start_time(pid) in (began, None)


def _start_time(pid: int) -> str | None:
    """When a process began, in a form that is only compared; None where the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
