"""Headers that belong to the publish of a message: id, expectations and atomic batch. Its copies have others."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

# The server compares names exactly; other spellings are refused when they are written, because they are a mistake.
_PATTERN = r"(?i)^nats-(msg-id$|expected-|batch-)"


def is_reserved(names: pa.Array) -> pa.Array:
    """Return whether the server interprets each header as part of a publish.

    Args:
        names: Names of headers.
    """
    prefixes = pc.or_(pc.starts_with(names, "Nats-Expected-"), pc.starts_with(names, "Nats-Batch-"))
    return pc.or_(pc.equal(names, "Nats-Msg-Id"), prefixes)


def resembles_reserved(names: pa.Array) -> pa.Array:
    """Return whether each header is reserved in any spelling.

    Args:
        names: Names of headers.
    """
    return pc.match_substring_regex(names, _PATTERN)


def entries(headers: pa.MapArray) -> tuple[pa.Array, pa.Array, int]:
    """Return names and values of all headers of a column, and the offset of the first one.

    Args:
        headers: A column of headers, which may be a slice.
    """
    # The keys of a slice are those of its whole batch.
    start, end = headers.offsets[0].as_py(), headers.offsets[len(headers)].as_py()
    return headers.keys.slice(start, end - start), headers.items.slice(start, end - start), start


def without(headers: pa.MapArray, *, any_spelling: bool = False) -> pa.MapArray:
    """Return a column without reserved headers; rows without other headers are null.

    Args:
        headers: A column of headers.
        any_spelling: Whether names in another spelling are removed too. Default: False.
    """
    if headers.null_count == len(headers):
        return headers
    names, values, start = entries(headers)
    reserved = resembles_reserved(names) if any_spelling else is_reserved(names)
    if not pc.any(reserved).as_py():
        return headers
    kept = pc.invert(reserved)
    counts = pc.cumulative_sum(kept.cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), counts]).take(pc.subtract(headers.offsets, start))
    empty = pc.equal(offsets.slice(1), offsets.slice(0, len(headers)))
    return pa.MapArray.from_arrays(offsets, names.filter(kept), values.filter(kept), headers.type, mask=empty)
