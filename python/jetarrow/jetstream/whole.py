"""Tables of pyarrow in a form that the native import can read: arrow-rs 59 fails on two forms that Arrow allows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow


def whole(table: Any) -> Any:
    """The table, rewritten where it is pyarrow's and has such columns; anything else is as it is.

    What is rewritten: slices of structs in structs, whose offset arrow-rs applies twice, and dictionaries without a
    value, whose keys it refuses to read. Both are copied, batch by batch.

    Args:
        table: Arrow data of any library.
    """
    pa = sys.modules.get("pyarrow")
    if pa is None or not isinstance(table, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return table
    nested = any(map(_struct_in_struct, table.schema.types))
    if not nested and not any(map(pa.types.is_dictionary, table.schema.types)):
        return table
    batches = [table] if isinstance(table, pa.RecordBatch) else table
    if isinstance(table, pa.Table):
        batches = table.to_batches()

    def rewritten() -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            columns = [_with_a_value(pa, column) for column in batch.columns]
            batch = pa.RecordBatch.from_arrays(columns, schema=table.schema)
            yield _copied(pa, batch) if nested else batch

    if isinstance(table, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(table.schema, rewritten())
    return pa.Table.from_batches(rewritten(), table.schema)


def _struct_in_struct(kind: pyarrow.DataType) -> bool:
    from pyarrow.types import is_struct

    inner = [kind.field(number).type for number in range(kind.num_fields)]
    return (is_struct(kind) and any(map(is_struct, inner))) or any(map(_struct_in_struct, inner))


def _with_a_value(pa: Any, column: Any) -> Any:
    """A dictionary without values has only nulls; with one value, which none of them is, they can be read."""
    if not pa.types.is_dictionary(column.type) or len(column.dictionary):
        return column
    kind = column.type
    keys = pa.nulls(len(column), kind.index_type)
    return pa.DictionaryArray.from_arrays(keys, pa.nulls(1, kind.value_type), ordered=kind.ordered)


def _copied(pa: Any, batch: Any) -> Any:
    """The batch without offsets: what is written is just its rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()
