"""The place of an archive: a folder, a URI or a table object."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jetarrow.archive_scan.delta import DeltaSnapshot
from jetarrow.archive_scan.parquet import ParquetSnapshot
from jetarrow.archive_scan.snapshot import Snapshot
from jetarrow.jetstream.errors import SinkError, StreamRecreatedError


@dataclass(frozen=True)
class ArchivePlace:
    """An archive as the caller names it.

    Attributes:
        stream: Name of the stream.
        target: A folder or URI, a `deltalake.DeltaTable`, a table of pyiceberg, or a function that returns one of them.
        app_id: Name of the sink in the log of a Delta table; None for the only one of the stream.
        storage_options: Storage options of deltalake.
        filesystem: File system of a Parquet folder, a `pyarrow.fs.FileSystem`.
    """

    stream: str
    target: Any
    app_id: str | None = None
    storage_options: Mapping[str, str] | None = None
    filesystem: Any = None

    @property
    def is_current(self) -> bool:
        """Whether `pin` returns the newest version, as the target is no table object, whose version is fixed."""
        return callable(self.target) or isinstance(self.target, str | os.PathLike)

    def pin(self) -> Snapshot:
        """Return a snapshot of the newest version, or of the version of a table that was given.

        Raises:
            SinkError: There is no archive of the stream, or it cannot be read.
            TypeError: The target is no archive.
            UnsupportedError: A library is not installed.
        """
        snapshot = self._snapshot()
        if snapshot is None:
            raise SinkError(
                f"could not read the archive of stream {self.stream!r} in {self}: no sink has committed there; check"
                " the place, or run the sink first"
            )
        if snapshot.state.stream != self.stream:
            raise SinkError(
                f"could not read {self} as the archive of stream {self.stream!r}: it is the archive of stream"
                f" {snapshot.state.stream!r}"
            )
        return snapshot

    def pin_after(self, earlier: Snapshot) -> Snapshot:
        """Return a later snapshot of the same archive.

        Raises:
            StreamRecreatedError: It is of another stream of this name.
        """
        later = self.pin()
        if later.state.created != earlier.state.created:
            raise StreamRecreatedError
        return later

    def __str__(self) -> str:
        if callable(self.target):
            return "the table of archive="
        if isinstance(self.target, str | os.PathLike):
            scheme, colon, rest = os.fspath(self.target).partition("://")
            return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}" if colon else scheme
        return f"the given {type(self.target).__name__}"

    def _snapshot(self) -> Snapshot | None:
        target = self.target() if callable(self.target) else self.target
        library = type(target).__module__.partition(".")[0]
        if library == "deltalake":
            return DeltaSnapshot.of(target, self.stream, self.app_id)
        if library == "pyiceberg":
            from jetarrow.archive_scan.iceberg import IcebergSnapshot

            return IcebergSnapshot.of(target, self.stream, self.app_id)
        if not isinstance(target, str | os.PathLike):
            raise TypeError(
                f"archive must be a folder, a URI, a deltalake.DeltaTable or a table of pyiceberg, not"
                f" {type(target).__name__}"
            )
        place = os.fspath(target)
        is_local = "://" not in place and self.filesystem is None
        if self.storage_options is not None or (is_local and os.path.isdir(os.path.join(place, "_delta_log"))):
            return DeltaSnapshot.open(place, self.stream, self.app_id, self.storage_options)
        found = ParquetSnapshot.open(place, self.filesystem)
        if found is None and "://" in place and self.filesystem is None:
            return DeltaSnapshot.open(place, self.stream, self.app_id, None)
        return found
