"""What one task of a write does: its rows into the stream, each exactly once as far as ids reach."""

from __future__ import annotations

import re
from collections.abc import Iterator
from time import monotonic

import pyarrow as pa

import jetarrow.sync
from jetarrow import _jetarrow
from jetarrow.js.errors import BatchError, PublishUnconfirmedError
from jetarrow.publish import PublishResult
from jetarrow.spark.connection import patiently, shared
from jetarrow.spark.options.write import WriteOptions

from .rows import Calls, check_headers

_MODES = {"async": "window", "fast": "fast", "atomic": "atomic", "auto": "auto"}
# A server that says nothing for so long, seconds, is given up: the task fails, and Spark tries it again.
_PATIENCE = 30.0
_DUPLICATE_IN_BATCH = 10201
# Seconds added to the duplicate window: the server forgets ids a little later than it says.
_MARGIN = 30.0


class Task:
    """Publishes the rows of one task.

    Args:
        options: Checked options of the write.
        window: The stream's duplicate window, seconds.
        scope: Names query, batch and partition: the same for every attempt, and for no other rows.
        partition: Number of the partition, for messages.
    """

    def __init__(self, options: WriteOptions, *, window: float, scope: str, partition: int) -> None:
        self._options = options
        self._keep = window + _MARGIN
        self._where = f"partition {partition}"
        self._ids = _jetarrow.ContentIds(scope.encode()) if options.dedup == "content" else None
        self._prepared = 0
        self._done = 0
        self.duplicates = 0

    def run(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Publish all rows, and return how many there were.

        Args:
            batches: Rows with the columns that `check_columns` lets pass.

        Raises:
            BatchError: A row was not stored: the first such row, with the server's codes.
            ValueError: A row cannot be published.
            Error: No server, or the server was silent for 30 seconds.
        """
        options = self._options
        # The driver has reached a server a moment ago: one that restarts just now is waited for.
        client = patiently(lambda: shared(options.connection))
        js = client.jetstream(**options.connection.context())
        calls = Calls(batches, self._prepare, atomic=options.publish_mode == "atomic")
        forgot = monotonic()
        for reader in calls:
            try:
                result = self._call(js, reader, max_in_flight=calls.in_flight(options.max_in_flight))
            except Exception:
                if calls.error is not None:  # Spark's own, or that of a row
                    raise calls.error from None
                raise
            self._count(result)
            # Every row so far has its answer. An id that the server has forgotten since need not be kept here.
            if self._ids is not None and monotonic() - forgot > self._keep:
                self._ids.forget()
                forgot = monotonic()
        return self._done

    def _prepare(self, piece: pa.RecordBatch) -> pa.RecordBatch:
        names = piece.schema.names
        if "headers" in names:
            check_headers(piece, first_row=self._prepared)
        self._prepared += piece.num_rows
        if self._ids is not None:
            ids = pa.array(self._ids.column(piece, self._options.subject))
            columns = {name: piece.column(name) for name in names if name != "msg_id"}
            piece = pa.RecordBatch.from_pydict(columns | {"msg_id": ids})
        return piece

    def _call(self, js: jetarrow.sync.JetStream, rows: pa.RecordBatchReader, *, max_in_flight: int) -> PublishResult:
        mode = _MODES[self._options.publish_mode]
        try:
            if mode != "atomic":
                return self._publish(js, rows, mode, max_in_flight)
            return self._atomic(js, rows.read_all(), max_in_flight)
        except BatchError as error:
            raise self._refused(error) from error

    def _atomic(self, js: jetarrow.sync.JetStream, unit: pa.Table, max_in_flight: int) -> PublishResult:
        deadline = monotonic() + _PATIENCE
        while True:
            try:
                return self._publish(js, unit, "atomic", max_in_flight)
            except PublishUnconfirmedError:
                # All of it is stored, or nothing: the ids tell, where every row has one.
                if "msg_id" not in unit.schema.names or unit["msg_id"].null_count or monotonic() > deadline:
                    raise
            except BatchError as error:
                if error.err_code != _DUPLICATE_IN_BATCH:
                    raise
                # Rows of it are there, of an earlier attempt: now it is only for those that are not.
                return self._publish(js, unit, "window", max_in_flight)

    def _publish(
        self, js: jetarrow.sync.JetStream, rows: pa.RecordBatchReader | pa.Table, mode: str, max_in_flight: int
    ) -> PublishResult:
        return js.publish_batch(
            self._options.subject,
            rows,
            mode=mode,
            expected_stream=self._options.stream,
            max_inflight=max_in_flight,
            timeout=_PATIENCE,
        )

    def _count(self, result: PublishResult) -> None:
        if not result.ok:
            first = result.errors[0]
            failed = "1 row" if len(result.errors) == 1 else f"{len(result.errors)} of {result.count} rows"
            raise self._failed(failed, first.row, first.error) from first.error
        self._done += result.count
        self.duplicates += result.duplicates or 0

    def _refused(self, error: BatchError) -> BatchError:
        return self._failed("a batch of rows", error.row or 0, error)

    def _failed(self, what: str, row: int, cause: Exception) -> BatchError:
        """`row` is counted from the start of the call, and so is a row that the cause names."""
        row += self._done
        text = re.sub(r"^row \d+: ", "", str(cause).removeprefix("nats: "))
        text = re.sub(r"\brow \d+", f"row {row}", text)
        return BatchError(
            f"jetstream: {what} could not be stored in stream {self._options.stream!r}; the first is row {row} of"
            f" {self._where}: {text}",
            row=row,
        )
