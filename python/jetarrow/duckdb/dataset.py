"""A table of DuckDB whose rows are read again by each query, with its columns and filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from jetarrow.archive_scan.expressions import names_in, query_of
from jetarrow.archive_scan.query import Query
from jetarrow.archive_scan.stream_table import StreamTable
from jetarrow.archive_scan.table import ArchiveTable


class QueriedDataset(ds.Dataset):  # type: ignore[misc]
    """A dataset of pyarrow, of which DuckDB uses `schema` and `scanner`.

    Timestamps with a zone are in microseconds, because DuckDB does not compare its type of nanoseconds with others.

    Args:
        table: The source of the rows.
    """

    # pyarrow's class has no constructor.
    def __init__(self, table: ArchiveTable | StreamTable) -> None:
        self._table = table
        self._shown = pa.schema([pa.field(field.name, _shown_type(field.type)) for field in table.columns])

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._shown

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **_: Any) -> QueriedScanner:
        """Return a scanner for one query.

        Args:
            columns: The columns of the result, in order; None for all.
            filter: An expression of pyarrow that selects rows.
        """
        names = self._shown.names if columns is None else columns
        return QueriedScanner(self._shown, names, lambda: self._batches(names, filter))

    def _batches(self, names: list[str], filter: Any) -> Iterator[pa.RecordBatch]:
        needed = tuple(dict.fromkeys([*names, *names_in(filter, self._shown)])) or ("seq",)
        query = query_of(filter, self._shown, needed)
        if query is None:
            return
        for batch in self._rows(query, filter):
            shown = self._in_microseconds(batch.select(needed))
            yield (shown if filter is None else shown.filter(filter)).select(names)

    def _rows(self, query: Query, filter: Any) -> Iterator[pa.RecordBatch]:
        if isinstance(self._table, StreamTable):
            yield from self._table.rows(query)
            return
        own = self._table.columns
        pushed = filter
        if any(own.field(name).type != self._shown.field(name).type for name in names_in(filter, self._shown)):
            # It compares microseconds, and the files have nanoseconds.
            pushed = None

        def of_dataset(dataset: ds.Dataset) -> list[pa.RecordBatch]:
            batches: list[pa.RecordBatch] = dataset.to_table(columns=list(query.columns), filter=pushed).to_batches()
            return batches

        for batches in self._table.rows(query, of_dataset, lambda batch: [batch]):
            yield from batches

    def _in_microseconds(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            column
            if column.type == self._shown.field(name).type
            else column.cast(self._shown.field(name).type, safe=False)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(
            columns, schema=pa.schema([self._shown.field(name) for name in batch.schema.names])
        )


class QueriedScanner:
    """The part of a scanner of pyarrow that DuckDB uses.

    Args:
        schema: Columns of the table.
        names: Columns of the result.
        batches: Reads the rows.
    """

    def __init__(self, schema: pa.Schema, names: list[str], batches: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self.projected_schema = pa.schema([schema.field(name) for name in names])
        self._batches = batches

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows, which are read while DuckDB requests them."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())


def _shown_type(kind: pa.DataType) -> pa.DataType:
    is_nanoseconds = pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit == "ns"
    return pa.timestamp("us", kind.tz) if is_nanoseconds else kind
