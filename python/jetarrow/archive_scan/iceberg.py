"""Snapshot of an Iceberg table, as its table object has loaded it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds

from jetarrow.archive_scan.expressions import names_in
from jetarrow.archive_scan.snapshot import PART_ROWS, check_append
from jetarrow.jetstream.errors import SinkError
from jetarrow.jetstream.sinks.iceberg_position import find_record
from jetarrow.jetstream.sinks.iceberg_types import stored_schema
from jetarrow.jetstream.sinks.state import State

if TYPE_CHECKING:
    from pyiceberg.table import Table

_T = TypeVar("_T")
# Start of the key of a sink's record in the properties of the table.
_PROPERTY = "jetarrow."


class IcebergSnapshot:
    """An Iceberg table at one version, as `Snapshot`. Rows of other streams in the table are left out."""

    escaped = True

    def __init__(self, table: Table, record: dict[str, Any]) -> None:
        from pyiceberg.transforms import IdentityTransform

        self._table = table
        self._snapshot_id = table.metadata.current_snapshot_id
        self.state = State.of(record)
        schema = table.schema()
        self.columns: pa.Schema = stored_schema(schema.as_arrow(), _name(table)).remove_metadata()
        self.partition_by: list[str] = [
            str(schema.find_column_name(field.source_id))
            for field in table.spec().fields
            if isinstance(field.transform, IdentityTransform)
        ]

    @classmethod
    def of(cls, table: Table, stream: str, app_id: str | None) -> IcebergSnapshot:
        """Return a snapshot of the version that a table object has loaded.

        Raises:
            SinkError: It has no position of the stream.
        """
        name = _name(table)
        app_id = app_id or _app_id(table, stream)
        record = find_record(table.metadata, app_id)
        if record is None:
            raise SinkError(f"could not read {name} as an archive: it has no position of {app_id!r}; check app_id=")
        check_append(record, name)
        return cls(table, record)

    def visit(self, first: int | None, end: int | None, visitor: Callable[[ds.Dataset], _T]) -> Iterator[_T]:
        """Yield results by parts, as `Snapshot.visit`."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.expressions.parser import parse

        texts = [f"seq {sign} {bound}" for sign, bound in ((">=", first), ("<", end)) if bound is not None]
        bounds = parse(" and ".join(texts)) if texts else AlwaysTrue()
        part: list[Any] = []
        rows = 0
        try:
            tasks = list(self._table.scan(bounds, snapshot_id=self._snapshot_id).plan_files())
        except Exception as error:
            raise self._failed(error) from error
        for task in tasks:
            if part and rows + task.file.record_count > PART_ROWS:
                yield self._visited(part, bounds, visitor)
                part, rows = [], 0
            part.append(task)
            rows += task.file.record_count
        if part:
            yield self._visited(part, bounds, visitor)

    def _visited(self, tasks: list[Any], bounds: Any, visitor: Callable[[ds.Dataset], _T]) -> _T:
        condition = ds.field("stream") == self.state.stream
        if not self.state.epoch:
            # Epochs that were rolled back may have rows with sequences after the position.
            condition &= ds.field("seq") <= self.state.last_seq
        try:
            return visitor(_Part(self._table, self.columns, tasks, bounds, condition))
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> SinkError:
        reason = str(error).partition("\n")[0]
        return SinkError(f"could not read {_name(self._table)}: {reason}; load the table and read it again")


class _Part(ds.Dataset):  # type: ignore[misc]
    """Files of a table as a dataset, of which `schema`, `scanner` and `filter` are used."""

    # pyarrow's class has no constructor.
    def __init__(self, table: Table, columns: pa.Schema, tasks: list[Any], bounds: Any, condition: Any) -> None:
        self._table, self._columns, self._tasks = table, columns, tasks
        self._bounds, self._condition = bounds, condition

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._columns

    def filter(self, expression: Any) -> _Part:
        """Return the rows that meet a condition too."""
        return _Part(self._table, self._columns, self._tasks, self._bounds, self._condition & expression)

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **options: Any) -> ds.Scanner:
        """Return a scanner of the needed columns."""
        from pyiceberg.io.pyarrow import ArrowScan

        names = self._columns.names if columns is None else list(columns)
        condition = self._condition if filter is None else self._condition & filter
        needed = [name for name in self._columns.names if name in {*names, *names_in(condition, self._columns)}]
        projected = self._table.schema().select(*needed)
        rows = ArrowScan(self._table.metadata, self._table.io, projected, self._bounds).to_table(self._tasks)
        rows = rows.select(needed).cast(pa.schema([self._columns.field(name) for name in needed]))
        return ds.dataset(rows).scanner(columns=names, filter=condition, **options)


def _name(table: Table) -> str:
    return ".".join(table.name())


def _app_id(table: Table, stream: str) -> str:
    """Return the name of the only sink of a stream in the table."""
    default = f"jetarrow:{stream}"
    properties = table.metadata.properties
    if f"{_PROPERTY}{default}" in properties:
        return default
    records = [json.loads(text) for name, text in properties.items() if name.startswith(_PROPERTY)]
    found = sorted({record["app_id"] for record in records if record["stream"] == stream})
    if len(found) == 1:
        return str(found[0])
    if found:
        names = ", ".join(map(repr, found))
        raise SinkError(
            f"could not read {_name(table)}: several sinks of stream {stream!r} have written to it: {names};"
            " give app_id="
        )
    raise SinkError(
        f"could not read {_name(table)} as the archive of stream {stream!r}: it has no position of the stream; check"
        " the table, or give app_id="
    )
