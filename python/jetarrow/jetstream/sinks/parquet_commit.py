"""One commit of a Parquet folder, and its files."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import SinkError
from jetarrow.jetstream.sinks.folder import Folder
from jetarrow.jetstream.sinks.partitions import split
from jetarrow.jetstream.sinks.rows import check_same
from jetarrow.jetstream.sinks.state import SinkResult, State

if TYPE_CHECKING:
    import pyarrow

# Limits of a row group: rows, and buffered bytes.
GROUP_ROWS = 131_072
_GROUP_BYTES = 64 * 1024 * 1024


class TableWriter(Protocol):
    """The part of the table that its commits use."""

    folder: Folder
    partition_by: list[str]
    compression: str
    columns: pyarrow.Schema | None

    @property
    def next_number(self) -> int:
        """The number of the next commit."""

    def check(self) -> None:
        """Raise an error if another writer has taken the table over."""

    def check_number(self) -> None:
        """Raise an error if a later writer has reserved the number of the next commit."""

    def place(self, path: str) -> str:
        """Return the location at which a file with this path is written first."""

    def publish_file(self, file: dict[str, Any]) -> None:
        """Move a written file to its path."""

    def write_record(self, state: State, files: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Write the record of the commit, which makes it durable."""

    def may_be_committed(self) -> bool:
        """Return whether a commit may be durable although writing its record has failed."""


def parent(path: str) -> str:
    """Return the folder of a path."""
    return path.rpartition("/")[0]


def file_name(first_seq: int, number: int) -> str:
    """Return the name of a new file.

    Args:
        first_seq: Its first sequence.
        number: The number of its commit.
    """
    return f"{first_seq:020d}-{number:08x}{secrets.token_hex(4)}.parquet"


class File:
    """A file of a commit, written by row groups."""

    def __init__(self, table: TableWriter, folder: str, first_seq: int) -> None:
        self._table = table
        path = f"{folder}/{file_name(first_seq, table.next_number)}".lstrip("/")
        self.entry: dict[str, Any] = {"path": path, "rows": 0, "first_seq": first_seq, "last_seq": first_seq}
        self._waiting: list[Any] = []
        self._rows = self._bytes = 0
        self._sink: Any = None
        self._writer: Any = None

    def add(self, batch: pyarrow.RecordBatch, seqs: Any) -> None:
        """Add rows with their sequences."""
        import pyarrow.compute as pc

        found = pc.min_max(seqs).as_py()
        self.entry["first_seq"] = min(self.entry["first_seq"], found["min"])
        self.entry["last_seq"] = max(self.entry["last_seq"], found["max"])
        self.entry["rows"] += batch.num_rows
        if "timestamp" in batch.schema.names:
            self._note_times(batch.column("timestamp"))
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write()

    def _note_times(self, times: Any) -> None:
        """Extend the range of times in the entry, so that a scan can skip the file."""
        import pyarrow.compute as pc

        scale = 1000 if times.type.unit == "us" else 1
        found = pc.min_max(times.cast("int64")).as_py()
        first, last = found["min"] * scale, found["max"] * scale
        before = self.entry.get("times", (first, last))
        self.entry["times"] = [min(before[0], first), max(before[1], last)]

    def _write(self) -> None:
        import pyarrow.parquet as pq

        pa = needs_pyarrow("a sink")
        if self._writer is None:
            filesystem = self._table.folder.filesystem
            self._sink = filesystem.open_output_stream(self._table.place(self.entry["path"]))
            self._writer = pq.ParquetWriter(self._sink, self._waiting[0].schema, compression=self._table.compression)
        self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=GROUP_ROWS)
        self._waiting, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        """Write buffered rows and close the file."""
        if self._waiting:
            self._write()
        self._writer.close()
        self._sink.close()

    def abort(self) -> None:
        """Close and delete the file."""
        with suppress(Exception):
            if self._sink is not None:
                # Only closing releases the stream. The next start removes a remaining file.
                with suppress(Exception):
                    self._writer.close()
                self._sink.close()
        with suppress(Exception):
            self._table.folder.filesystem.delete_file(self._table.place(self.entry["path"]))


class Commit:
    """A commit whose files are being written."""

    def __init__(self, table: TableWriter) -> None:
        self._table = table
        self._files: dict[str, File] = {}
        self._rows = self._corrupt = 0
        # Whether the record may exist, even if writing it has failed.
        self._record_written = False

    def add(self, batch: pyarrow.RecordBatch, corrupt: pyarrow.RecordBatch | None, seqs: Any) -> None:
        """Add rows.

        Args:
            batch: Rows of the table.
            corrupt: Rows that could not be decoded.
            seqs: The sequences of `batch`.

        Raises:
            SinkSchemaError: The table has other columns.
            SinkError: The file system returned an error.
        """
        table = self._table
        if table.columns is None:
            table.columns = batch.schema
        check_same(table.columns, batch.schema, str(table))
        with table.folder.errors("write to"):
            if batch.num_rows:
                self._rows += batch.num_rows
                for folder, rows, own in split(batch, seqs, table.partition_by):
                    self._file(folder, own).add(rows, own)
            if corrupt is not None:
                self._corrupt += corrupt.num_rows
                own = corrupt.column("seq")
                self._file("_corrupt", own).add(corrupt, own)

    def _file(self, folder: str, seqs: Any) -> File:
        if folder not in self._files:
            self._files[folder] = File(self._table, folder, seqs[0].as_py())
        return self._files[folder]

    def finish(self, state: State) -> SinkResult:
        """Write files and record."""
        table = self._table
        with table.folder.errors("write to"):
            for file in self._files.values():
                file.close()
        entries = [file.entry for file in self._files.values()]
        table.check()
        try:
            for entry in entries:
                table.publish_file(entry)
        except SinkError:
            # A later writer removes files of the number that it has reserved.
            table.check_number()
            raise
        self._record_written = True
        table.write_record(state, entries, rows=self._rows, corrupt=self._corrupt)
        own = [entry for entry in entries if parent(entry["path"]) != "_corrupt"]
        first, last = [entry["first_seq"] for entry in own], [entry["last_seq"] for entry in own]
        return SinkResult(self._rows, len(own), min(first, default=None), max(last, default=None), self._corrupt)

    def abort(self) -> None:
        """Delete the files, unless the commit may be durable: then the next start removes them if it is not."""
        if self._record_written and self._table.may_be_committed():
            return
        for file in self._files.values():
            file.abort()
            with suppress(Exception):
                self._table.folder.delete(file.entry["path"])
