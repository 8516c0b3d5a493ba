"""Bounds of sequences, times and subjects in filters of pyarrow.

pyarrow does not expose the parts of an expression. It can show that an expression selects no row with values in a given
range, because it skips files by such ranges. The bounds are searched with that.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from jetarrow.archive_scan.query import Query

# Ranges that are compared at once in a search.
_PIECES = 16
# Most subjects that are sent to the server as filters.
_MAX_SUBJECTS = 100
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SUBJECT = re.compile(r"[^\s.*>\\]+(\.[^\s.*>\\]+)*")
# Largest time in microseconds whose nanoseconds fit 64 bits.
_LAST_MICROSECOND = (1 << 63) // 1000 - 1


def query_of(expression: Any, schema: pa.Schema, columns: tuple[str, ...]) -> Query | None:
    """Return the bounds of a filter, all of whose rows are within them; None if it selects no row.

    Args:
        expression: A filter on columns of the schema, or None.
        schema: Columns of the table, with timestamps in microseconds.
        columns: Names of the needed columns.
    """
    if expression is None:
        return Query(columns)
    first = end = since = until = None
    used = names_in(expression, schema)
    if "seq" in used and _is_metadata(schema, "seq", pa.int64()):
        found = _range(expression, schema, "seq", (1 << 62))
        if found is None:
            return None
        first, end = (found[0] or None, None if found[1] == 1 << 62 else found[1] + 1)
    if "timestamp" in used and _is_metadata(schema, "timestamp", pa.timestamp("us", "UTC")):
        found = _range(expression, schema, "timestamp", _LAST_MICROSECOND)
        if found is None:
            return None
        since = found[0] * 1000 or None
        until = None if found[1] == _LAST_MICROSECOND else (found[1] + 1) * 1000
    return Query(columns, first, end, since, until, _subjects(expression, schema))


def names_in(expression: Any, schema: pa.Schema) -> list[str]:
    """Return the columns that a filter may use: those whose names are in its text."""
    text = str(expression)
    return [name for name in schema.names if expression is not None and name in text]


def _is_metadata(schema: pa.Schema, name: str, kind: pa.DataType) -> bool:
    return name in schema.names and schema.field(name).type.equals(kind)


def _possible(expression: Any, schema: pa.Schema, guarantees: list[Any]) -> list[bool]:
    """Return for each guarantee whether the filter may select a row that meets it."""
    form, files = ds.ParquetFileFormat(), fs.LocalFileSystem()
    fragments = [
        form.make_fragment(str(number), files, partition_expression=each) for number, each in enumerate(guarantees)
    ]
    dataset = ds.FileSystemDataset(fragments, schema, form, files)
    left = {int(fragment.path) for fragment in dataset.get_fragments(filter=expression)}
    return [number in left for number in range(len(guarantees))]


def _range(expression: Any, schema: pa.Schema, name: str, most: int) -> tuple[int, int] | None:
    """Return the least and the greatest value from 0 to `most` that the filter may select; None if it selects none."""
    field, kind = ds.field(name), schema.field(name).type

    def edge(is_first: bool) -> int | None:
        low, high = 0, most
        while low < high:
            width = -(-(high - low + 1) // _PIECES)
            pieces = [(start, min(start + width - 1, high)) for start in range(low, high + 1, width)]
            guarantees = [
                field.is_valid() & (field >= pa.scalar(start, kind)) & (field <= pa.scalar(stop, kind))
                for start, stop in pieces
            ]
            found = [
                piece
                for piece, is_possible in zip(pieces, _possible(expression, schema, guarantees), strict=True)
                if is_possible
            ]
            if not found:
                return None
            low, high = found[0 if is_first else -1]
        return low

    first, last = edge(True), edge(False)
    return None if first is None or last is None else (first, last)


def _subjects(expression: Any, schema: pa.Schema) -> frozenset[str] | None:
    """Return the subjects that the filter selects, if it names all of them; else None."""
    if not _is_metadata(schema, "subject", pa.string()):
        return None
    texts = sorted(set(_TEXT.findall(str(expression))))
    if not texts or len(texts) > _MAX_SUBJECTS or not all(map(_SUBJECT.fullmatch, texts)):
        return None
    field = ds.field("subject")
    others = [field < texts[0], field > texts[-1]]
    others += [(field > low) & (field < high) for low, high in pairwise(texts)]
    others = [field.is_valid() & each for each in others]
    return None if any(_possible(expression, schema, others)) else frozenset(texts)
