"""Commits to a Delta table with keys: a merge of the last change of each key, with the position."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import SinkError, SinkSchemaError
from jetarrow.jetstream.sinks.delta import DeltaCommit, DeltaTarget, is_overtaken, records
from jetarrow.jetstream.sinks.state import State
from jetarrow.jetstream.sinks.upsert import DELETED, Upsert, changes

if TYPE_CHECKING:
    import pyarrow

# Maximum number of merges for one commit: another writer of the table may commit during each of them.
_ATTEMPTS = 10


class DeltaMerge(DeltaCommit):
    """Rows and deletions of one transaction."""

    def __init__(self, target: DeltaTarget, upsert: Upsert) -> None:
        super().__init__(target)
        self._upsert = upsert

    def _write(self, table: Any, state: State, number: int) -> int:
        """Merge the rows in a transaction and return the number of files that it has added.

        A merge fails if another writer has changed the rows that it read, and is repeated with the new ones.
        """
        target, library = self._target, self._target.library
        if target.version is None:
            self._check_first(table, state.stream)
        for attempt in range(_ATTEMPTS):
            before = set(table.file_uris())
            try:
                self._add_columns(table)
                self._merge(table, state, number)
                return len(set(table.file_uris()) - before)
            except library.exceptions.CommitFailedError as error:
                if is_overtaken(error):
                    raise target.locked_error() from error
                if attempt == _ATTEMPTS - 1:
                    raise target.failed(f"merge rows in {_ATTEMPTS} attempts into", error) from error
            except (OSError, library.exceptions.DeltaError) as error:
                raise target.failed("merge rows into", error) from error
            table = target.table()
            if table is None or table.transaction_version(target.app_id) != target.version:
                raise target.locked_error()
        raise AssertionError("unreachable")

    def _add_columns(self, table: Any) -> None:
        """Add columns that the table lacks, in a transaction of their own.

        A merge that adds columns writes null into the required columns of rows that it does not change (deltalake 1.6).
        A kill between the two transactions leaves columns of nulls.
        """
        target = self._target
        if self._schema_mode(table) is None:
            return
        there = {field.name for field in table.schema().fields}
        ours = target.library.Schema.from_arrow(target.columns).fields
        new = [target.library.Field(field.name, field.type, nullable=True) for field in ours if field.name not in there]
        if new:
            table.alter.add_columns(new)
            table.update_incremental()

    def _merge(self, table: Any, state: State, number: int) -> None:
        properties, version = self._properties(state, number), table.version()
        # After a rollback sequences of the table are those of other messages, and its rows are replaced.
        is_replaced = state.epoch != self._target.epoch
        if self._batches or is_replaced:
            rows = self._changes(table, state.stream)
            key = " AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in ("stream", *self._upsert.key))
            columns = {_quoted(name): f"s.{_quoted(name)}" for name in rows.schema.names if name != DELETED}
            newer = "" if is_replaced else " AND s.`seq` > t.`seq`"
            merge = (
                # Not streamed: files whose keys are outside the range of the rows' keys are not read.
                table.merge(
                    rows,
                    key,
                    source_alias="s",
                    target_alias="t",
                    streamed_exec=False,
                    writer_properties=self._writer_properties(),
                    commit_properties=properties,
                )
                .when_matched_delete(f"s.`{DELETED}`{newer}")
                .when_matched_update(columns, f"NOT s.`{DELETED}`{newer}")
                .when_not_matched_insert(columns, f"NOT s.`{DELETED}`")
            )
            if is_replaced:
                merge = merge.when_not_matched_by_source_delete(f"t.`stream` = {_literal(state.stream)}")
            merge.execute()
        if table.version() == version:
            # A merge that changes no row makes no commit.
            table.create_write_transaction([], "append", table.schema(), None, commit_properties=properties)
            table.update_incremental()

    def _changes(self, table: Any, stream: str) -> pyarrow.Table:
        """Return the last change of each key, in the types of the table."""
        pa = needs_pyarrow("to_delta()")
        columns = self._target.columns
        assert columns is not None
        types = self._types(table)
        schema = columns.append(pa.field(DELETED, pa.bool_()))
        given = pa.Table.from_batches([batch.select(schema.names) for batch in self._batches], schema)
        arrays = []
        for field in types:
            try:
                has_column = field.name in columns.names
                arrays.append(given[field.name].cast(field.type) if has_column else pa.nulls(len(given), field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SinkSchemaError(
                    f"could not merge rows into {self._target}: column {field.name!r} is {given[field.name].type}, and"
                    f" {field.type} in the table: {error}; give a schema= of the table's types"
                ) from error
        rows = pa.table([*arrays, given[DELETED]], schema=types.append(schema.field(DELETED)))
        return changes(rows, self._upsert, partial(self._find, table, stream, types))

    def _types(self, table: Any) -> pyarrow.Schema:
        """Return the columns of the table; a deletion has null in each column but the key.

        Raises:
            SinkSchemaError: The columns of rows and table differ, and `evolve` does not allow it.
        """
        pa = needs_pyarrow("to_delta()")
        target = self._target
        assert target.columns is not None
        types = pa.schema(table.schema().to_arrow())
        if target.evolve == "fail" and (wrong := set(target.columns.names) ^ set(types.names)):
            raise SinkSchemaError(
                f"could not merge rows into {target}: columns that only one of the rows and the table has:"
                f' {", ".join(sorted(wrong))}; give the table\'s schema=, evolve="add", or another table'
            )
        return pa.schema([pa.field(field.name, field.type) for field in types])

    def _find(self, table: Any, stream: str, types: pyarrow.Schema, subjects: pyarrow.Array) -> pyarrow.Table:
        """Return the rows of the table with some subjects, as `FindRows`."""
        import pyarrow.compute as pc

        pa = needs_pyarrow("to_delta()")
        names = list(dict.fromkeys((*self._upsert.key, "subject", "seq")))
        columns = ", ".join('"{}"'.format(name.replace('"', '""')) for name in names)
        query = f"SELECT {columns} FROM t WHERE stream = {_literal(stream)}"
        schema = pa.schema([types.field(name) for name in names])
        found = []
        for batch in pa.RecordBatchReader.from_stream(
            self._target.library.QueryBuilder().register("t", table).execute(query)
        ):
            rows = batch.cast(schema)
            found.append(rows.filter(pc.is_in(rows["subject"], value_set=subjects)))
        return pa.Table.from_batches(found, schema)

    def _check_first(self, table: Any, stream: str) -> None:
        """Check that no other sink writes the stream to this table: deleted rows would return.

        Raises:
            SinkError: Another sink does.
        """
        for record in records(table):
            if record["stream"] == stream and record["app_id"] != self._target.app_id:
                raise SinkError(
                    f"could not merge stream {stream!r} into {self._target}: the sink with the app_id"
                    f" {record['app_id']!r} writes it to this table; use that app_id, or another table"
                )


def _quoted(name: str) -> str:
    return f"`{name}`"


def _literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
