"""The files of one commit of a Parquet folder."""

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

# Rows of a row group, and bytes that may wait for it.
GROUP_ROWS = 131_072
_GROUP_BYTES = 64 * 1024 * 1024


class TableWriter(Protocol):
    """The table, as its commits know it."""

    folder: Folder
    partition_by: list[str]
    compression: str
    columns: pyarrow.Schema | None

    @property
    def next_number(self) -> int:
        """The number of the next commit."""

    def check(self) -> None:
        """Raises where the table is somebody else's by now."""

    def check_number(self) -> None:
        """Raises where a later writer has the number of the next commit."""

    def place(self, path: str) -> str:
        """Where a file is written that will have this path."""

    def publish_file(self, file: dict[str, Any]) -> None:
        """Gives a file that is written its place."""

    def write_record(self, state: State, files: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Makes the commit count."""

    def may_be_committed(self) -> bool:
        """Whether a commit may count whose record could not be written, as far as was heard."""


def parent(path: str) -> str:
    """The folder of a path."""
    return path.rpartition("/")[0]


def file_name(first_seq: int, number: int) -> str:
    """A new file's name.

    Args:
        first_seq: The first sequence in it.
        number: The number of its commit.
    """
    return f"{first_seq:020d}-{number:08x}{secrets.token_hex(4)}.parquet"


class File:
    """One file of a commit, written row group by row group."""

    def __init__(self, table: TableWriter, folder: str, first_seq: int) -> None:
        self._table = table
        path = f"{folder}/{file_name(first_seq, table.next_number)}".lstrip("/")
        self.entry: dict[str, Any] = {"path": path, "rows": 0, "first_seq": first_seq, "last_seq": first_seq}
        self._waiting: list[Any] = []
        self._rows = self._bytes = 0
        self._sink: Any = None
        self._writer: Any = None

    def add(self, batch: pyarrow.RecordBatch, seqs: Any) -> None:
        """Adds rows, with their sequences."""
        import pyarrow.compute as pc

        found = pc.min_max(seqs).as_py()
        self.entry["first_seq"] = min(self.entry["first_seq"], found["min"])
        self.entry["last_seq"] = max(self.entry["last_seq"], found["max"])
        self.entry["rows"] += batch.num_rows
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write()

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
        """Writes what is left."""
        if self._waiting:
            self._write()
        self._writer.close()
        self._sink.close()

    def abort(self) -> None:
        """Gives it up."""
        with suppress(Exception):
            if self._sink is not None:
                # Closing is the only way to let go of it; the next start would remove what is left of it.
                with suppress(Exception):
                    self._writer.close()
                self._sink.close()
        with suppress(Exception):
            self._table.folder.filesystem.delete_file(self._table.place(self.entry["path"]))


class Commit:
    """Files that are being written."""

    def __init__(self, table: TableWriter) -> None:
        self._table = table
        self._files: dict[str, File] = {}
        self._rows = self._corrupt = 0
        # From here on the record may be there, whatever is heard of it.
        self._record_written = False

    def add(self, batch: pyarrow.RecordBatch, corrupt: pyarrow.RecordBatch | None, seqs: Any) -> None:
        """Adds rows.

        Args:
            batch: Rows of the table.
            corrupt: Rows that could not be decoded.
            seqs: The sequences of `batch`.

        Raises:
            SinkSchemaError: The table has other columns.
            SinkError: The file system refuses.
        """
        table = self._table
        if table.columns is None:
            table.columns = batch.schema
        check_same(table.columns, batch.schema, str(table))
        with table.folder.errors("cannot write to"):
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
        """Makes it count."""
        table = self._table
        with table.folder.errors("cannot write to"):
            for file in self._files.values():
                file.close()
        entries = [file.entry for file in self._files.values()]
        table.check()
        try:
            for entry in entries:
                table.publish_file(entry)
        except SinkError:
            # The next writer of the folder removes files of a number that it has taken.
            table.check_number()
            raise
        self._record_written = True
        table.write_record(state, entries, rows=self._rows, corrupt=self._corrupt)
        own = [entry for entry in entries if parent(entry["path"]) != "_corrupt"]
        first, last = [entry["first_seq"] for entry in own], [entry["last_seq"] for entry in own]
        return SinkResult(self._rows, len(own), min(first, default=None), max(last, default=None), self._corrupt)

    def abort(self) -> None:
        """Gives it up: nothing of it counts. Where that is not sure, the next start knows what to remove."""
        if self._record_written and self._table.may_be_committed():
            return
        for file in self._files.values():
            file.abort()
            with suppress(Exception):
                self._table.folder.delete(file.entry["path"])
