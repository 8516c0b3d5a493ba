"""A Delta table, each of whose commits says how far the sink has come.

The position is the transaction `app_id` of the table's log, committed with the rows: its `version` is the last
sequence. The commit's metadata has what else there is to know. Rows that could not be decoded lie in
`_corrupt/<name of the sink>/`, which Delta ignores: several sinks may write one table, each removes only its own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jetarrow.core.errors import UnsupportedError
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import SinkError, SinkLockedError, SinkSchemaError
from jetarrow.jetstream.sinks.rows import check_same, from_text, to_text
from jetarrow.jetstream.sinks.state import SinkResult, State

if TYPE_CHECKING:
    import pyarrow

# In a commit's metadata.
_STATE = "jetarrow"
# Commits that are looked through for it at first.
_RECENT = 100
_CORRUPT = re.compile(r"(\d{20})-\d+\.parquet")


class DeltaTarget:
    """The table as a target of a sink."""

    def __init__(
        self,
        uri: str,
        *,
        storage_options: Mapping[str, str] | None,
        app_id: str,
        partition_by: Sequence[str],
        compression: str,
    ) -> None:
        needs_pyarrow("to_delta()")
        try:
            import deltalake
        except ImportError:
            message = 'to_delta() needs deltalake: pip install "jetarrow[delta]"'
            raise UnsupportedError("to_delta()", "deltalake", "no deltalake", message=message) from None
        self.library = deltalake
        self.uri = uri
        self.storage_options = dict(storage_options) if storage_options else None
        self.app_id = app_id
        # An id may have any characters, and differ from another one in what a name of a file leaves out.
        readable = re.sub(r"[^A-Za-z0-9_-]", "_", app_id)[:64]
        self.corrupt = f"_corrupt/{readable}-{hashlib.sha256(app_id.encode()).hexdigest()[:16]}"
        self.partition_by = list(partition_by)
        self.compression = compression
        # What this sink has committed last, and how often it has.
        self.version: int | None = None
        self.number = 0
        self.columns: pyarrow.Schema | None = None

    def __str__(self) -> str:
        scheme, colon, rest = self.uri.partition("://")
        return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}" if colon else self.uri

    def table(self) -> Any:
        """The table as it is now; None where there is none."""
        try:
            return self.library.DeltaTable(self.uri, storage_options=self.storage_options)
        except self.library.exceptions.TableNotFoundError:
            return None
        except (OSError, self.library.exceptions.DeltaError) as error:
            raise self.failed("cannot open", error) from error

    def failed(self, what: str, error: Exception) -> SinkError:
        """What went wrong, with the cause beside it."""
        said = str(error).partition("\n")[0]
        return SinkError(f"{what} {self}: {said}. What was committed stays; run it again when that is mended")

    def locked_error(self) -> SinkLockedError:
        """Another writer has made a commit that this one would have made."""
        return SinkLockedError(f"{self} was written by another sink with the app_id {self.app_id!r} meanwhile")

    def open(self) -> State | None:
        """The position; None where there is none."""
        self.number, self.columns = 0, None
        table = self.table()
        if table is None:
            self.version = None
            return None
        self.version = table.transaction_version(self.app_id)
        if self.version is None:
            self._clean()
            return None
        for limit in (_RECENT, None):
            for commit in table.history(limit):
                found = json.loads(commit.get(_STATE) or "{}")
                if (found.get("app_id"), found.get("last_seq")) == (self.app_id, self.version):
                    self.number = found["number"]
                    self.columns = from_text(found["columns"])
                    self._clean()
                    return State.of(found)
        raise SinkError(
            f"{self} has a position of {self.app_id!r}, but the commit that says what it means is no longer in its log:"
            " give another app_id, and start_seq"
        )

    def files(self) -> Any:
        """The file system of the table's folder."""
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        return PyFileSystem(DeltaStorageHandler(self.uri, self.storage_options))

    def _clean(self) -> None:
        """Removes corrupt rows of a commit that never was."""
        from pyarrow.fs import FileSelector

        files = self.files()
        for info in files.get_file_info(FileSelector(self.corrupt, allow_not_found=True)):
            found = _CORRUPT.fullmatch(info.path.rpartition("/")[2])
            if found and int(found[1]) > self.number:
                files.delete_file(info.path)

    def close(self) -> None:
        """Nothing is held."""

    abandon = close

    def begin(self) -> DeltaCommit:
        """A commit."""
        return DeltaCommit(self)

    def compact(self) -> int:
        """Joins small files by the table's own `optimize`; how many files there are fewer."""
        table = self.table()
        if table is None:
            return 0
        done = table.optimize.compact()
        return int(done["numFilesRemoved"]) - int(done["numFilesAdded"])


class DeltaCommit:
    """Rows that wait for their transaction."""

    def __init__(self, target: DeltaTarget) -> None:
        self._target = target
        self._batches: list[Any] = []
        self._corrupt: list[Any] = []
        self._seqs: list[Any] = []

    def add(self, batch: pyarrow.RecordBatch, corrupt: pyarrow.RecordBatch | None, seqs: Any) -> None:
        """Adds rows; as `Commit.add` of a folder."""
        target = self._target
        if target.columns is None:
            target.columns = batch.schema
        check_same(target.columns, batch.schema, str(target))
        if batch.num_rows:
            self._batches.append(batch)
            self._seqs.append(seqs)
        if corrupt is not None:
            self._corrupt.append(corrupt)

    def finish(self, state: State) -> SinkResult:
        """Commits them."""
        import pyarrow.compute as pc

        target = self._target
        table = target.table() or self._created()
        if table.transaction_version(target.app_id) != target.version:
            raise target.locked_error()
        number = target.number + 1
        corrupt = self._write_corrupt(number)
        files = self._write(table, state, number)
        target.version, target.number = state.last_seq, number
        seqs = [pc.min_max(seqs).as_py() for seqs in self._seqs]
        first = min((found["min"] for found in seqs), default=None)
        last = max((found["max"] for found in seqs), default=None)
        return SinkResult(sum(batch.num_rows for batch in self._batches), files, first, last, corrupt)

    def _created(self) -> Any:
        """The table, without rows."""
        target = self._target
        try:
            return target.library.DeltaTable.create(
                target.uri,
                target.columns,
                partition_by=target.partition_by or None,
                storage_options=target.storage_options,
            )
        except (OSError, target.library.exceptions.DeltaError) as error:
            raise target.failed("cannot make the table", error) from error

    def _write(self, table: Any, state: State, number: int) -> int:
        """The transaction; how many files it has added."""
        pa = needs_pyarrow("to_delta()")
        target, library = self._target, self._target.library
        assert target.columns is not None
        said = {**state.as_dict(), "app_id": target.app_id, "number": number, "columns": to_text(target.columns)}
        properties = library.CommitProperties(
            custom_metadata={_STATE: json.dumps(said)},
            app_transactions=[library.Transaction(target.app_id, state.last_seq)],
        )
        before = set(table.file_uris())
        try:
            if not self._batches:
                table.create_write_transaction([], "append", table.schema(), None, commit_properties=properties)
                return 0
            library.write_deltalake(
                table,
                pa.RecordBatchReader.from_batches(target.columns, self._batches),
                mode="append",
                writer_properties=library.WriterProperties(compression=target.compression.upper()),
                commit_properties=properties,
            )
        except library.exceptions.SchemaMismatchError as error:
            raise SinkSchemaError(f"{target} has other columns: {str(error).partition(chr(10))[0]}") from error
        except (OSError, library.exceptions.DeltaError) as error:
            if "concurrent transaction" in str(error).lower():
                raise target.locked_error() from error
            raise target.failed("cannot write to", error) from error
        table.update_incremental()
        return len(set(table.file_uris()) - before)

    def _write_corrupt(self, number: int) -> int:
        if not self._corrupt:
            return 0
        import pyarrow.parquet as pq

        pa = needs_pyarrow("to_delta()")
        table = pa.Table.from_batches(self._corrupt)
        path = f"{self._target.corrupt}/{number:020d}-{table['seq'][0].as_py()}.parquet"
        try:
            pq.write_table(table, path, filesystem=self._target.files(), compression=self._target.compression)
        except OSError as error:
            raise self._target.failed("cannot write to", error) from error
        return int(table.num_rows)

    def abort(self) -> None:
        """Gives it up. Corrupt rows are for the next start, data files without a transaction for Delta's vacuum."""
        self._batches.clear()
