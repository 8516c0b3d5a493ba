"""A folder of any file system, or of an object store."""

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

# Where a file is there as a whole once it is closed, and renaming is copying.
_OBJECT_STORES = {"s3", "gcs", "abfs"}
_WINDOWS = sys.platform == "win32"
_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota is used up",
    errno.EFBIG: "a file would pass the limit of its size",
    errno.EACCES: "this user may not write there",
    errno.EPERM: "this user may not write there",
    errno.EROFS: "it can only be read",
}


class Folder:
    """Reads and writes below one path. Paths are relative, with `/`."""

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
        """Whether of two who create one file only one succeeds."""
        return self._has_links()

    def __str__(self) -> str:
        # Without keys: they may stand in the query, or before the host.
        scheme, colon, rest = self._shown.partition("://")
        return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}" if colon else self._shown

    def full(self, path: str) -> str:
        """The path for the file system."""
        return f"{self._base}/{path}" if path else self._base

    @contextmanager
    def errors(self, what: str, *, missing: bool = False) -> Iterator[None]:
        """What the file system refuses becomes one error that says what to do.

        Args:
            what: What is being done, for the message.
            missing: That a file is not there is for the caller.

        Raises:
            SinkError: It refuses.
        """
        try:
            yield
        except OSError as error:
            if missing and isinstance(error, FileNotFoundError):
                raise
            reason = _REASONS.get(error.errno or 0)
            # Of an object store: its own words, which are in the cause.
            said = reason or error.strerror or str(error).partition("\n")[0]
            advice = "What was committed stays; run it again when that is mended"
            raise SinkError(f"{what} {self}: {said}. {advice}") from error

    def make(self, path: str) -> None:
        """Makes a folder, and those above it, where there are such things."""
        if not self.renames:
            return
        with self.errors("cannot make a folder in"):
            self.filesystem.create_dir(self.full(path), recursive=True)

    def read(self, path: str) -> bytes:
        """What is in a file.

        Raises:
            FileNotFoundError: There is none.
        """
        with self.errors("cannot read from", missing=True), self.filesystem.open_input_stream(self.full(path)) as file:
            data: bytes = file.read()
            return data

    def replace(self, path: str, data: bytes) -> None:
        """Writes a file as a whole: whoever reads it sees all of it, or what was there before."""
        with self.errors("cannot write to"):
            place = f"{path}.{secrets.token_hex(4)}.tmp" if self.renames else path
            with self.filesystem.open_output_stream(self.full(place)) as file:
                file.write(data)
            if self.renames:
                self.sync(place)
                self.filesystem.move(self.full(place), self.full(path))
                self.sync(path.rpartition("/")[0])

    def create(self, path: str, data: bytes) -> bool:
        """Writes a file as a whole where there is none of this path; false where there is one.

        Of two who do it at once one succeeds where `exclusive` is true; elsewhere it only looks before it writes.
        """
        if not self.exclusive:
            with self.errors("cannot read from"):
                there = self.filesystem.get_file_info(self.full(path)).type != self._fs.FileType.NotFound
            if not there:
                self.replace(path, data)
            return not there
        place = f"{path}.{secrets.token_hex(4)}.tmp"
        with self.errors("cannot write to"):
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
        """Whether this is a local folder with hard links, which are made only where nothing has their name."""
        if not self._local:
            return False
        place = self.full(f"{secrets.token_hex(4)}.tmp")
        try:
            os.makedirs(self._base, exist_ok=True)
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
        """Gives a file another path."""
        with self.errors("cannot write to"):
            self.filesystem.move(self.full(path), self.full(to))

    def delete(self, path: str) -> None:
        """Deletes a file, if it is there."""
        with self.errors("cannot delete from"):
            try:
                self.filesystem.delete_file(self.full(path))
            except FileNotFoundError:
                return

    def sync(self, path: str) -> None:
        """Has the system write a file or folder to the disk, where it is a local one."""
        if not self._local:
            return
        if _WINDOWS and os.path.isdir(self.full(path)):
            return  # No folder can be opened there, and none needs to be: the file system's journal has its names.
        # Windows syncs what is open for writing.
        handle = os.open(self.full(path), os.O_RDWR if _WINDOWS else os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def files(self, path: str = "", *, recursive: bool = True) -> list[str]:
        """The files below a path, relative to the folder."""
        selector = self._fs.FileSelector(self.full(path), allow_not_found=True, recursive=recursive)
        with self.errors("cannot list"):
            found = self.filesystem.get_file_info(selector)
        start = len(self._base) + 1
        return [info.path[start:] for info in found if info.type == self._fs.FileType.File]
