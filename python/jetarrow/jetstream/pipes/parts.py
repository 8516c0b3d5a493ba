"""Parts of a step's messages: each is one atomic batch, whose last message is the position."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream.arrow import needs_pyarrow

if TYPE_CHECKING:
    import pyarrow

# Messages of a part: an atomic batch has 1,000 at most (ADR-50), and one is the position.
PART_ROWS = 999
# Bytes of a part: the server holds a batch in memory until its last message.
PART_BYTES = 8 * 1024 * 1024
# Bytes of a digest.
_DIGEST = 6


def split(messages: pyarrow.Table) -> list[pyarrow.Table]:
    """Return the parts of a step's messages; one without messages if there are none.

    The bounds depend on the messages only, so that equal messages have equal parts.

    Args:
        messages: Table with the columns `subject`, `data` and `headers`.
    """
    import pyarrow.compute as pc

    parts = []
    for first in range(0, messages.num_rows, PART_ROWS):
        part = messages.slice(first, PART_ROWS)
        sizes = pc.binary_length(part["data"])
        if (pc.sum(sizes).as_py() or 0) <= PART_BYTES:
            parts.append(part)
            continue
        begin = size = 0
        for row, own in enumerate(sizes.to_pylist()):
            if row > begin and size + own > PART_BYTES:
                parts.append(part.slice(begin, row - begin))
                begin, size = row, 0
            size += own
        parts.append(part.slice(begin))
    return parts or [messages]


def digest(part: pyarrow.Table) -> str:
    """Return a hash of a part's messages."""
    found = hashlib.blake2b(digest_size=_DIGEST)
    for column in ("subject", "data", "headers"):
        _add(found, part[column].combine_chunks())
    return found.hexdigest()


def _add(found: Any, array: Any) -> None:
    """Add the values of an array to a hash, whatever their place in memory is."""
    import pyarrow.compute as pc

    pa = needs_pyarrow("a pipe")
    kind = array.type
    if pa.types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        kind = array.type
    if array.null_count == len(array):
        found.update(struct.pack("<q", -len(array)))
    elif pa.types.is_struct(kind):
        for field in array.flatten():
            _add(found, field)
    elif pa.types.is_list(kind):
        _add_lengths(found, pc.list_value_length(array))
        _add(found, array.flatten())
    else:
        lengths = pc.binary_length(array)
        _add_lengths(found, lengths)
        if lengths.null_count:
            array = array.drop_null()
        _, offsets, values = array.buffers()
        first, last = struct.unpack_from("<i", offsets, array.offset * 4)[0], 0
        last = struct.unpack_from("<i", offsets, (array.offset + len(array)) * 4)[0]
        if values is not None:
            found.update(memoryview(values)[first:last])


def _add_lengths(found: Any, lengths: Any) -> None:
    """Add lengths, -1 for null, to a hash."""
    import pyarrow.compute as pc

    # An array that was computed begins at its buffer's first byte.
    filled = pc.add(pc.fill_null(lengths, -1), 0)
    found.update(struct.pack("<q", len(filled)))
    found.update(memoryview(filled.buffers()[1])[: 4 * len(filled)])
