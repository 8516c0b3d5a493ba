"""Workaround for the import of pyarrow tables: arrow-rs 59 reads slices of nested structs wrongly."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow


def without_nested_offsets(table: Any) -> Any:
    """Copies a table of pyarrow batch by batch if it has nested structs; returns other data unchanged.

    The copy has no offsets. arrow-rs applies the offset of a slice twice to structs in structs and in fixed-size
    lists.

    Args:
        table: Arrow data of any library.
    """
    pa = sys.modules.get("pyarrow")
    if pa is None or not isinstance(table, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return table
    if not any(map(_has_inner_structs, table.schema.types)):
        return table
    batches = [table] if isinstance(table, pa.RecordBatch) else table
    if isinstance(table, pa.Table):
        batches = table.to_batches()
    copied = (_copied(pa, batch) for batch in batches)
    if isinstance(table, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(table.schema, copied)
    return pa.Table.from_batches(copied, table.schema)


def _has_inner_structs(kind: pyarrow.DataType) -> bool:
    """Whether a struct is nested in a type that applies its offset to its children."""
    from pyarrow.types import is_fixed_size_list, is_struct

    inner = [kind.field(number).type for number in range(kind.num_fields)]
    hands_down = is_struct(kind) or is_fixed_size_list(kind)
    return (hands_down and any(map(is_struct, inner))) or any(map(_has_inner_structs, inner))


def _copied(pa: Any, batch: Any) -> Any:
    """A copy of the batch without offsets, through an IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()
