"""Parts of the targets that write a commit in one transaction of a table format: Delta and Iceberg."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Protocol

from jetarrow.jetstream.sinks.rows import check_same
from jetarrow.jetstream.sinks.state import SinkResult
from jetarrow.jetstream.sinks.upsert import DELETED

if TYPE_CHECKING:
    import pyarrow


class Columns(Protocol):
    """Target that compares the columns of all its rows."""

    # Columns of the rows; None before the first batch.
    columns: pyarrow.Schema | None


class BufferedRows:
    """Rows of a commit, in memory until it is written."""

    def __init__(self, target: Columns) -> None:
        self._columns = target
        self._batches: list[pyarrow.RecordBatch] = []
        self._corrupt: list[pyarrow.RecordBatch] = []
        self._seqs: list[Any] = []

    def add(self, batch: pyarrow.RecordBatch, corrupt: pyarrow.RecordBatch | None, seqs: Any) -> None:
        """Add rows, as `Commit.add` of a folder."""
        schema = batch.schema
        if DELETED in schema.names:
            schema = schema.remove(schema.get_field_index(DELETED))
        if self._columns.columns is None:
            self._columns.columns = schema
        check_same(self._columns.columns, schema, str(self._columns))
        if batch.num_rows:
            self._batches.append(batch)
            self._seqs.append(seqs)
        if corrupt is not None:
            self._corrupt.append(corrupt)

    def _result(self, files: int, corrupt: int) -> SinkResult:
        import pyarrow.compute as pc

        seqs = [pc.min_max(seqs).as_py() for seqs in self._seqs]
        first = min((found["min"] for found in seqs), default=None)
        last = max((found["max"] for found in seqs), default=None)
        return SinkResult(sum(batch.num_rows for batch in self._batches), files, first, last, corrupt)

    def _discard(self) -> None:
        """Release the rows."""
        self._batches.clear()
        self._corrupt.clear()
        self._seqs.clear()


def folder_name(app_id: str) -> str:
    """Return the name of the folder of a sink's undecodable rows.

    Args:
        app_id: Name of the sink. It may contain any characters: the hash distinguishes names with the same readable
            part.
    """
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", app_id)[:64]
    return f"{readable}-{hashlib.sha256(app_id.encode()).hexdigest()[:16]}"
