"""Tables of pyarrow in a form that the native import can read: arrow-rs 59 fails on one form that Arrow allows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow


def without_nested_offsets(table: Any) -> Any:
    """The table, copied batch by batch where it is pyarrow's and has such columns; anything else is as it is.

    What is copied: slices of structs in structs or in lists of one length, whose offset arrow-rs applies twice.

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
    """Whether there is a struct in what hands its offset down."""
    from pyarrow.types import is_fixed_size_list, is_struct

    inner = [kind.field(number).type for number in range(kind.num_fields)]
    hands_down = is_struct(kind) or is_fixed_size_list(kind)
    return (hands_down and any(map(is_struct, inner))) or any(map(_has_inner_structs, inner))


def _copied(pa: Any, batch: Any) -> Any:
    """The batch without offsets: what is written is just its rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()
