"""What one task of a write does: its rows into the stream, each exactly once as far as ids reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic

import pyarrow as pa
import pyarrow.compute as pc

import jetarrow.sync
from jetarrow.core.errors import Error
from jetarrow.jetstream.errors import BatchError, PublishUnconfirmedError
from jetarrow.jetstream.outcome import PublishResult
from jetarrow.spark._core import ContentIds, publish_rows, reason_of
from jetarrow.spark.connection import jetstream, retry_transient, shared_client
from jetarrow.spark.options.choices import Dedup, PublishMode
from jetarrow.spark.options.write import WriteOptions

from .routes import Route, Routes, expect_streams
from .rows import PublishCalls, check_headers
from .state import BatchName, SinkState

# What `publish_batch` calls the modes.
_CORE_MODES = {
    PublishMode.ASYNC: "window",
    PublishMode.FAST: "fast",
    PublishMode.ATOMIC: "atomic",
    PublishMode.AUTO: "auto",
}
# A server that is silent for longer, in seconds, is given up: the task fails, and Spark tries it again.
ANSWER_TIMEOUT = 30.0
# The server's number for a message id of an atomic batch that it knows already.
DUPLICATE_IN_BATCH = 10201
# Seconds added to the duplicate window: the server forgets ids a little later than it says.
WINDOW_MARGIN = 30.0


def open_target(
    options: WriteOptions, name: BatchName | None
) -> tuple[jetarrow.sync.Client, jetarrow.sync.JetStream, SinkState | None]:
    """Connect a task, and take over what is remembered of it.

    Args:
        options: Checked options of the write.
        name: What is written, where `sink_state` is to remember it.

    Raises:
        Exception: As `connection.connect`, after a minute without a server; or as `SinkState`.
    """
    # The driver has reached a server a moment ago: one that restarts just now is waited for.
    client = retry_transient(lambda: shared_client(options.connection))
    js = jetstream(client, options.connection)
    bucket = options.sink_state
    if name is None or bucket is None:
        return client, js, None
    return client, js, SinkState(js, bucket, options.streams[0], subject=options.subject, name=name)


def repeated_id(row: int, partition: int, msg_id: str) -> ValueError:
    """Make the error for a row with the id of another one of its task.

    Args:
        row: Its number in the partition.
        partition: The partition's.
        msg_id: The id.
    """
    return ValueError(
        f"jetstream: row {row} of partition {partition} has the msg_id {msg_id!r} of another"
        " row of it: the stream would drop it as a duplicate. An id stands for one row of the output (concat"
        " more columns into it); rows that are meant to be one are made one by dropDuplicates(['msg_id'])"
    )


class PartitionWriter:
    """Publishes the rows of one task.

    Args:
        options: Checked options of the write.
        window: The stream's duplicate window, in seconds, as it was when the write was planned.
        scope: Names query, batch and partition: every attempt has the same scope, and no other rows have it.
        partition: Number of the partition, for messages.
        name: What is written, where `sink_state` is to remember it. Default: none.
        routes: What each of several streams takes. Default: there is one stream.

    Attributes:
        duplicates: How many of the rows published so far the stream had before.
        sent_again: Whether this task itself may have published rows twice: it had to reconnect, or an atomic batch was
            partly there.
        groups: Empty: there are none.
    """

    groups = b""

    def __init__(
        self,
        options: WriteOptions,
        *,
        window: float,
        scope: str,
        partition: int,
        name: BatchName | None = None,
        routes: Sequence[Route] = (),
    ) -> None:
        self._options = options
        self._routes = Routes(routes) if options.stream is None else None
        self._keep_ids = window + WINDOW_MARGIN
        self._partition = partition
        self._name = name
        self._state: SinkState | None = None
        self._content = options.dedup == Dedup.CONTENT
        self._ids = ContentIds(scope.encode() if self._content else None)
        self._streams = options.streams or tuple({name for _, name in routes})
        self._prepared = 0
        self._done = 0
        self.duplicates = 0
        self.sent_again = False

    def write(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Publish all rows.

        Args:
            batches: Rows with the columns that `rows.check_columns` lets pass.

        Returns:
            How many rows there were.

        Raises:
            BatchError: A row was not stored: the first such row, with the server's codes.
            ValueError: A row cannot be published.
            Error: No server, or the server was silent for 30 seconds.
        """
        options = self._options
        client, js, self._state = open_target(options, self._name)
        calls = PublishCalls(batches, self._prepare, atomic=options.publish_mode == PublishMode.ATOMIC)
        forgot, reconnects = monotonic(), client.stats["reconnects"]
        for reader in calls:
            try:
                result = self._call(js, reader, max_in_flight=calls.in_flight(options.max_in_flight))
            except Exception:
                if calls.error is not None:  # Spark's own, or that of a row
                    raise calls.error from None
                raise
            self._count(result)
            self.sent_again |= client.stats["reconnects"] != reconnects
            # Every row so far has its answer. An id that the server has forgotten since need not be kept here.
            if self._forgotten(js, since=forgot):
                self._ids.forget()
                forgot = monotonic()
        if self._state is not None:
            self._state.finish()
            self.duplicates += self._state.skipped
            self.sent_again |= self._state.skipped > 0
        return self._prepared

    def _forgotten(self, js: jetarrow.sync.JetStream, *, since: float) -> bool:
        """Whether the server no longer knows ids from before `since`: it is asked, its window may be another by now.

        An id that is forgotten here before it is forgotten there would be given to a row that is new, which the
        server would then drop.
        """
        if monotonic() - since <= self._keep_ids:
            return False
        try:
            windows = [js.stream_info(name).config.duplicate_window or 0 for name in self._streams]
        except Error:
            return False  # it is asked again after the next call
        self._keep_ids = float(max(windows, default=0)) + WINDOW_MARGIN
        return monotonic() - since > self._keep_ids

    def _prepare(self, piece: pa.RecordBatch) -> pa.RecordBatch:
        names = piece.schema.names
        if "headers" in names:
            check_headers(piece, first_row=self._prepared)
        if self._content or "msg_id" in names:
            found = self._ids.column(piece, self._options.subject)
            if found.repeated is not None:
                row, msg_id = found.repeated
                raise repeated_id(self._prepared + row, self._partition, msg_id)
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
        """Rows that say which stream has to take each."""
        fixed = self._options.subject
        subjects = piece.column("subject") if fixed is None else pa.array([fixed] * piece.num_rows, pa.string())
        # One without a subject fails by itself, and says so.
        streams = routes.streams_of(pc.fill_null(subjects, ""))
        lost = pc.and_(streams.is_null(), subjects.is_valid())
        if (row := pc.index(lost, True).as_py()) >= 0:
            raise ValueError(
                f"jetstream: row {self._prepared + row} of partition {self._partition} has the subject"
                f" {subjects[row].as_py()!r}, which none of {self._options.target} takes; where the account maps"
                " subjects, write those that they are mapped to; a stream that has just been made is known when the"
                " query is started again"
            )
        return expect_streams(piece, pc.fill_null(streams, ""))

    def _call(self, js: jetarrow.sync.JetStream, rows: pa.RecordBatchReader, *, max_in_flight: int) -> PublishResult:
        mode = self._options.publish_mode
        try:
            if mode != PublishMode.ATOMIC:
                return self._publish(js, rows, mode, max_in_flight=max_in_flight)
            return self._publish_atomic(js, rows.read_all(), max_in_flight=max_in_flight)
        except BatchError as error:
            raise self._row_failed("a batch of rows", self._done if error.row is None else error.row, error) from error

    def _publish_atomic(self, js: jetarrow.sync.JetStream, unit: pa.Table, *, max_in_flight: int) -> PublishResult:
        deadline = monotonic() + ANSWER_TIMEOUT
        while True:
            try:
                return self._publish(js, unit, PublishMode.ATOMIC, max_in_flight=max_in_flight)
            except PublishUnconfirmedError:
                # All of it is stored, or nothing: the ids tell, where every row has one.
                if "msg_id" not in unit.schema.names or unit["msg_id"].null_count or monotonic() > deadline:
                    raise
            except BatchError as error:
                if error.err_code != DUPLICATE_IN_BATCH:
                    raise
                # An earlier attempt has stored rows of it: now only the others are missing.
                self.sent_again = True
                return self._publish(js, unit, PublishMode.ASYNC, max_in_flight=max_in_flight)

    def _publish(
        self,
        js: jetarrow.sync.JetStream,
        rows: pa.RecordBatchReader | pa.Table,
        mode: PublishMode,
        *,
        max_in_flight: int,
    ) -> PublishResult:
        return publish_rows(
            js,
            rows,
            subject=self._options.subject,
            first_row=self._done,
            mode=_CORE_MODES[mode],
            expected_stream=self._options.stream,
            max_inflight=max_in_flight,
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
