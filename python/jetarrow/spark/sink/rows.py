"""Rows of a write: their columns, and the split of a task's batches into calls of `publish_batch`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    DateType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

from jetarrow.spark.options.choices import ReservedHeaders
from jetarrow.spark.reserved_headers import entries, resembles_reserved, without

_STRINGS = (StringType, VarcharType, CharType)
# Types of the column of `atomicBy`.
_GROUP_TYPES = (*_STRINGS, BinaryType, IntegralType, DateType, TimestampType)
_COLUMNS = {
    "data": "binary or string",
    "subject": "string",
    "headers": "map<string,string> or map<string,array<string>>, or with binary values",
    "msg_id": "string",
}
# A call keeps 9 bytes per row until it ends. Between two calls the window drains, which costs milliseconds.
_CALL_ROWS = 65_536
_CALL_BYTES = 128 << 20
# Spark's batches have up to spark.sql.execution.arrow.maxRecordsPerBatch rows of any size, so they are split.
_PIECE_BYTES = 2 << 20


def check_columns(schema: StructType, *, subject: str | None, atomic_by: str | None = None) -> None:
    """Check the columns of a DataFrame that is to be written.

    Args:
        schema: Schema of the DataFrame.
        subject: Value of option `subject`.
        atomic_by: Value of option `atomicBy`. Default: none.

    Raises:
        ValueError: A column is unknown, has another type, occurs twice, or is missing.
    """
    own = StructType([field for field in schema if field.name != atomic_by or field.name in _COLUMNS])
    problem = next(_column_problems(own), None)
    if problem is None and atomic_by is not None:
        problem = _group_problem(schema, atomic_by)
    if problem is None and "data" not in schema.names:
        problem = "there is no column 'data'"
    if problem is None and subject is None and "subject" not in schema.names:
        problem = "there is neither a column 'subject' nor the option 'subject'"
    if problem is not None:
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        raise ValueError(
            f"jetstream: {problem}; a write takes the columns {columns}; data is required, the rest is optional"
        )


def _group_problem(schema: StructType, name: str) -> str | None:
    if schema.names.count(name) != 1:
        return f"there is {'more than one' if name in schema.names else 'no'} column {name!r} for option 'atomicBy'"
    kind = schema[name].dataType
    if not isinstance(kind, _GROUP_TYPES):
        return f"column {name!r} of atomicBy is {kind.simpleString()}, not string, binary, integer, date or timestamp"
    return None


def _column_problems(schema: StructType) -> Iterator[str]:
    """Yield problems of the columns of a DataFrame."""
    for field in schema:
        if field.name not in _COLUMNS:
            yield f"column {field.name!r} cannot be written"
        elif schema.names.count(field.name) > 1:
            yield f"column {field.name!r} occurs twice"
        elif not _fits(field.name, field.dataType):
            yield f"column {field.name!r} is {field.dataType.simpleString()}, not {_COLUMNS[field.name]}"


def _fits(name: str, kind: DataType) -> bool:
    if name == "data":
        return isinstance(kind, (BinaryType, *_STRINGS))
    if name != "headers":
        return isinstance(kind, _STRINGS)
    if not isinstance(kind, MapType) or not isinstance(kind.keyType, _STRINGS):
        return False
    value = kind.valueType
    return isinstance(value.elementType if isinstance(value, ArrayType) else value, (BinaryType, *_STRINGS))


class PublishCalls:
    """Splits the batches of a task into calls of bounded size, so that the memory of a task is bounded.

    Args:
        batches: The batches of the task.
        prepare: Converts a slice of a batch to the rows to publish, right before they are published.

        must_end: Returns whether the present call ends early. Default: it does not.

    Attributes:
        error: The error of reading the batches, which Arrow's reader wraps in another one. Else None.
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        prepare: Callable[[pa.RecordBatch], pa.RecordBatch],
        *,
        must_end: Callable[[], bool] = lambda: False,
    ) -> None:
        self._batches = batches
        self._prepare = prepare
        self._must_end = must_end
        self._rest: pa.RecordBatch | None = None
        self._piece_rows = 1
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[pa.RecordBatchReader]:
        """Yield a reader for each call, which must be read to its end before the next one."""
        while (first := self._piece(_CALL_ROWS)) is not None:
            yield pa.RecordBatchReader.from_batches(first.schema, self._call(first))

    def _call(self, piece: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """Yield the slices of one call."""
        rows = size = 0
        try:
            while piece is not None:
                yield piece
                rows, size = rows + piece.num_rows, size + piece.nbytes
                if rows >= _CALL_ROWS or size >= _CALL_BYTES or self._must_end():
                    return
                piece = self._piece(_CALL_ROWS - rows)
        except Exception as error:
            self.error = error
            raise

    def _piece(self, most: int) -> pa.RecordBatch | None:
        """Return the next slice of at most `most` rows and about 2 MiB; None at the end."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return None
            row_bytes = max(1, self._rest.nbytes // max(1, self._rest.num_rows))
            self._piece_rows = max(1, _PIECE_BYTES // row_bytes)
        rows = min(most, self._piece_rows)
        piece, self._rest = self._rest.slice(0, rows), self._rest.slice(rows)
        return self._prepare(piece)


def checked_headers(batch: pa.RecordBatch, handling: ReservedHeaders, *, first_row: int) -> pa.RecordBatch:
    """Return rows with headers of text, and without reserved ones, which would change where or whether a row is stored.

    Args:
        batch: Rows, with or without a column `headers`.
        handling: Whether such a header is removed or an error.
        first_row: Number of the batch's first row, for the message.

    Raises:
        ValueError: A row has such a header, or a binary value that is not UTF-8.
    """
    at = batch.schema.get_field_index("headers")
    if at < 0:
        return batch
    headers = _with_text(batch.column(at), first_row=first_row)
    batch = batch.set_column(at, "headers", headers)
    if headers.null_count == len(headers):
        return batch
    if handling == ReservedHeaders.DROP:
        return batch.set_column(at, "headers", without(headers, any_spelling=True))
    names, _, start = entries(headers)
    entry = pc.index(resembles_reserved(names), True).as_py()
    if entry < 0:
        return batch
    row = pc.sum(pc.less_equal(headers.offsets, start + entry)).as_py() - 1
    raise ValueError(
        f"jetstream: could not publish row {first_row + row}: header {names[entry].as_py()!r} is reserved; use column"
        " 'msg_id' for ids and option 'stream' for the stream, or reservedHeaders=drop to copy rows without them"
    )


def _with_text(headers: pa.MapArray, *, first_row: int) -> pa.MapArray:
    """Return headers with text values: the same bytes, which must be UTF-8."""
    item = headers.type.item_type
    value = item.value_type if pa.types.is_list(item) else item
    if not (pa.types.is_binary(value) or pa.types.is_large_binary(value)):
        return headers
    kind = pa.map_(headers.type.key_type, pa.list_(pa.string()) if pa.types.is_list(item) else pa.string())
    try:
        return _cast(headers, 0, len(headers), kind)
    except pa.ArrowInvalid:
        row = next(row for row in range(len(headers)) if not _is_text(headers, row, kind))
        raise ValueError(
            f"jetstream: could not publish row {first_row + row}: the value of a header is not UTF-8; encode it, for"
            " example by base64()"
        ) from None


def _cast(headers: pa.MapArray, start: int, end: int, kind: pa.MapType) -> pa.MapArray:
    # A slice has the values of the whole column, and all of them would be checked.
    return headers.take(pa.array(range(start, end), pa.int64())).cast(kind)


def _is_text(headers: pa.MapArray, row: int, kind: pa.MapType) -> bool:
    try:
        _cast(headers, row, row + 1, kind)
    except pa.ArrowInvalid:
        return False
    return True
