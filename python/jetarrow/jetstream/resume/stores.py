"""Places of a load's position: a key of a bucket, or a file."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jetarrow.core.file_lock import open_locked
from jetarrow.jetstream.errors import (
    KeyDeletedError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    NotFoundError,
    ResumeError,
)
from jetarrow.jetstream.resume.position import Position

if TYPE_CHECKING:
    from jetarrow.jetstream.kv.key_value import KeyValue
    from jetarrow.jetstream.kv.key_values import KeyValues

# Bucket of the positions that are given by name.
BUCKET = "jetarrow_positions"
# The first bytes of a stored position.
_FIRST = b'{"stream":'


class PositionStore(Protocol):
    """A place that stores one position. Only one run at a time can save."""

    @property
    def where(self) -> str:
        """The place, for messages."""

    async def load(self) -> Position | None:
        """Return the position; None if there is none yet."""

    async def save(self, position: Position) -> None:
        """Replace the position, durably; raise `ResumeError` if another run has replaced it."""

    def close(self) -> None:
        """Release the place."""


class BucketStore:
    """A key of a bucket, which is created at its first use.

    Each save expects the revision of the former one, so that of two runs the later one continues and the other fails.

    Args:
        js: The context.
        key: The key.
        bucket: The bucket's name.
    """

    def __init__(self, js: KeyValues, key: str, bucket: str = BUCKET) -> None:
        self._js = js
        self._key = key
        self._bucket = bucket
        self._kv: KeyValue | None = None
        self._revision = 0

    @property
    def where(self) -> str:
        """The place, for messages."""
        return f"key {self._key!r} of bucket {self._bucket!r}"

    async def _opened(self) -> KeyValue:
        if self._kv is None:
            try:
                self._kv = await self._js.key_value(self._bucket)
            except NotFoundError:
                self._kv = await self._js.create_key_value(
                    bucket=self._bucket, history=1, description="positions of loads (jetarrow)"
                )
        return self._kv

    async def load(self) -> Position | None:
        """Return the position; None if there is none yet."""
        kv = await self._opened()
        try:
            # From the leader: a replica may have an older position.
            entry = await kv._get(self._key, leader=True)
        except KeyDeletedError as error:
            self._revision = error.entry.revision
            return None
        except KeyNotFoundError:
            return None
        self._revision = entry.revision or 0
        return Position.parse(entry.value or b"", self.where)

    async def save(self, position: Position) -> None:
        """Replace the position if no other run has."""
        kv = await self._opened()
        try:
            self._revision = await kv.update(self._key, position.dump(), last=self._revision)
        except KeyWrongLastSequenceError as error:
            raise ResumeError(
                f"could not continue the load: another run has written {self.where}; one run at a time can continue a"
                " load: end the other one, then run this one again"
            ) from error

    def close(self) -> None:
        """Release nothing: a key has no lock."""


class FileStore:
    """A file with one position per line, of which the last complete one is valid. It is locked until `close`.

    Args:
        path: The file. It is created at the first save.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def where(self) -> str:
        """The place, for messages."""
        return f"file {str(self._path)!r}"

    async def load(self) -> Position | None:
        """Lock the file, and return the position; None if there is none yet."""
        descriptor = open_locked(self._path)
        if descriptor is None:
            raise ResumeError(f"could not continue the load: another run uses {self.where}; end it first")
        self._descriptor = descriptor
        os.lseek(descriptor, 0, os.SEEK_SET)
        data = os.read(descriptor, os.fstat(descriptor).st_size)
        complete = data[: data.rfind(b"\n") + 1]
        if not complete and not _FIRST.startswith(data[: len(_FIRST)]):
            raise ResumeError(f"could not resume: {self.where} is not a position of a load; use another place")
        last = complete.rstrip(b"\n").rpartition(b"\n")[2]
        # First: another file, given by mistake, must not be changed.
        position = Position.parse(last, self.where) if last else None
        # A kill or a power failure in a save leaves an incomplete last line.
        os.ftruncate(descriptor, len(complete))
        return position

    async def save(self, position: Position) -> None:
        """Add the position to the file, durably."""
        assert self._descriptor is not None, "load() opens the file"
        size = os.lseek(self._descriptor, 0, os.SEEK_END)
        line = position.dump() + b"\n"
        try:
            if os.write(self._descriptor, line) != len(line):
                raise OSError("the file system accepted a part of the line")
            os.fsync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, size)
            raise ResumeError(
                f"could not continue the load: {self.where} could not be written ({error}); make room, then repeat"
            ) from error
        if size == 0 and sys.platform != "win32":
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def close(self) -> None:
        """Unlock the file; remove it if nothing was saved."""
        if self._descriptor is not None:
            if os.lseek(self._descriptor, 0, os.SEEK_END) == 0:
                # Nothing was saved.
                with suppress(OSError):
                    self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = None


def store_of(js: KeyValues, resume: str | os.PathLike[str]) -> PositionStore:
    """Return the place of an argument `resume`.

    Args:
        js: The context.
        resume: A name in the bucket `jetarrow_positions`, or a path.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(resume, str):
        return BucketStore(js, resume)
    if isinstance(resume, os.PathLike):
        return FileStore(Path(resume))
    raise TypeError(f"resume must be a name or a path, not {type(resume).__name__}")
