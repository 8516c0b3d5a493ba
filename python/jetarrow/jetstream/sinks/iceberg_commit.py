"""Commit of an Iceberg sink: files are written once, the transaction is repeated until its outcome is known."""

from __future__ import annotations

import io
import random
import time
import uuid
from typing import TYPE_CHECKING, Any

from jetarrow.core.errors import UnsupportedError
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import SinkError, SinkSchemaError
from jetarrow.jetstream.sinks.buffered import BufferedRows
from jetarrow.jetstream.sinks.iceberg_position import find_record, has_commit, record_entries
from jetarrow.jetstream.sinks.iceberg_types import Fit, converted, stored_schema
from jetarrow.jetstream.sinks.rows import to_text
from jetarrow.jetstream.sinks.state import SinkResult, State

if TYPE_CHECKING:
    from jetarrow.jetstream.sinks.iceberg import IcebergTarget

# Attempts after conflicts with other writers of the table, and after other failures.
_MAX_CONFLICTS = 20
_MAX_FAILURES = 3
# Wait after the first conflict and longest wait, in seconds; it doubles each time.
_FIRST_WAIT = 0.05
_LONGEST_WAIT = 5.0


class _Conflict(Exception):
    """Another writer has changed the table since it was loaded."""


class _SingleAttempt:
    """Catalog whose conflicts pyiceberg does not retry.

    Its own retry would rebase the rows onto a commit of another sink with the same position, and remove files of a
    commit that succeeded although its response was lost.
    """

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(self, *args: Any, **options: Any) -> Any:
        """Commit as the catalog, with another error for a conflict."""
        from pyiceberg.exceptions import CommitFailedException

        try:
            return self._catalog.commit_table(*args, **options)
        except CommitFailedException as error:
            raise _Conflict(str(error)) from error


def _without_history(metadata: Any) -> Any:
    """Return metadata without the snapshots that a commit does not need.

    pyiceberg copies the metadata about 15 times per commit. The catalog applies the commit to its own.
    """
    needed = {ref.snapshot_id for ref in metadata.refs.values()} | {metadata.current_snapshot_id}
    snapshots = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in needed]
    log = [entry for entry in metadata.snapshot_log if entry.snapshot_id in needed]
    return metadata.model_copy(update={"snapshots": snapshots, "snapshot_log": log})


class DataFiles:
    """Data files of a commit, with the layout that they were written for."""

    def __init__(self, metadata: Any, files: list[Any]) -> None:
        self.files = files
        self._layout = self._of(metadata)

    def fits(self, metadata: Any) -> bool:
        """Return whether a table still has the layout of the files."""
        return self._layout == self._of(metadata)

    @staticmethod
    def _of(metadata: Any) -> tuple[Any, ...]:
        return metadata.table_uuid, metadata.location, metadata.schema(), metadata.spec()


class IcebergCommit(BufferedRows):
    """Rows of one transaction."""

    def __init__(self, target: IcebergTarget) -> None:
        super().__init__(target)
        self._target = target
        self._written: DataFiles | None = None

    def finish(self, state: State) -> SinkResult:
        """Commit the rows and the position.

        Raises:
            SinkLockedError: Another sink with the same `app_id` has committed.
            SinkSchemaError: The table has other columns.
            SinkError: The catalog or the storage returned an error.
        """
        target = self._target
        assert target.columns is not None
        columns = stored_schema(target.columns, str(target))
        commit, number = uuid.uuid4().hex, target.number + 1
        table = target.table()
        if table is None:
            if target.record is not None:
                raise target.failed("commit to", RuntimeError("the table was removed since the last commit"))
            table = target.create()
        self._check_columns(table, columns)
        corrupt, count = self._write_corrupt(table, number, commit)
        record = {
            **state.as_dict(),
            "app_id": target.app_id,
            "number": number,
            "commit": commit,
            "columns": to_text(target.columns),
            "corrupt": corrupt,
        }
        if target.upsert is not None:
            record["merge"] = target.upsert.as_dict()
        table = self._commit(table, columns, record)
        target.committed(table, record)
        files = 0 if self._written is None else len(self._written.files)
        return self._result(files, count)

    def _check_columns(self, table: Any, columns: Any) -> Fit:
        """Compare the columns of the rows with those of the table.

        Raises:
            SinkSchemaError: They differ, and `evolve` does not allow it.
        """
        target = self._target
        fit = Fit(columns, table.schema().as_arrow(), str(target))
        if fit.new and target.evolve == "fail":
            raise SinkSchemaError(
                f'could not write to {target}: it has no columns {", ".join(fit.new)}; give evolve="add" to add them,'
                " or leave them out of schema="
            )
        return fit

    def _commit(self, table: Any, columns: Any, record: dict[str, Any]) -> Any:
        """Send the transaction until it succeeded, or its position is no longer that of the sink; return the table."""
        target = self._target
        conflicts = failures = 0
        while True:
            # Also after an unknown outcome: it is looked up before anything is sent again.
            if (conflicts or failures) and has_commit(table.metadata, record["commit"]):
                return table
            self._check_position(table, record)
            try:
                self._send(table, columns, record)
                return table
            except (SinkError, UnsupportedError):
                raise
            except _Conflict as error:
                conflicts += 1
                last: Exception = error
            except Exception as error:
                failures += 1
                last = error
            if conflicts < _MAX_CONFLICTS and failures < _MAX_FAILURES:
                wait = min(_FIRST_WAIT * 2 ** (conflicts + failures), _LONGEST_WAIT)
                time.sleep(wait * random.uniform(0.5, 1))
            table = target.table()
            if table is None:
                raise target.failed("commit to", RuntimeError("the table was removed")) from last
            exhausted = conflicts >= _MAX_CONFLICTS or failures >= _MAX_FAILURES
            if exhausted and not has_commit(table.metadata, record["commit"]):
                raise target.failed("commit to", last) from last

    def _check_position(self, table: Any, record: dict[str, Any]) -> None:
        """Check that the position in the history of the table is that of the sink's last commit.

        Raises:
            SinkLockedError: Another sink has committed.
        """
        target = self._target
        found = find_record(table.metadata, target.app_id)
        if (found or {}).get("commit") == (target.record or {}).get("commit"):
            return
        # No attempt can succeed any more, because each required a snapshot that is not the current one.
        if record["corrupt"] is not None:
            target.remove(table, record["corrupt"])
        raise target.locked_error()

    def _send(self, table: Any, columns: Any, record: dict[str, Any]) -> None:
        """Write the files that are missing, and send the transaction once."""
        from pyiceberg.table import Table

        target = self._target
        fit = self._check_columns(table, columns)
        once = Table(
            table.name(),
            _without_history(table.metadata),
            table.metadata_location,
            table.io,
            _SingleAttempt(table.catalog),  # type: ignore[arg-type]
            table.config,
        )
        transaction = once.transaction()
        if fit.new:
            with transaction.update_schema() as update:
                update.union_by_name(fit.schema, format_version=table.metadata.format_version)
        metadata = transaction.table_metadata
        self._write_files(table, metadata, fit, record)
        record |= {"sequence_number": metadata.next_sequence_number(), "snapshot_id": None}
        summary, _ = record_entries(record, target.app_id)
        # The summary is complete once the snapshot has its id.
        update_snapshot = transaction.update_snapshot(snapshot_properties=summary)
        append = self._producer(update_snapshot, metadata)
        record["snapshot_id"] = append.snapshot_id
        entries, properties = record_entries(record, target.app_id)
        append.snapshot_properties = entries
        for file in self._written.files if self._written is not None else ():
            append.append_data_file(file)
        append.commit()
        transaction.set_properties(properties)
        transaction.commit_transaction()

    def _write_files(self, table: Any, metadata: Any, fit: Fit, record: dict[str, Any]) -> None:
        """Write the data files of the commit, unless an earlier attempt has written them."""
        if self._batches and (self._written is None or not self._written.fits(metadata)):
            rows = converted(self._batches, fit.schema, str(self._target))
            self._written = DataFiles(metadata, self._write(table, metadata, rows))

    def _producer(self, update_snapshot: Any, metadata: Any) -> Any:
        """Return the producer of the snapshot."""
        from pyiceberg.table import TableProperties
        from pyiceberg.utils.properties import property_as_bool

        merges = property_as_bool(
            metadata.properties,
            TableProperties.MANIFEST_MERGE_ENABLED,
            TableProperties.MANIFEST_MERGE_ENABLED_DEFAULT,
        )
        return update_snapshot.merge_append() if merges else update_snapshot.fast_append()

    def _write(self, table: Any, metadata: Any, rows: Any) -> list[Any]:
        """Write rows to data files, in the partitions of the table."""
        from pyiceberg.exceptions import NotInstalledError
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        target = self._target
        try:
            files = list(_dataframe_to_data_files(metadata, rows, table.io))
        except NotInstalledError as error:
            message = (
                f"could not write to {target}: transforms of its partitions need pyiceberg-core: pip install"
                ' "pyiceberg[pyiceberg-core]"'
            )
            raise UnsupportedError("to_iceberg()", "pyiceberg-core", "no pyiceberg-core", message=message) from error
        written = sum(file.record_count for file in files)
        if written != rows.num_rows:
            # pyiceberg selects the rows of a partition by equality of values, and NaN equals none.
            raise SinkError(
                f"could not write to {target}: {written} of {rows.num_rows} rows are in a partition; a partition column"
                " must not have NaN"
            )
        return files

    def _write_corrupt(self, table: Any, number: int, commit: str) -> tuple[str | None, int]:
        """Write the undecodable rows and return their path and number."""
        if not self._corrupt:
            return None, 0
        import pyarrow.parquet as pq

        rows = needs_pyarrow("to_iceberg()").Table.from_batches(self._corrupt)
        path = self._target.corrupt_path(table, number, commit)
        file = io.BytesIO()
        pq.write_table(rows, file, compression="zstd")
        try:
            with table.io.new_output(path).create(overwrite=True) as stream:
                stream.write(file.getvalue())
        except Exception as error:
            raise self._target.failed("write to", error) from error
        return path, int(rows.num_rows)

    def abort(self) -> None:
        """Discard the rows. Files without a snapshot are removed by the maintenance of the table."""
        self._discard()
        self._written = None
