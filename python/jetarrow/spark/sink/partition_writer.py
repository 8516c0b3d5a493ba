"""Writer of one task: publishes each row exactly once, as far as its ids are known to the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic

import pyarrow as pa
import pyarrow.compute as pc

import jetarrow.sync
from jetarrow.core.errors import Error
from jetarrow.jetstream.errors import BatchError, PublishUnconfirmedError
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.spark._core import ContentIds, publish_rows, reason_of
from jetarrow.spark.options.choices import Dedup, PublishMode

from .routes import Route, Routes, expect_streams
from .rows import PublishCalls, checked_headers
from .task_writer import ANSWER_TIMEOUT, DUPLICATE_IN_BATCH, WINDOW_MARGIN, TaskWriter

# Modes of `publish_batch`.
_CORE_MODES = {
    PublishMode.ASYNC: "window",
    PublishMode.FAST: "fast",
    PublishMode.ATOMIC: "atomic",
    PublishMode.AUTO: "auto",
}


class PartitionWriter(TaskWriter):
    """Publishes the rows of one task in order."""

    def _begin(self, scope: bytes, routes: Sequence[Route]) -> None:
        options = self._options
        self._routes = Routes(routes) if options.stream is None else None
        self._content = options.dedup == Dedup.CONTENT
        self._ids = ContentIds(scope if self._content else None)
        self._streams = options.streams or tuple({name for _, name in routes})
        self._prepared = 0
        self._done = 0

    def write(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Publish all rows.

        Args:
            batches: Rows with the columns that `rows.check_columns` accepts.

        Returns:
            The number of rows.

        Raises:
            BatchError: A row was not stored: the first such row, with the server's codes.
            ValueError: A row cannot be published.
            Error: No server has answered for 30 seconds.
        """
        options = self._options
        client, js = self._connect()
        calls = PublishCalls(batches, self._prepare, atomic=options.publish_mode == PublishMode.ATOMIC)
        forgot, reconnects = monotonic(), client.stats["reconnects"]
        for reader in calls:
            try:
                result = self._call(js, reader)
            except Exception:
                if calls.error is not None:  # raised by Spark, or for a row
                    raise calls.error from None
                raise
            self._count(result)
            self.sent_again |= client.stats["reconnects"] != reconnects
            # Every row so far is acknowledged. Ids outside of the duplicate window need not be kept.
            if self._forgotten(js, since=forgot):
                self._ids.forget()
                forgot = monotonic()
        self._finish()
        return self._prepared

    def _forgotten(self, js: jetarrow.sync.JetStream, *, since: float) -> bool:
        """Return whether ids from before `since` are outside of the server's present duplicate window.

        An id that is forgotten here, but not by the server, would be reused for a new row, which the server would drop.
        """
        if monotonic() - since <= self._window:
            return False
        try:
            windows = [js.stream_info(name).config.duplicate_window or 0 for name in self._streams]
        except Error:
            return False  # requested again after the next call
        self._window = float(max(windows, default=0)) + WINDOW_MARGIN
        return monotonic() - since > self._window

    def _prepare(self, piece: pa.RecordBatch) -> pa.RecordBatch:
        piece = checked_headers(piece, self._options.reserved_headers, first_row=self._prepared)
        names = piece.schema.names
        if self._content or "msg_id" in names:
            found = self._ids.column(piece, self._options.subject)
            if found.repeated is not None:
                row, msg_id = found.repeated
                raise self._repeated(self._prepared + row, msg_id)
            columns = {name: piece.column(name) for name in names if name != "msg_id"}
            own = piece.column("msg_id").is_valid() if "msg_id" in names else None
            piece = pa.RecordBatch.from_pydict(columns | {"msg_id": pa.array(found)})
            if self._state is not None:
                self._prepared += piece.num_rows
                return self._state.note(piece, own)
        if self._routes is not None:
            piece = self._routed(piece, self._routes)
        self._prepared += piece.num_rows
        return piece

    def _routed(self, piece: pa.RecordBatch, routes: Routes) -> pa.RecordBatch:
        """Return rows with the expected stream of each."""
        fixed = self._options.subject
        subjects = piece.column("subject") if fixed is None else pa.array([fixed] * piece.num_rows, pa.string())
        # A row without a subject causes an error when it is published.
        streams = routes.streams_of(pc.fill_null(subjects, ""))
        lost = pc.and_(streams.is_null(), subjects.is_valid())
        if (row := pc.index(lost, True).as_py()) >= 0:
            raise ValueError(
                f"jetstream: could not publish row {self._prepared + row} of partition {self._partition}: none of"
                f" {self._options.target} stores its subject {subjects[row].as_py()!r}; if the account maps subjects,"
                " write the mapped ones; restart the query if the stream was created just now"
            )
        return expect_streams(piece, pc.fill_null(streams, ""))

    def _call(self, js: jetarrow.sync.JetStream, rows: pa.RecordBatchReader) -> PublishResult:
        mode = self._options.publish_mode
        try:
            if mode != PublishMode.ATOMIC:
                return self._publish(js, rows, mode)
            return self._publish_atomic(js, rows.read_all())
        except BatchError as error:
            raise self._row_failed("a batch of rows", self._done if error.row is None else error.row, error) from error

    def _publish_atomic(self, js: jetarrow.sync.JetStream, unit: pa.Table) -> PublishResult:
        deadline = monotonic() + ANSWER_TIMEOUT
        while True:
            try:
                return self._publish(js, unit, PublishMode.ATOMIC)
            except PublishUnconfirmedError:
                # All rows are stored, or none: a retry is safe if every row has an id.
                if "msg_id" not in unit.schema.names or unit["msg_id"].null_count or monotonic() > deadline:
                    raise
            except BatchError as error:
                if error.err_code != DUPLICATE_IN_BATCH:
                    raise
                # An earlier attempt has stored some of the rows, so only the others are stored now.
                self.sent_again = True
                return self._publish(js, unit, PublishMode.ASYNC)

    def _publish(
        self,
        js: jetarrow.sync.JetStream,
        rows: pa.RecordBatchReader | pa.Table,
        mode: PublishMode,
    ) -> PublishResult:
        return publish_rows(
            js,
            rows,
            subject=self._options.subject,
            first_row=self._done,
            mode=_CORE_MODES[mode],
            expected_stream=self._options.stream,
            max_inflight=self._options.max_in_flight,
            timeout=ANSWER_TIMEOUT,
        )

    def _count(self, result: PublishResult) -> None:
        if not result.ok:
            first = result.errors[0]
            failed = "1 row" if len(result.errors) == 1 else f"{len(result.errors)} of {result.count} rows"
            raise self._row_failed(failed, first.row, first.error) from first.error
        self._done += result.count
        self.duplicates += result.duplicates or 0

    def _row_failed(self, what: str, row: int, cause: Exception) -> BatchError:
        return BatchError(
            f"jetstream: {what} could not be stored in {self._options.target}; the first is row {row} of"
            f" partition {self._partition}: {reason_of(cause)}",
            row=row,
        )
