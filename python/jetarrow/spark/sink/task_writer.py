"""Base class of the writers of a task: its arguments, connection and state."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

import jetarrow.sync
from jetarrow.spark.connection import jetstream, retry_transient, shared_client
from jetarrow.spark.options.write import WriteOptions

from .batch_records import BatchName
from .positions import Position
from .routes import Route
from .state import Replayed, SinkState
from .stored_ids import RetriedRows

# Seconds without a response after which a task fails, and Spark retries it.
ANSWER_TIMEOUT = 30.0
# Part of the duplicate window within which rows with ids must be answered: the core sends them again until then, and an
# atomic batch is sent again for as long.
_TIMEOUT_SHARE = 1 / 3
_MIN_TIMEOUT = 1.0
# err_code for a message id of an atomic batch that is in the duplicate window.
DUPLICATE_IN_BATCH = 10201
# Seconds added to the duplicate window, because the server removes ids with a delay.
WINDOW_MARGIN = 30.0


class TaskWriter:
    """Publishes the rows of one task.

    Args:
        options: Validated options of the write.
        window: The shortest duplicate window of the streams in seconds when the write was planned.
        scope: Unique name of query, batch and partition, the same for every attempt. With `sink_state` without the
            partition, which is a part of the tag of the ids.
        partition: Number of the partition, for messages.
        name: Query, batch and partition for `sink_state`. Default: none.
        routes: Subjects of several streams. Default: there is one stream.
        planned: For an attempt that sends rows again, the positions of the streams when the write was planned. Default:
            this is the first attempt.

    Attributes:
        duplicates: Number of published rows that the stream already had.
        sent_again: Whether this task itself may have published rows twice: after a reconnect, or because a part of an
            atomic batch was already stored.
        groups: The concatenated digests of the groups; empty if there are none.
        replayed: Data with which the driver completes a replayed batch; None if there is nothing to complete.
        js: The context, once the task is connected.
    """

    def __init__(
        self,
        options: WriteOptions,
        *,
        window: float,
        scope: str,
        partition: int,
        name: BatchName | None = None,
        routes: Sequence[Route] = (),
        planned: Mapping[str, Position] | None = None,
    ) -> None:
        self._options = options
        self._partition = partition
        self._name = name
        # Seconds for which the server tracks an id.
        self._window = window + WINDOW_MARGIN
        self._timeout = ANSWER_TIMEOUT
        if window and options.sink_state is None:
            self._timeout = max(_MIN_TIMEOUT, min(ANSWER_TIMEOUT, window * _TIMEOUT_SHARE))
        self._planned = planned
        self._retried: RetriedRows | None = None
        # Number of rows that an earlier attempt has stored.
        self._skipped = 0
        self._tag = _tag_of(scope)
        self._state: SinkState | None = None
        self.js: jetarrow.sync.JetStream | None = None
        # Prefix of the ids of all rows; empty once a row may have an id of the user.
        self._prefix = self._tag
        self.duplicates = 0
        self.sent_again = False
        self.groups = b""
        self.replayed: Replayed | None = None
        self._begin(scope.encode(), routes)

    def _begin(self, scope: bytes, routes: Sequence[Route]) -> None:
        """Initialize the fields of the subclass."""
        raise NotImplementedError

    def _connect(self) -> tuple[jetarrow.sync.Client, jetarrow.sync.JetStream]:
        """Connect the task, and take over its state.

        Raises:
            Exception: As `connection.connect`, after a minute without a server; or as `SinkState`.
        """
        options = self._options
        # The driver has reached a server before, so a restarting server is waited for.
        client = retry_transient(lambda: shared_client(options.connection))
        js = self.js = jetstream(client, options.connection)
        if self._name is not None and options.sink_state is not None:
            stream = options.streams[0]
            self._state = SinkState(js, options.sink_state, stream, name=self._name)
        return client, js

    def _missing(
        self, js: jetarrow.sync.JetStream, rows: pa.RecordBatch, streams: pa.Array | str
    ) -> tuple[pa.RecordBatch, pa.Array | str]:
        """Return the rows that the streams do not have from an earlier attempt.

        Args:
            js: The context.
            rows: Rows, with ids if they have any.
            streams: The stream of all rows, or that of each.

        Raises:
            ValueError: As `RetriedRows.stored`.
        """
        if self._planned is None or "msg_id" not in rows.schema.names or not rows.num_rows:
            return rows, streams
        if self._retried is None:
            self._retried = RetriedRows(js, self._planned, prefix=self._prefix)
        stored = self._retried.stored(rows.column("msg_id"), streams)
        count = pc.sum(stored).as_py()
        if not count:
            return rows, streams
        self.duplicates += count
        self._skipped += count
        self.sent_again = True
        missing = pc.invert(stored)
        return rows.filter(missing), streams if isinstance(streams, str) else streams.filter(missing)

    def _finish(self) -> None:
        """Complete the state after all rows are acknowledged, and add its skipped rows to the duplicates."""
        if self._state is not None:
            self.replayed = self._state.finish()
            self.duplicates += self._state.skipped
            self.sent_again |= self._state.skipped > 0

    def _repeated(self, row: int, msg_id: str) -> ValueError:
        """Return the error for a row (number in the partition) with the id of another row of the task."""
        return ValueError(
            f"jetstream: could not publish row {row} of partition {self._partition}: it has the msg_id {msg_id!r} of"
            " another row, and the stream would drop it as a duplicate; make ids unique (concat more columns into"
            " them), or remove duplicate rows by dropDuplicates(['msg_id'])"
        )


def _tag_of(scope: str) -> str:
    """Return the first characters of the ids that the rows of a task get: with them a stream's ids are found again."""
    return base64.urlsafe_b64encode(hashlib.blake2b(scope.encode(), digest_size=3).digest()).decode()
