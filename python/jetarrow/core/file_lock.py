"""Exclusive file locks; the operating system releases a lock when the process that holds it ends."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

# Windows locks bytes, and a locked byte cannot be read: this offset is beyond the content of a lock file.
_WINDOWS_BYTE = 1 << 20
# Errors of file systems without locks, for example some network mounts: the caller continues without a lock.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}


def open_locked(path: Path, mode: int = 0o666) -> int | None:
    """Opens a file, creates it if it does not exist, and locks it. Does not wait.

    On POSIX systems the lock belongs to the open file: a child process that inherits the descriptor holds it as well,
    and closing the last descriptor releases it. On Windows it belongs to the process. On a file system without locks
    the descriptor is returned without a lock.

    Args:
        path: The file.
        mode: Permissions of a new file, before the umask.

    Returns:
        The descriptor; None if another open file holds the lock.

    Raises:
        OSError: The file cannot be opened.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), mode)
        try:
            if not _lock(descriptor):
                os.close(descriptor)
                return None
            if is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # Another process renamed or removed the file between the two calls.
        os.close(descriptor)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether a path still refers to an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, _WINDOWS_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True
