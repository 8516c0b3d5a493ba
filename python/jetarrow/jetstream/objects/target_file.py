"""Atomic replacement of the file that `get_file` writes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from jetarrow.jetstream.objects.bucket import new_nuid

# Mode of the temporary file: an object may be a secret, and the mode of its target may allow other users to read it.
_PRIVATE = 0o600
# Mode that `open` requests for a new file; the process's umask clears bits.
_USUAL = 0o666


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` when the block ends, and is removed when the block raises.

    The temporary file is in the same folder, so that the replacement is atomic. Its name is short, because that of
    `path` may have the maximum length. An existing file keeps its mode.

    Raises:
        OSError: A file cannot be written.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        # A pipe or a device is not replaced.
        with open(path, "wb") as file:
            yield file
        return
    folder = os.path.dirname(path)
    temporary = _beside(folder)
    descriptor = _created(temporary, _PRIVATE)
    try:
        with open(descriptor, "wb") as file:
            yield file
        os.chmod(temporary, _mode_of(path, folder))
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _beside(folder: str) -> str:
    return os.path.join(folder, f".{new_nuid()}.part")


def _created(path: str, mode: int) -> int:
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), mode)


def _mode_of(path: str, folder: str) -> int:
    """Return the mode of an existing file, or the mode of a new one."""
    with suppress(FileNotFoundError):
        # Without the set-user-ID bits, because the owner of the replaced file may differ.
        return stat.S_IMODE(os.stat(path).st_mode) & 0o777
    # A probe file shows the umask: `os.umask` would change it for all threads.
    probe = _beside(folder)
    descriptor = _created(probe, _USUAL)
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o777
    finally:
        os.close(descriptor)
        os.unlink(probe)
