"""The rows of a write: their columns, and how the Arrow batches of a task become calls of `publish_batch`."""

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

_STRINGS = (StringType, VarcharType, CharType)
# What says which group a row is of.
_GROUP_TYPES = (*_STRINGS, BinaryType, IntegralType, DateType, TimestampType)
_COLUMNS = {
    "data": "binary or string",
    "subject": "string",
    "headers": "map<string,string> or map<string,array<string>>",
    "msg_id": "string",
}
# Set by us or by the server's protocols: from a column they would undo what the options promise.
_RESERVED = r"(?i)^nats-(msg-id$|expected-|batch-)"
# One call keeps 9 bytes a row until it ends; between two calls the window runs empty, which takes milliseconds.
_CALL_ROWS = 65_536
_CALL_BYTES = 128 << 20
# Spark's batches have as many rows as spark.sql.execution.arrow.maxRecordsPerBatch says, of any size.
_PIECE_BYTES = 2 << 20
_ATOMIC_ROWS = 1_000  # the server's limit


def check_columns(schema: StructType, *, subject: str | None, atomic_by: str | None = None) -> None:
    """Check the columns of a DataFrame that is to be written.

    Args:
        schema: The DataFrame's.
        subject: The option of this name.
        atomic_by: The column that says which group a row is of. Default: none.

    Raises:
        ValueError: A column has no meaning here, has another type, is there twice, or is missing.
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
    """What is wrong with columns of a DataFrame that is to be written."""
    for field in schema:
        if field.name not in _COLUMNS:
            yield f"column {field.name!r} cannot be written"
        elif schema.names.count(field.name) > 1:
            yield f"column {field.name!r} is there twice"
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
    return isinstance(value.elementType if isinstance(value, ArrayType) else value, _STRINGS)


class PublishCalls:
    """Cuts the batches of a task into calls: what one call leaves behind in memory is bounded, whatever a task writes.

    Args:
        batches: What Spark gives a task.
        prepare: Makes of a piece of a batch what is published; it is called just before.
        atomic: Whether the calls are units of at most 1000 rows.

    Attributes:
        error: What reading the batches has raised; the reader makes another error of it. Else None.
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        prepare: Callable[[pa.RecordBatch], pa.RecordBatch],
        *,
        atomic: bool,
    ) -> None:
        self._batches = batches
        self._prepare = prepare
        self._call_rows = _ATOMIC_ROWS if atomic else _CALL_ROWS
        self._rest: pa.RecordBatch | None = None
        self._piece_rows = 1
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[pa.RecordBatchReader]:
        """Yield a reader for each call, to be read to its end before the next one is asked for."""
        while (first := self._piece(self._call_rows)) is not None:
            yield pa.RecordBatchReader.from_batches(first.schema, self._call(first))

    def _call(self, piece: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """The pieces of one call."""
        rows = size = 0
        try:
            while piece is not None:
                yield piece
                rows, size = rows + piece.num_rows, size + piece.nbytes
                if rows >= self._call_rows or size >= _CALL_BYTES:
                    return
                piece = self._piece(self._call_rows - rows)
        except Exception as error:
            self.error = error
            raise

    def _piece(self, most: int) -> pa.RecordBatch | None:
        """The next rows, at most `most` and not too large together; None at the end."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return None
            row_bytes = max(1, self._rest.nbytes // max(1, self._rest.num_rows))
            self._piece_rows = max(1, _PIECE_BYTES // row_bytes)
        rows = min(most, self._piece_rows)
        piece, self._rest = self._rest.slice(0, rows), self._rest.slice(rows)
        return self._prepare(piece)


def check_headers(batch: pa.RecordBatch, *, first_row: int) -> None:
    """Refuse headers that would change who stores a row, or whether.

    Args:
        batch: Rows, with a column `headers`.
        first_row: Number of the batch's first row, for the message.

    Raises:
        ValueError: A row has such a header.
    """
    maps = batch.column("headers")
    if maps.null_count == len(maps):
        return
    # A slice has the keys of its whole batch.
    start, end = maps.offsets[0].as_py(), maps.offsets[len(maps)].as_py()
    keys = maps.keys.slice(start, end - start)
    entry = pc.index(pc.match_substring_regex(keys, _RESERVED), True).as_py()
    if entry < 0:
        return
    row = pc.sum(pc.less_equal(maps.offsets, start + entry)).as_py() - 1
    raise ValueError(
        f"jetstream: row {first_row + row} has the header {keys[entry].as_py()!r}, which cannot be written: ids belong"
        " into the column 'msg_id', the stream into the option 'stream'"
    )
