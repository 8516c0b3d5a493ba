"""Snapshot of a Parquet folder, whose files a compaction may replace while they are read.

The rows of a snapshot are defined by its position, so any later version of the folder has them too: the rows of earlier
epochs, and those of its own epoch up to the position without the gaps. A part whose files were replaced is read again
from the files of the newest version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from jetarrow.archive_scan.snapshot import PART_ROWS, without_gaps
from jetarrow.jetstream.errors import SinkError
from jetarrow.jetstream.sinks.parquet import ParquetTable
from jetarrow.jetstream.sinks.parquet_commit import parent
from jetarrow.jetstream.sinks.partitions import NULL
from jetarrow.jetstream.sinks.rows import from_text
from jetarrow.jetstream.sinks.state import State

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.dataset

_T = TypeVar("_T")
# Attempts to read the records, and those of a part. Each failed one means that the sink has compacted meanwhile.
_ATTEMPTS = 20


@dataclass(frozen=True)
class _File:
    path: str
    epoch: int
    rows: int
    first: int
    last: int
    times: tuple[int, int] | None


@dataclass(frozen=True)
class _Part:
    """A range of sequences of one epoch, both ends included."""

    epoch: int
    first: int
    last: int


class ParquetSnapshot:
    """A Parquet folder at one version, as `Snapshot`."""

    escaped = False

    def __init__(self, table: ParquetTable) -> None:
        assert table.newest is not None
        self._table = table
        self.state = State.of(table.newest)
        self.columns: pyarrow.Schema = from_text(table.newest["columns"])
        self.partition_by: list[str] = table.newest["partition_by"]
        self._files = _files(table)
        self._is_reloaded = False
        # Values of the partition columns by folder.
        self._values: dict[str, Any] = {}

    @classmethod
    def open(cls, path: Any, filesystem: Any) -> ParquetSnapshot | None:
        """Return a snapshot of the newest version; None if there is no commit.

        Raises:
            SinkError: The folder cannot be read.
        """
        table = ParquetTable(path, filesystem=filesystem, partition_by=[], compression="zstd", rows=1)
        _load(table)
        return None if table.newest is None else cls(table)

    def visit(
        self, first: int | None, end: int | None, visitor: Callable[[pyarrow.dataset.Dataset], _T]
    ) -> Iterator[_T]:
        """Yield results by parts, as `Snapshot.visit`."""
        for part in _parts(self._files):
            if (first is None or part.last >= first) and (end is None or part.first < end):
                yield self._visit(part, visitor)

    def _visit(self, part: _Part, visitor: Callable[[pyarrow.dataset.Dataset], _T]) -> _T:
        for _ in range(_ATTEMPTS):
            before = self._files
            try:
                return visitor(self._dataset(part))
            except OSError as error:
                self._reload()
                if self._files == before:
                    reason = str(error).partition("\n")[0]
                    raise SinkError(
                        f"could not read from {self._table}: {reason}; run `jetarrow archive check`, or restore it"
                    ) from error
        raise SinkError(f"could not read from {self._table}: its files were replaced {_ATTEMPTS} times; read it again")

    def _reload(self) -> None:
        """Take the files of the newest version."""
        _load(self._table)
        newest = None if self._table.newest is None else State.of(self._table.newest)
        position = (self.state.epoch, self.state.last_seq)
        if newest is None or newest.created != self.state.created or (newest.epoch, newest.last_seq) < position:
            raise SinkError(
                f"could not read from {self._table}: the archive was replaced by another one; read it again"
            )
        self._files, self._is_reloaded = _files(self._table), True

    def _dataset(self, part: _Part) -> pyarrow.dataset.Dataset:
        import pyarrow.dataset as ds

        files = [
            file
            for file in self._files
            if file.epoch == part.epoch and file.first <= part.last and file.last >= part.first
        ]
        folder, form = self._table.folder, ds.ParquetFileFormat()
        fragments = [
            form.make_fragment(folder.full(file.path), folder.filesystem, partition_expression=self._guarantee(file))
            for file in files
        ]
        dataset = ds.FileSystemDataset(fragments, self.columns, form, folder.filesystem)
        if not self._is_reloaded and all(part.first <= file.first and file.last <= part.last for file in files):
            return dataset
        ranges = [(part.first, part.last)]
        if part.epoch == self.state.epoch:
            # Gaps that were filled after this version.
            ranges = without_gaps(ranges, self.state.gaps)
        seq, condition = ds.field("seq"), ds.scalar(False)
        for low, high in ranges:
            condition |= (seq >= low) & (seq <= high)
        return dataset.filter(condition)

    def _guarantee(self, file: _File) -> Any:
        """Return the values of the partition columns, and the ranges by which a file is skipped without opening it."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        seq = ds.field("seq")
        known = (seq >= file.first) & (seq <= file.last)
        if file.times is not None:
            kind, (first, last) = self.columns.field("timestamp").type, file.times
            scale = 1000 if kind.unit == "us" else 1
            time = ds.field("timestamp")
            known &= (time >= pa.scalar(first // scale, kind)) & (time <= pa.scalar(last // scale, kind))
        if self.partition_by:
            known &= self._folder_values(parent(file.path))
        return known

    def _folder_values(self, folder: str) -> Any:
        """Return the values of the partition columns in the name of a folder, as an expression."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        if folder not in self._values:
            known = ds.scalar(True)
            for level in folder.split("/"):
                name, _, text = level.partition("=")
                column, kind = ds.field(name), self.columns.field(name).type
                value = None if text == NULL else pa.array([unquote(text)]).cast(kind)[0]
                known &= column.is_null() if value is None else column == value
            self._values[folder] = known
        return self._values[folder]


def _load(table: ParquetTable) -> None:
    """Read the records of one version, while the sink may add records, and a compaction may replace them.

    A listing during a compaction may have some of the replaced records and not yet the new one. Therefore the numbers
    must be complete, or a second listing must be equal.
    """
    for _ in range(_ATTEMPTS):
        try:
            table.load()
        except FileNotFoundError:
            continue
        listed = {record["name"] for record in table.records.values()} | table._replaced
        if _is_complete(table.records) or listed == set(table._record_paths()):
            return
    raise SinkError(f"could not read from {table}: its records were replaced {_ATTEMPTS} times; read it again")


def _is_complete(records: dict[int, dict[str, Any]]) -> bool:
    """Whether every number up to the newest one has a record, or is replaced by a record."""
    following = 1
    for number in sorted(records):
        if records[number]["replaces"] > following:
            return False
        following = number + 1
    return True


def _files(table: ParquetTable) -> list[_File]:
    """Return the files of rows that the records name, by epoch and sequence."""
    found = []
    for record in table.records.values():
        for file in record["files"]:
            if parent(file["path"]) != "_corrupt":
                times = tuple(file["times"]) if "times" in file else None
                epoch = file.get("epoch", record.get("epoch", 0))
                found.append(_File(file["path"], epoch, file["rows"], file["first_seq"], file["last_seq"], times))
    return sorted(found, key=lambda file: (file.epoch, file.first, file.path))


def _parts(files: list[_File]) -> Iterator[_Part]:
    """Yield ranges of sequences with at most some `PART_ROWS` rows; between two ranges no file is cut if possible."""
    for epoch, own in groupby(files, key=lambda file: file.epoch):
        part, rows = None, 0
        for first, last, count in _spans(own):
            if part is not None and rows + count <= PART_ROWS:
                part, rows = _Part(epoch, part.first, last), rows + count
                continue
            if part is not None:
                yield from _cut(part, rows)
            part, rows = _Part(epoch, first, last), count
        if part is not None:
            yield from _cut(part, rows)


def _spans(files: Iterable[_File]) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of sequences that no other file overlaps, with their rows."""
    first = last = rows = 0
    for file in files:
        if rows and file.first <= last:
            last, rows = max(last, file.last), rows + file.rows
            continue
        if rows:
            yield first, last, rows
        first, last, rows = file.first, file.last, file.rows
    if rows:
        yield first, last, rows


def _cut(part: _Part, rows: int) -> Iterator[_Part]:
    """Yield a part in pieces of equal width if it has too many rows."""
    pieces = -(-rows // PART_ROWS)
    width = -(-(part.last - part.first + 1) // pieces)
    for low in range(part.first, part.last + 1, width):
        yield _Part(part.epoch, low, min(low + width - 1, part.last))
