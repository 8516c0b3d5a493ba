"""Commits to an Iceberg table with keys: a snapshot that replaces the files of changed rows, with the position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import SinkError
from jetarrow.jetstream.sinks.iceberg_commit import DataFiles, IcebergCommit
from jetarrow.jetstream.sinks.iceberg_position import kept_records
from jetarrow.jetstream.sinks.iceberg_types import Fit, converted
from jetarrow.jetstream.sinks.upsert import DELETED, Upsert, changes

if TYPE_CHECKING:
    import pyarrow

# Columns of a comparison with the table.
_ROW, _NEW_SEQ = "_jetarrow_row", "_jetarrow_seq"


class IcebergMerge(IcebergCommit):
    """Rows and deletions of one transaction."""

    def __init__(self, target: Any, upsert: Upsert) -> None:
        super().__init__(target)
        self._upsert = upsert
        # Data files that the snapshot replaces.
        self._replaced: list[Any] = []

    def _write_files(self, table: Any, metadata: Any, fit: Fit, record: dict[str, Any]) -> None:
        """Write the new rows and the unchanged rows of replaced files, for the current snapshot of the table."""
        import pyarrow.compute as pc

        target, stream = self._target, record["stream"]
        former = target.record
        if former is None:
            self._check_first(metadata, stream)
        # After a rollback sequences of the table are those of other messages, and its rows are replaced.
        is_replaced = former is not None and former["epoch"] != record["epoch"]
        self._replaced, files = [], []
        rows = self._rows(fit)
        if rows.num_rows:
            rows = changes(rows, self._upsert, partial(self._find, table, metadata, stream, rows.schema))
        insert = rows.filter(pc.invert(rows[DELETED]))
        if rows.num_rows or is_replaced:
            keys = rows.select(list(self._upsert.key)).append_column(_NEW_SEQ, rows["seq"])
            for task in self._tasks(table, metadata, stream, None if is_replaced else rows):
                there = _read(table, metadata, task)
                in_stream = pc.fill_null(pc.equal(there["stream"], stream), False)
                if is_replaced:
                    removed = in_stream
                else:
                    removed, newer = self._compare(there, in_stream, keys)
                    insert = insert.filter(pc.invert(pc.is_in(insert["seq"], value_set=newer)))
                if pc.any(removed).as_py():
                    self._replaced.append(task.file)
                    kept = there.filter(pc.invert(removed))
                    files += self._write(table, metadata, kept) if kept.num_rows else []
        if insert.num_rows:
            columns = [name for name in insert.schema.names if name != DELETED]
            required = insert.select(columns).to_batches()
            files += self._write(table, metadata, converted(required, fit.schema, str(target)))
        self._written = DataFiles(metadata, files)

    def _producer(self, update_snapshot: Any, metadata: Any) -> Any:
        """Return the producer of the snapshot."""
        if not self._replaced:
            return super()._producer(update_snapshot, metadata)
        producer = update_snapshot.overwrite()
        for file in self._replaced:
            producer.delete_data_file(file)
        return producer

    def _rows(self, fit: Fit) -> pyarrow.Table:
        """Return the rows with the types of the table; a deletion has null in each column but the key."""
        pa = needs_pyarrow("to_iceberg()")
        optional = pa.schema([pa.field(field.name, field.type) for field in fit.schema])
        schema = optional.append(pa.field(DELETED, pa.bool_()))
        if not self._batches:
            return schema.empty_table()
        rows = converted([batch.select(optional.names) for batch in self._batches], optional, str(self._target))
        deleted = pa.chunked_array([batch.column(DELETED) for batch in self._batches])
        return rows.append_column(schema.field(DELETED), deleted)

    def _compare(
        self, there: pyarrow.Table, in_stream: pyarrow.ChunkedArray, keys: pyarrow.Table
    ) -> tuple[pyarrow.ChunkedArray, pyarrow.Array]:
        """Compare rows of the table with the changes.

        Args:
            there: Rows of the table.
            in_stream: Which of them are of the stream.
            keys: Keys of the changes, and their sequences.

        Returns:
            Which rows are replaced or deleted, and the sequences of changes that are older than the table's row.
        """
        import pyarrow.compute as pc

        pa = needs_pyarrow("to_iceberg()")
        names = list(self._upsert.key)
        types = pa.schema([keys.schema.field(name) for name in names])
        numbers = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), there.num_rows))
        ours = there.select(names).cast(types).append_column(_ROW, numbers).append_column("seq", there["seq"])
        both = ours.filter(in_stream).join(keys, keys=names, join_type="inner")
        is_newer = pc.greater(both[_NEW_SEQ], both["seq"])
        removed = pc.is_in(numbers, value_set=both.filter(is_newer)[_ROW].combine_chunks())
        return removed, both.filter(pc.invert(is_newer))[_NEW_SEQ].combine_chunks()

    def _tasks(self, table: Any, metadata: Any, stream: str, rows: pyarrow.Table | None) -> Iterator[Any]:
        """Yield the files that may have rows of the stream, with keys between the smallest and largest of the rows."""
        import pyarrow.compute as pc
        from pyiceberg import expressions

        # Their types demand names for arguments that are positional.
        terms: Any = expressions
        chosen = terms.EqualTo("stream", stream)
        for name in self._upsert.key:
            if rows is None:
                break
            ends = pc.min_max(rows[name])
            first, last = ends["min"].as_py(), ends["max"].as_py()
            # Bounds of other types are not exact in the statistics of each writer, and a dot is a path.
            if type(first) in (int, str) and "." not in name:
                chosen = terms.And(chosen, terms.GreaterThanOrEqual(name, first), terms.LessThanOrEqual(name, last))
        if metadata.current_snapshot_id is not None:
            yield from table.scan(row_filter=chosen).plan_files()

    def _find(
        self, table: Any, metadata: Any, stream: str, types: pyarrow.Schema, subjects: pyarrow.Array
    ) -> pyarrow.Table:
        """Return the rows of the table with some subjects, as `FindRows`."""
        import pyarrow.compute as pc

        names = list(dict.fromkeys((*self._upsert.key, "subject", "seq", "stream")))
        schema = needs_pyarrow("to_iceberg()").schema([types.field(name) for name in names])
        found = [schema.empty_table()]
        for task in self._tasks(table, metadata, stream, None):
            rows = _read(table, metadata, task, names).select(names).cast(schema)
            wanted = pc.and_(pc.is_in(rows["subject"], value_set=subjects), pc.equal(rows["stream"], stream))
            found.append(rows.filter(wanted))
        return needs_pyarrow("to_iceberg()").concat_tables(found)

    def _check_first(self, metadata: Any, stream: str) -> None:
        """Check that no other sink writes the stream to this table: deleted rows would return.

        Raises:
            SinkError: Another sink does.
        """
        for record in kept_records(metadata):
            if record["stream"] == stream and record["app_id"] != self._target.app_id:
                raise SinkError(
                    f"could not merge stream {stream!r} into {self._target}: the sink with the app_id"
                    f" {record['app_id']!r} writes it to this table; use that app_id, or another table"
                )


def _read(table: Any, metadata: Any, task: Any, names: Sequence[str] | None = None) -> pyarrow.Table:
    """Return the rows of a file, with all or some columns of the table's new schema."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    schema = metadata.schema() if names is None else metadata.schema().select(*names)
    scan = ArrowScan(metadata, table.io, schema, AlwaysTrue())
    found: pyarrow.Table = scan.to_table([task])
    return found
