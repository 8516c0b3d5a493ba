"""The two files of a backup, which are replaced together, and verified before they are used."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from jetarrow.core.errors import Error
from jetarrow.core.file_lock import is_at, open_locked
from jetarrow.core.session import Session
from jetarrow.jetstream.errors import DigestMismatchError

META = "backup.json"
"""Configuration and state of the stream, and the SHA-256 of the data."""

DATA = "stream.tar.s2"
"""The stream's content in the server's format: a tar archive, S2 compressed."""

# Names of incomplete files.
_META_PART = f"{META}.part"
_DATA_PART = f"{DATA}.part"

# Permissions: only this user may read the messages of the stream.
_MODE = 0o600
# Bytes hashed between two yields to the event loop, about 1 ms.
_HASH_BYTES = 1024 * 1024


class BackupWriter:
    """Writes a backup into a folder, and replaces an existing one.

    The rename of the data is the commit. Before it the folder has the old backup. After it the folder has the new one,
    also if the process ends before it renames the metadata: `verified_meta` finds it by the hash.

    Args:
        directory: The folder, which is created if it is missing.

    Raises:
        Error: Another backup is being written there.
        OSError: A file cannot be written.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.folder = Path(directory)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._meta_part, self._data_part = self.folder / _META_PART, self.folder / _DATA_PART
        self._meta: IO[bytes] | None = None
        self._data: IO[bytes] | None = None
        self._hash = hashlib.sha256()
        # Data and metadata are complete, so the rename of the data commits them.
        self._is_ready = False
        self.size = 0
        try:
            self._lock()
            self._finish_last_commit()
            self._data = os.fdopen(_open_private(self._data_part), "wb")
            _make_private(self._data)
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        descriptor = open_locked(self._meta_part, _MODE)
        if descriptor is None:
            raise Error(
                f"could not write a backup into '{self.folder}': another backup is being written there;"
                " wait for its end, or use another folder"
            )
        self._meta = os.fdopen(descriptor, "r+b")
        _make_private(self._meta)

    def _finish_last_commit(self) -> None:
        """Renames the metadata of a backup whose writer ended between the two renames."""
        assert self._meta is not None
        try:
            wanted = _digest_of(json.loads(self._meta.read()))
            if wanted is None:
                return
            with (self.folder / DATA).open("rb") as data:
                digest = hashlib.file_digest(data, "sha256").hexdigest()
        except (FileNotFoundError, ValueError):
            return
        if wanted == digest:
            self._name_meta()
            self._meta.close()
            self._meta = None
            self._lock()

    def write(self, chunk: bytes) -> None:
        """Appends to the data.

        Args:
            chunk: The chunk.
        """
        assert self._data is not None
        self._data.write(chunk)
        self._hash.update(chunk)
        self.size += len(chunk)

    async def commit(self, session: Session, config: Any, state: Any) -> str:
        """Replaces the existing backup.

        Args:
            session: The session, which waits.
            config: The stream's configuration, as the server sent it.
            state: The stream's state.

        Returns:
            The SHA-256 of the data, in hexadecimal.

        Raises:
            OSError: A file cannot be written.
        """
        assert self._data is not None
        assert self._meta is not None
        digest = self._hash.hexdigest()
        meta = json.dumps({"config": config, "state": state, "sha256": digest}, indent=2).encode()
        if session.is_blocking:
            _sync(self._data)
        else:
            await asyncio.to_thread(_sync, self._data)
        self._meta.seek(0)
        self._meta.truncate()
        self._meta.write(meta)
        _sync(self._meta)
        self._data.close()
        self._is_ready = True
        self._data_part.replace(self.folder / DATA)
        _sync_folder(self.folder)
        self._name_meta()
        return digest

    def _name_meta(self) -> None:
        assert self._meta is not None
        if sys.platform == "win32":  # no open file can be renamed there
            self._meta.close()
        self._meta_part.replace(self.folder / META)
        _sync_folder(self.folder)

    def close(self) -> None:
        """Removes uncommitted files, and releases the lock of the folder."""
        if self._data is not None:
            self._data.close()
        if self._meta is None:
            return
        # After the rename of the metadata, files of these names are those of the next backup.
        if self._meta.closed or is_at(self._meta.fileno(), self._meta_part):
            if not self._is_ready or self._data_part.exists():
                self._data_part.unlink(missing_ok=True)
                self._meta_part.unlink(missing_ok=True)
            elif self._meta_part.exists():
                # The first rename of the metadata failed. `verified_meta` finds it under either name.
                with suppress(OSError):
                    self._name_meta()
        self._meta.close()


async def verified_meta(session: Session, folder: Path, data: IO[bytes]) -> dict[str, Any]:
    """Reads the metadata of a backup, and compares the data with its hash, if it has one.

    Args:
        session: The session, which waits.
        folder: The folder.
        data: Its data, open for reading; it is at its beginning afterwards.

    Returns:
        The file's `config` and `state`.

    Raises:
        FileNotFoundError: The folder has no backup.
        ValueError: The metadata is invalid.
        DigestMismatchError: The data has another hash.
    """
    failure: Exception | None = None
    meta: dict[str, Any] = {}
    try:
        meta = _read_meta(folder / META)
    except (FileNotFoundError, ValueError) as error:
        failure = error
    pending: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        pending = _read_meta(folder / _META_PART)
    wanted, wanted_pending = _digest_of(meta), _digest_of(pending)
    if wanted is None and wanted_pending is None:
        if failure is not None:
            raise failure
        # Written by the `nats` tool, or by a version without hashes.
        return meta
    found = await _hash_of(session, data)
    if found == wanted:
        return meta
    if found == wanted_pending:
        return pending
    if failure is not None:
        raise failure
    if wanted is None:
        return meta
    raise DigestMismatchError(
        f"could not restore the backup in '{folder}': {DATA} has the SHA-256 {found}, and {META} has {wanted}, so they"
        " are damaged or not of one backup; nothing was restored; use another backup, or create a new one"
    )


async def _hash_of(session: Session, data: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := data.read(_HASH_BYTES):
        digest.update(chunk)
        await session.sleep(0)
    data.seek(0)
    return digest.hexdigest()


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = json.loads(path.read_bytes())
        if isinstance(meta["config"], dict) and isinstance(meta["state"], dict):
            checked: dict[str, Any] = meta
            _digest_of(checked)
            return checked
    except (ValueError, TypeError, KeyError):
        pass
    raise ValueError(f"could not read '{path}': it is not the metadata of a backup; use another folder")


def _digest_of(meta: Any) -> str | None:
    digest = meta.get("sha256") if isinstance(meta, dict) else None
    if digest is not None and not isinstance(digest, str):
        raise ValueError("sha256 is not a text")
    return digest.lower() if digest else None


def _open_private(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), _MODE)


def _make_private(file: IO[bytes]) -> None:
    """Sets the permissions of a file that another process may have left."""
    if hasattr(os, "fchmod"):
        os.fchmod(file.fileno(), _MODE)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Writes the folder's names to the disk; not needed on Windows."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
