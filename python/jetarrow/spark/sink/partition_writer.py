"""Writer of one task: publishes each row exactly once, as far as its ids are known to the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

import jetarrow.sync
from jetarrow.jetstream.errors import BatchError
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.spark._core import ContentIds, publish_rows, reason_of
from jetarrow.spark.options.choices import Dedup, PublishMode

from .routes import Route, Routes, expect_streams
from .rows import PublishCalls, checked_headers
from .task_writer import TaskWriter

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
        # Ids do not depend on time, so that every attempt has the same: 16 bytes per row are kept until the task ends.
        self._ids = ContentIds(scope if self._content else None)
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
        client, js = self._connect()
        calls = PublishCalls(
            batches,
            lambda piece: self._prepare(js, piece),
            must_end=lambda: self._retried is not None and self._retried.is_due,
        )
        reconnects = client.stats["reconnects"]
        for reader in calls:
            try:
                result = self._call(js, reader)
            except Exception:
                if calls.error is not None:  # raised by Spark, or for a row
                    raise calls.error from None
                raise
            self._count(result)
            self.sent_again |= client.stats["reconnects"] != reconnects
            if self._retried is not None:
                self._retried.confirm()
        self._finish()
        return self._prepared

    def _prepare(self, js: jetarrow.sync.JetStream, piece: pa.RecordBatch) -> pa.RecordBatch:
        piece = checked_headers(piece, self._options.reserved_headers, first_row=self._prepared)
        names = piece.schema.names
        if self._content or "msg_id" in names:
            found = self._ids.column(piece, self._options.subject)
            if found.repeated is not None:
                row, msg_id = found.repeated
                raise self._repeated(self._prepared + row, msg_id)
            columns = {name: piece.column(name) for name in names if name != "msg_id"}
            own = piece.column("msg_id").is_valid() if "msg_id" in names else None
            piece = pa.RecordBatch.from_pydict(columns | {"msg_id": self._tagged(pa.array(found), own)})
            if self._state is not None:
                self._prepared += piece.num_rows
                return self._state.note(piece, own)
        stream = self._options.stream
        streams = self._streams_of(piece, self._routes) if self._routes is not None else stream
        self._prepared += piece.num_rows
        assert streams is not None  # one stream, or routes to several
        piece, streams = self._missing(js, piece, streams)
        return piece if self._routes is None else expect_streams(piece, pc.fill_null(streams, ""))

    def _tagged(self, ids: pa.Array, own: pa.Array | None) -> pa.Array:
        """Return ids of which those made of content begin with the tag of the task."""
        if own is not None:
            self._prefix = ""
        if self._state is not None or not self._content:
            return ids
        tagged = pc.utf8_replace_slice(ids, 0, len(self._tag), self._tag)
        return tagged if own is None else pc.if_else(own, ids, tagged)

    def _streams_of(self, piece: pa.RecordBatch, routes: Routes) -> pa.Array:
        """Return the stream of each row; null for a row without a subject."""
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
        return streams

    def _call(self, js: jetarrow.sync.JetStream, rows: pa.RecordBatchReader) -> PublishResult:
        options = self._options
        try:
            return publish_rows(
                js,
                rows,
                subject=options.subject,
                first_row=self._done,
                mode=_CORE_MODES[options.publish_mode],
                chunk=options.chunk if options.publish_mode == PublishMode.ATOMIC else None,
                expected_stream=options.stream,
                max_inflight=options.max_in_flight,
                timeout=self._timeout,
            )
        except BatchError as error:
            raise self._row_failed("a batch of rows", self._done if error.row is None else error.row, error) from error

    def _count(self, result: PublishResult) -> None:
        if not result.ok:
            first = result.errors[0]
            failed = "1 row" if len(result.errors) == 1 else f"{len(result.errors)} of {result.count} rows"
            raise self._row_failed(failed, first.row, first.error) from first.error
        self._done += result.count
        self.duplicates += result.duplicates or 0
        # A chunk of which an earlier attempt has stored rows.
        self.sent_again |= bool(result.duplicates) and self._options.publish_mode == PublishMode.ATOMIC

    def _row_failed(self, what: str, row: int, cause: Exception) -> BatchError:
        # Rows that an earlier attempt has stored are not counted.
        which = " among those that it had not stored before" if self._skipped else ""
        return BatchError(
            f"jetstream: {what} could not be stored in {self._options.target}; the first is row {row} of"
            f" partition {self._partition}{which}: {reason_of(cause)}",
            row=row,
        )
