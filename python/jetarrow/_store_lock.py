"""StoreLock: one nats-server at a time uses a store directory. Private to `jetarrow.server`."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jetarrow.core.file_lock import open_locked
from jetarrow.core.store_locked import StoreLockedError

LOCK_FILE = "jetarrow.lock"
"""Name of the lock file in a store directory. The file is not deleted: its lock decides, not its existence."""

# Maximum bytes read from a lock file; its JSON has about 150.
_MAX_RECORD_BYTES = 4096
# Seconds that a start waits for the lock: after a kill of Python, the server ends a moment later.
_WAIT = 1.0
_POLL = 0.02


class StoreLock:
    """An exclusive lock on a store directory, which the nats-server that writes there inherits.

    On POSIX systems only the started server holds it, so the lock has the lifetime of its process, also if the server
    outlives this process or is killed. On Windows this process holds it.

    Args:
        store_dir: The existing directory.

    Raises:
        StoreLockedError: Another server uses the directory.
        OSError: The lock file cannot be written.
    """

    def __init__(self, store_dir: Path) -> None:
        self._path = store_dir / LOCK_FILE
        deadline = time.monotonic() + _WAIT
        while (descriptor := open_locked(self._path)) is None:
            if time.monotonic() >= deadline:
                raise _locked(store_dir, _read(self._path))
            time.sleep(_POLL)
        self.descriptor: int | None = descriptor
        self._owner = {
            "owner_pid": os.getpid(),
            "host": socket.gethostname(),
            "began": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        try:
            self._write({**self._owner, "pid": None})
        except BaseException:
            self.release()
            raise

    def hand_over(self, pid: int) -> None:
        """Records the server that has inherited the lock, and closes this process's descriptor (except on Windows).

        Args:
            pid: The server's process id.
        """
        # The server is running: a full disk must not stop it.
        with suppress(OSError):
            self._write({**self._owner, "pid": pid})
        if sys.platform != "win32":
            self.release()

    def release(self) -> None:
        """Closes this process's descriptor. A second call does nothing."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def _write(self, record: dict[str, Any]) -> None:
        assert self.descriptor is not None
        text = json.dumps(record).encode() + b"\n"
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        os.write(self.descriptor, text)
        os.ftruncate(self.descriptor, len(text))


def _read(path: Path) -> dict[str, Any]:
    """Reads the record of the server that holds the lock; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            record = json.loads(file.read(_MAX_RECORD_BYTES))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _locked(store_dir: Path, record: dict[str, Any]) -> StoreLockedError:
    pid, owner_pid, host, began = (record.get(name) for name in ("pid", "owner_pid", "host", "began"))
    holder = "another nats-server" if pid is None else f"nats-server process {pid}"
    if owner_pid is not None:
        holder += f", started by process {owner_pid} on host {host} at {began},"
    return StoreLockedError(
        f"could not start a nats-server on store_dir '{store_dir}': {holder} uses it, and two servers on one"
        " store_dir lose messages; stop that server, or pass a store_dir of its own",
        path=str(store_dir),
        pid=pid,
        owner_pid=owner_pid,
        host=host,
        began=began,
    )
