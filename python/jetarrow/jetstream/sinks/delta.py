"""Delta table as the target of a sink; each commit stores the sink's position.

The position is the transaction `app_id` of the table's log, committed with the rows: its `version` is the last
sequence. The rest of the state is in the commit's metadata. Rows that could not be decoded are in
`_corrupt/<name of the sink>/`, which Delta ignores. Several sinks may write one table; each removes only its own files.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jetarrow.core.errors import UnsupportedError
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import SinkError, SinkLockedError, SinkSchemaError
from jetarrow.jetstream.sinks.buffered import BufferedRows, folder_name
from jetarrow.jetstream.sinks.rows import from_text, to_text
from jetarrow.jetstream.sinks.state import SinkResult, State
from jetarrow.jetstream.sinks.upsert import Upsert, check_restart

if TYPE_CHECKING:
    import pyarrow

    from jetarrow.jetstream.literals import Evolve

# Key of the state in a commit's metadata.
_STATE = "jetarrow"
# Number of recent commits that are searched for it first.
_RECENT = 100
# Number and id of a commit; earlier versions had a sequence instead of an id.
_CORRUPT = re.compile(r"(\d{20})-([0-9a-f]+)\.parquet")


def records(table: Any, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the records of sinks in the log of a table, the newest first.

    Args:
        table: The table.
        limit: Number of commits to search; None searches all.
    """
    for commit in table.history(limit):
        if found := json.loads(commit.get(_STATE) or "{}"):
            yield found


def is_overtaken(error: Exception) -> bool:
    """Return whether another writer with the same `app_id` made the commit first."""
    return "concurrent transaction failed" in str(error).lower()


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
        upsert: Upsert | None = None,
        merge: Callable[[DeltaTarget, Upsert], DeltaCommit] | None = None,
        evolve: Evolve = "fail",
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
        self.corrupt = f"_corrupt/{folder_name(app_id)}"
        self.partition_by = list(partition_by)
        self.compression = compression
        self.upsert = upsert
        # Starts a commit to a table with keys.
        self._merge = merge
        self.evolve = evolve
        # Last sequence that this sink has committed, and the number of its commits.
        self.version: int | None = None
        self.number = 0
        # Number of rollbacks of the stream at the last commit.
        self.epoch = 0
        self.columns: pyarrow.Schema | None = None
        # Those of the last commit, for a commit without rows.
        self.former_columns: pyarrow.Schema | None = None

    def __str__(self) -> str:
        scheme, colon, rest = self.uri.partition("://")
        return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}" if colon else self.uri

    def table(self) -> Any:
        """Open the table; None if it does not exist."""
        try:
            return self.library.DeltaTable(self.uri, storage_options=self.storage_options)
        except self.library.exceptions.TableNotFoundError:
            return None
        except (OSError, self.library.exceptions.DeltaError) as error:
            raise self.failed("open", error) from error

    def failed(self, action: str, error: Exception) -> SinkError:
        """Return the error for a failed action, with the first line of its cause."""
        reason = str(error).partition("\n")[0]
        return SinkError(f"could not {action} {self}: {reason}; committed rows are kept, run it again after the repair")

    def locked_error(self) -> SinkLockedError:
        """Return the error for a commit that another writer has made first."""
        return SinkLockedError(
            f"could not commit to {self}: another sink with the app_id {self.app_id!r} has committed; run one at a time"
        )

    def open(self) -> State | None:
        """Open the table and return its position; None if it has none."""
        self.number, self.epoch, self.columns = 0, 0, None
        table = self.table()
        if table is None:
            self.version = None
            return None
        self.version = table.transaction_version(self.app_id)
        if self.version is None:
            return None
        found = self._record(table, self.version)
        check_restart(found, self.upsert, str(self))
        state = State.of(found)
        self.number, self.epoch = found["number"], state.epoch
        self.former_columns = from_text(found["columns"])
        if self.evolve == "fail":
            self.columns = self.former_columns
        self._clean(found.get("commit"))
        return state

    def position(self) -> State | None:
        """Return the position without changes; None if the table has none."""
        table = self.table()
        version = None if table is None else table.transaction_version(self.app_id)
        return None if version is None else State.of(self._record(table, version))

    def _record(self, table: Any, version: int) -> dict[str, Any]:
        """Return the record of a commit in the table's log.

        Raises:
            SinkError: The log no longer has it.
        """
        for limit in (_RECENT, None):
            for found in records(table, limit):
                if (found["app_id"], found["last_seq"]) == (self.app_id, version):
                    return found
        raise SinkError(
            f"could not resume {self}: it has a position of {self.app_id!r}, but the commit with its state is no longer"
            " in the log; give another app_id, and start_seq"
        )

    def files(self) -> Any:
        """Return the file system of the table's folder."""
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        return PyFileSystem(DeltaStorageHandler(self.uri, self.storage_options))

    def _clean(self, commit: str | None = None) -> None:
        """Remove corrupt rows of commits whose number another commit has.

        Those of later numbers stay until one has the number: another sink may be about to commit them.

        Args:
            commit: Id of the last commit. Default: None, unknown.
        """
        from pyarrow.fs import FileSelector

        if commit is None:
            return
        files = self.files()
        for info in files.get_file_info(FileSelector(self.corrupt, allow_not_found=True)):
            found = _CORRUPT.fullmatch(info.path.rpartition("/")[2])
            if found and int(found[1]) == self.number and found[2] != commit:
                files.delete_file(info.path)

    def close(self) -> None:
        """Do nothing: the target has no lock."""

    abandon = close

    def begin(self) -> DeltaCommit:
        """Start a commit."""
        if self.upsert is None or self._merge is None:
            return DeltaCommit(self)
        return self._merge(self, self.upsert)

    def compact(self) -> int:
        """Compact small files by the table's `optimize`; return the decrease of the number of files."""
        table = self.table()
        if table is None:
            return 0
        done = table.optimize.compact()
        return int(done["numFilesRemoved"]) - int(done["numFilesAdded"])


class DeltaCommit(BufferedRows):
    """Rows of one transaction."""

    def __init__(self, target: DeltaTarget) -> None:
        super().__init__(target)
        self._target = target
        self._id = uuid.uuid4().hex

    def finish(self, state: State) -> SinkResult:
        """Commit the rows and the position."""
        target = self._target
        if target.columns is None:
            target.columns = target.former_columns
        table = target.table() or self._created()
        if table.transaction_version(target.app_id) != target.version:
            raise target.locked_error()
        number = target.number + 1
        corrupt = self._write_corrupt(number)
        files = self._write(table, state, number)
        target.version, target.number, target.epoch = state.last_seq, number, state.epoch
        if corrupt:
            target._clean(self._id)
        return self._result(files, corrupt)

    def _created(self) -> Any:
        """Create the table without rows."""
        pa, target = needs_pyarrow("to_delta()"), self._target
        assert target.columns is not None
        for field in target.columns:
            if field.name in target.partition_by and pa.types.is_decimal(field.type):
                raise SinkSchemaError(
                    f"could not create {target}: column {field.name!r} is {field.type}, whose negative values deltalake"
                    " cannot read as partitions; leave it out of partition_by="
                )
            if (
                pa.types.is_temporal(field.type)
                and not pa.types.is_date(field.type)
                and not pa.types.is_timestamp(field.type)
            ):
                raise SinkSchemaError(
                    f"could not create {target}: column {field.name!r} is {field.type}, and Delta tables have no such"
                    " type; leave the field out of schema=, or archive to Parquet"
                )
        try:
            return target.library.DeltaTable.create(
                target.uri,
                target.columns,
                partition_by=target.partition_by or None,
                storage_options=target.storage_options,
            )
        except (OSError, target.library.exceptions.DeltaError) as error:
            raise target.failed("create the table", error) from error

    def _write(self, table: Any, state: State, number: int) -> int:
        """Write the transaction and return the number of files that it has added."""
        pa = needs_pyarrow("to_delta()")
        target, library = self._target, self._target.library
        assert target.columns is not None
        properties = self._properties(state, number)
        before = set(table.file_uris())
        try:
            if not self._batches:
                table.create_write_transaction([], "append", table.schema(), None, commit_properties=properties)
                return 0
            rows = pa.RecordBatchReader.from_batches(target.columns, self._batches)
            schema_mode = self._schema_mode(table)
            if schema_mode is not None:
                # A new column is null in the rows before.
                there = {field.name for field in table.schema().fields}
                fields = [field if field.name in there else field.with_nullable(True) for field in target.columns]
                rows = rows.cast(pa.schema(fields))
            library.write_deltalake(
                table,
                rows,
                mode="append",
                schema_mode=schema_mode,
                writer_properties=self._writer_properties(),
                commit_properties=properties,
            )
        except library.exceptions.SchemaMismatchError as error:
            raise SinkSchemaError(
                f"could not write to {target}: its columns differ: {str(error).partition(chr(10))[0]}; use another one"
            ) from error
        except (OSError, library.exceptions.DeltaError) as error:
            if is_overtaken(error):
                raise target.locked_error() from error
            raise target.failed("write to", error) from error
        table.update_incremental()
        return len(set(table.file_uris()) - before)

    def _properties(self, state: State, number: int) -> Any:
        """Return the position for the log."""
        target, library = self._target, self._target.library
        assert target.columns is not None
        record = {
            **state.as_dict(),
            "app_id": target.app_id,
            "number": number,
            "commit": self._id,
            "columns": to_text(target.columns),
        }
        if target.upsert is not None:
            record["merge"] = target.upsert.as_dict()
        return library.CommitProperties(
            custom_metadata={_STATE: json.dumps(record)},
            app_transactions=[library.Transaction(target.app_id, state.last_seq)],
        )

    def _writer_properties(self) -> Any:
        return self._target.library.WriterProperties(compression=self._target.compression.upper())

    def _schema_mode(self, table: Any) -> str | None:
        """Return the schema mode of a write that adds columns, after a comparison of the columns; else None.

        Raises:
            SinkSchemaError: A column has another type, or a required one is missing.
        """
        target = self._target
        if target.evolve == "fail":
            return None
        ours = {field.name: field for field in target.library.Schema.from_arrow(target.columns).fields}
        for there in table.schema().fields:
            if there.name not in ours and not there.nullable:
                raise SinkSchemaError(
                    f"could not write to {target}: its column {there.name!r} is required, and the rows do not have it;"
                    " add it to schema="
                )
            if there.name in ours and ours[there.name].type != there.type:
                raise SinkSchemaError(
                    f"could not write to {target}: its column {there.name!r} is {_type_text(there)}, and that of the"
                    f" rows is {_type_text(ours[there.name])}; give the old schema=, or another folder"
                )
        return "merge"

    def _write_corrupt(self, number: int) -> int:
        if not self._corrupt:
            return 0
        import pyarrow.parquet as pq

        pa = needs_pyarrow("to_delta()")
        table = pa.Table.from_batches(self._corrupt)
        path = f"{self._target.corrupt}/{number:020d}-{self._id}.parquet"
        try:
            pq.write_table(table, path, filesystem=self._target.files(), compression=self._target.compression)
        except OSError as error:
            raise self._target.failed("write to", error) from error
        return int(table.num_rows)

    def abort(self) -> None:
        """Discard the rows. The next commit removes corrupt rows, Delta's vacuum data files without a transaction."""
        self._discard()


def _type_text(field: Any) -> str:
    """Return the type of a Delta field as text: a name, or JSON of a nested type."""
    kind = json.loads(field.to_json())["type"]
    return kind if isinstance(kind, str) else json.dumps(kind)
