"""Result of a bulk publish."""

from __future__ import annotations

from typing import Any, NamedTuple

from jetarrow import _jetarrow
from jetarrow.jetstream import html
from jetarrow.jetstream.errors import BatchError


class RowError(NamedTuple):
    """A row that was not stored, and its error."""

    row: int
    error: Exception


class PartialPublish(NamedTuple):
    """The part of a publish that was done before Ctrl-C or a cancellation: attribute `partial` of the exception.

    Attributes:
        rows: Rows that the server had answered at least; later answers are unknown.
        total: Rows of the call; None if the number is unknown.
        position: With `resume=`: the row at which the next run continues. Default: None.
    """

    rows: int
    total: int | None
    position: int | None = None


class PublishResult:
    """The result of each row of a `publish_batch`.

    As an Arrow producer (`__arrow_c_array__`) it is a table with one row per message: `row: int64`, `seq: int64`
    (null if it has none), `status: string` (stored, duplicate, error), `error: string` (null if it has none).
    """

    def __init__(self, native: Any, skipped: int = 0) -> None:
        self._native: _jetarrow.PublishOutcome = native
        self._skipped = skipped
        self._errors: list[RowError] | None = None

    @property
    def stream(self) -> str | None:
        """The stream that stored the rows; None if several did, or if no row was stored."""
        return self._native.stream

    @property
    def count(self) -> int:
        """The number of rows: stored, duplicates and errors together."""
        return self._native.count

    @property
    def stored(self) -> int:
        """The number of rows that the stream stored."""
        return self._native.stored

    @property
    def duplicates(self) -> int | None:
        """The number of rows with a message id that the stream had stored before, also by an earlier attempt.

        None in mode fast, in which the server does not report duplicates: such rows count as stored.
        """
        return self._native.duplicates

    @property
    def skipped(self) -> int:
        """With `resume=`: the number of rows that earlier runs had stored or rejected; otherwise 0.

        They are not part of `count`.
        """
        return self._skipped

    @property
    def seqs(self) -> _jetarrow.Array:
        """The stream sequence of each row: an Arrow int64 array.

        Null if the row failed. In mode fast the server reports only the sequence of the last row, and that
        only if the row has no id, with which it may be a duplicate.
        """
        return self._native.seqs

    @property
    def errors(self) -> list[RowError]:
        """The rows that failed, in order; with Arrow messages all rows of each message that failed."""
        if self._errors is None:
            self._errors = [RowError(failed.row, failed.error) for failed in self._native.errors()]
        return self._errors

    @property
    def ok(self) -> bool:
        """True when no row failed."""
        return not self.errors

    def raise_for_errors(self) -> None:
        """Raises `BatchError`, with the rows in its `errors`, unless `ok`."""
        if self.errors:
            first = self.errors[0]
            failed = len(self.errors)
            # A message of an Arrow table has many rows, and `count` is of messages.
            rows = (
                f"{failed} of {self.count}" if failed + self.stored + (self.duplicates or 0) == self.count else failed
            )
            raise BatchError(
                f"{rows} rows were not stored; the first is row {first.row}: {first.error}",
                errors=self.errors,
                row=first.row,
            ) from first.error

    def __repr__(self) -> str:
        duplicates = "" if self.duplicates is None else f"{self.duplicates} duplicates, "
        return f"<PublishResult: {self.count} rows, {self.stored} stored, {duplicates}{len(self.errors)} errors>"

    def _repr_html_(self) -> str:
        said = {
            "stream": self.stream,
            "rows": self.count,
            "stored": self.stored,
            "duplicates": self.duplicates,
            "errors": len(self.errors),
        }
        failed = {f"row {failed.row}": failed.error for failed in self.errors[: html.ROWS]}
        return html.facts("PublishResult", {**said, **failed})

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._native.__arrow_c_array__(requested_schema)
