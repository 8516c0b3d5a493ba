"""Routes of rows to one of several streams by their subjects, as planned by the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from jetarrow.jetstream.models import Header

# A subject of a stream, which may have wildcards, and the stream's name.
Route: TypeAlias = tuple[str, str]
# Maximum number of subjects whose streams are cached.
_MAX_KNOWN = 100_000


class Routes:
    """Finds the streams of subjects; subjects of streams in one account do not overlap.

    Args:
        routes: The subjects of the streams.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self._tree: dict[str, Any] = {}
        self._known: dict[str | None, str | None] = {}
        for pattern, stream in routes:
            node = self._tree
            for token in pattern.split("."):
                node = node.setdefault(token, {})
            # The empty string marks the end, because no token is empty.
            node[""] = stream

    def stream_of(self, subject: str) -> str | None:
        """Return the stream that stores a subject; None if there is none."""
        return _find(self._tree, subject.split("."))

    def streams_of(self, subjects: pa.Array) -> pa.Array:
        """Return the stream of each subject; null if there is none.

        Args:
            subjects: A column of strings.
        """
        codes = subjects.dictionary_encode()
        found = []
        for subject in codes.dictionary.to_pylist():
            if subject not in self._known:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                self._known[subject] = self.stream_of(subject)
            found.append(self._known[subject])
        return pa.array(found, pa.string()).take(codes.indices)


def routes_of(streams: Mapping[str, Sequence[str] | None]) -> tuple[Route, ...]:
    """Return the routes of streams.

    Args:
        streams: The subjects of each stream.
    """
    return tuple((subject, name) for name, subjects in streams.items() for subject in subjects or ())


def expect_streams(rows: pa.RecordBatch, streams: pa.Array) -> pa.RecordBatch:
    """Return rows with the header of their expected streams.

    Args:
        rows: The rows to publish, with or without `headers`.
        streams: The stream of each row.
    """
    name = pa.array([Header.EXPECTED_STREAM.value], pa.string()).take(pa.array([0] * len(streams), pa.int8()))
    if "headers" not in rows.schema.names:
        offsets = pa.array(range(len(streams) + 1), pa.int32())
        return rows.append_column("headers", pa.MapArray.from_arrays(offsets, name, streams))
    maps = rows.column("headers")
    key, item = maps.type.key_type, maps.type.item_type
    lists = maps.cast(pa.list_(pa.struct([pa.field("key", key, nullable=False), pa.field("value", item)])))
    entries = pc.list_flatten(lists)
    if pa.types.is_list(item):
        values: pa.Array = pa.ListArray.from_arrays(pa.array(range(len(streams) + 1), pa.int32()), streams).cast(item)
    else:
        values = streams.cast(item)
    # The sort is stable, so the new entries are after those of their rows.
    numbers = pa.array(range(len(streams)), pa.int64())
    order = pc.array_sort_indices(pa.concat_arrays([pc.list_parent_indices(lists).cast(pa.int64()), numbers]))
    keys = pa.concat_arrays([entries.field("key"), name.cast(key)]).take(order)
    items = pa.concat_arrays([entries.field("value"), values]).take(order)
    counts = pc.add(pc.fill_null(pc.list_value_length(lists), 0), 1)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(counts).cast(pa.int32())])
    made = pa.MapArray.from_arrays(offsets, keys, items)
    return rows.set_column(rows.schema.get_field_index("headers"), "headers", made)


def _find(node: dict[str, Any], tokens: list[str]) -> str | None:
    if not tokens:
        found: str | None = node.get("")
        return found
    for token in (tokens[0], "*"):
        if tokens[0] and token in node and (found := _find(node[token], tokens[1:])) is not None:
            return found
    rest: str | None = node.get(">", {}).get("")
    return rest
