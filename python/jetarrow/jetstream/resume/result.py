"""Result of a load: the results of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetarrow.jetstream.publish_result import PublishResult, RowError

if TYPE_CHECKING:
    import pyarrow as pa


class LoadOutcome:
    """The results of the steps of one run, with the attributes of a native `PublishOutcome`.

    Attributes:
        skipped: Number of rows that earlier runs have resolved.
    """

    def __init__(self, stream: str) -> None:
        self._name = stream
        self._steps: list[tuple[int, PublishResult]] = []
        self.skipped = 0
        self.count = 0
        self.stored = 0
        self._duplicates = 0
        self._errors: list[RowError] = []

    def add(self, first_row: int, result: PublishResult) -> None:
        """Add the result of a step.

        Args:
            first_row: Row of its first message.
            result: The result.
        """
        self._steps.append((first_row, result))
        self.count += result.count
        self.stored += result.stored
        self._duplicates += result.duplicates or 0
        self._errors += result.errors

    @property
    def stream(self) -> str | None:
        """The stream; None if no row was stored."""
        return self._name if self.stored or self.skipped or self._duplicates else None

    @property
    def duplicates(self) -> int | None:
        """Rows whose id the stream had, within its duplicate window."""
        return self._duplicates

    def errors(self) -> list[Any]:
        """Return the rows that were not stored, in order."""
        return self._errors

    def _batch(self) -> pa.RecordBatch:
        import pyarrow as pa

        fields = [("row", pa.int64()), ("seq", pa.int64()), ("status", pa.string()), ("error", pa.string())]
        tables = []
        for first_row, result in self._steps:
            step = pa.table(pa.record_batch(result))
            numbers = pa.array(range(first_row, first_row + result.count), pa.int64())
            tables.append(step.set_column(0, "row", numbers).cast(pa.schema(fields)))
        whole = pa.concat_tables([pa.schema(fields).empty_table(), *tables]).combine_chunks()
        return pa.RecordBatch.from_arrays(
            [pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type) for column in whole],
            schema=whole.schema,
        )

    @property
    def seqs(self) -> Any:
        """The stream sequence of each row; null if there is none."""
        return self._batch().column("seq")

    def __arrow_c_schema__(self) -> object:
        return self._batch().schema.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        found: tuple[object, object] = self._batch().__arrow_c_array__(requested_schema)
        return found
