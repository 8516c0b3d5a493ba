"""Access to a folder of a file system or an object store."""

from __future__ import annotations

import errno
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import SinkError

# Object stores: a file appears when it is closed, and renaming is copying.
_OBJECT_STORES = {"s3", "gcs", "abfs"}
_WINDOWS = sys.platform == "win32"
_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota is used up",
    errno.EFBIG: "a file would exceed the size limit",
    errno.EACCES: "this user may not write there",
    errno.EPERM: "this user may not write there",
    errno.EROFS: "the file system is read-only",
}


class Folder:
    """Reads and writes files of one folder. Paths are relative to it and separated by `/`."""

    def __init__(self, path: str | os.PathLike[str], filesystem: Any = None) -> None:
        needs_pyarrow("to_parquet()")
        from pyarrow import fs

        self._fs = fs
        self._shown = os.fspath(path)
        if filesystem is not None:
            self.filesystem, base = filesystem, self._shown
        elif "://" in self._shown:
            self.filesystem, base = fs.FileSystem.from_uri(self._shown)
        else:
            self.filesystem, base = fs.LocalFileSystem(), os.path.abspath(self._shown)
        self._base = base.rstrip("/")
        self.renames = self.filesystem.type_name not in _OBJECT_STORES
        self._local = isinstance(self.filesystem, fs.LocalFileSystem)

    @cached_property
    def exclusive(self) -> bool:
        """Whether creating a file is exclusive: of concurrent writers only one succeeds."""
        return self._has_links()

    def __str__(self) -> str:
        # Without credentials, which may be in the query or before the host.
        scheme, colon, rest = self._shown.partition("://")
        return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}" if colon else self._shown

    def full(self, path: str) -> str:
        """Return the path for the file system."""
        return f"{self._base}/{path}" if path else self._base

    @contextmanager
    def errors(self, action: str, *, missing: bool = False) -> Iterator[None]:
        """Convert errors of the file system to `SinkError`.

        Args:
            action: The attempted action, for the message: "could not {action} {folder}".
            missing: Whether FileNotFoundError is passed to the caller.

        Raises:
            SinkError: The file system returned an error.
        """
        try:
            yield
        except OSError as error:
            if missing and isinstance(error, FileNotFoundError):
                raise
            reason = _REASONS.get(error.errno or 0)
            # Errors of an object store have no errno: the first line of their text.
            reason = reason or error.strerror or str(error).partition("\n")[0]
            advice = "committed rows are kept, run it again after the repair"
            raise SinkError(f"could not {action} {self}: {reason}; {advice}") from error

    def make(self, path: str) -> None:
        """Create a folder and its parents, durably; no effect in object stores."""
        if not self.renames:
            return
        with self.errors("create a folder in"):
            place, parents = self.full(path), []
            while self._local and not os.path.isdir(place) and (above := os.path.dirname(place)) != place:
                place = above
                parents.append(place)
            self.filesystem.create_dir(self.full(path), recursive=True)
            # The name of a folder is in its parent.
            for place in reversed(parents):
                _sync(place)

    def read(self, path: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: The file does not exist.
        """
        with self.errors("read from", missing=True), self.filesystem.open_input_stream(self.full(path)) as file:
            data: bytes = file.read()
            return data

    def replace(self, path: str, data: bytes) -> None:
        """Write a file atomically: readers see the new content or the old one."""
        with self.errors("write to"):
            place = f"{path}.{secrets.token_hex(4)}.tmp" if self.renames else path
            with self.filesystem.open_output_stream(self.full(place)) as file:
                file.write(data)
            if self.renames:
                self.sync(place)
                self.filesystem.move(self.full(place), self.full(path))
                self.sync(path.rpartition("/")[0])

    def create(self, path: str, data: bytes) -> bool:
        """Write a file atomically if it does not exist; return False if it exists.

        It is exclusive if `exclusive` is true; else it checks for an existing file before it writes.
        """
        if not self.exclusive:
            with self.errors("read from"):
                there = self.filesystem.get_file_info(self.full(path)).type != self._fs.FileType.NotFound
            if not there:
                self.replace(path, data)
            return not there
        place = f"{path}.{secrets.token_hex(4)}.tmp"
        with self.errors("write to"):
            try:
                with open(self.full(place), "xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(self.full(place), self.full(path))
            except FileExistsError:
                return False
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(self.full(place))
            self.sync(path.rpartition("/")[0])
        return True

    def _has_links(self) -> bool:
        """Return whether this is a local folder with hard links, whose creation is exclusive."""
        if not self._local:
            return False
        # Not among the data, where a reader would find a file that is no Parquet, also after a kill.
        folder = self.full("_jetarrow")
        place = f"{folder}/{secrets.token_hex(4)}.tmp"
        try:
            os.makedirs(folder, exist_ok=True)
            with open(place, "xb"):
                pass
            os.link(place, f"{place}.tmp")
        except OSError:
            return False
        finally:
            for path in (place, f"{place}.tmp"):
                with suppress(OSError):
                    os.unlink(path)
        return True

    def move(self, path: str, to: str) -> None:
        """Move a file to another path."""
        with self.errors("write to"):
            self.filesystem.move(self.full(path), self.full(to))

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""
        with self.errors("delete from"):
            try:
                self.filesystem.delete_file(self.full(path))
            except FileNotFoundError:
                return

    def sync(self, path: str) -> None:
        """Sync a local file or folder to the disk."""
        if self._local:
            with self.errors("write to"):
                _sync(self.full(path))

    def files(self, path: str = "", *, recursive: bool = True) -> list[str]:
        """Return the paths of the files below a path, relative to the folder."""
        selector = self._fs.FileSelector(self.full(path), allow_not_found=True, recursive=recursive)
        with self.errors("list"):
            found = self.filesystem.get_file_info(selector)
        start = len(self._base) + 1
        return [info.path[start:] for info in found if info.type == self._fs.FileType.File]


def _sync(place: str) -> None:
    if _WINDOWS and os.path.isdir(place):
        return  # Folders cannot be opened, and need no sync: the file system journals names.
    # Windows syncs only files that are open for writing.
    handle = os.open(place, os.O_RDWR if _WINDOWS else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
