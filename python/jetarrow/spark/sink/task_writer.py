"""Base class of the writers of a task: its arguments, connection and state."""

from __future__ import annotations

from collections.abc import Sequence

import jetarrow.sync
from jetarrow.spark.connection import jetstream, retry_transient, shared_client
from jetarrow.spark.options.write import WriteOptions

from .batch_records import BatchName
from .routes import Route
from .state import Replayed, SinkState

# Seconds without a response after which a task fails, and Spark retries it.
ANSWER_TIMEOUT = 30.0
# err_code for a message id of an atomic batch that is in the duplicate window.
DUPLICATE_IN_BATCH = 10201
# Seconds added to the duplicate window, because the server removes ids with a delay.
WINDOW_MARGIN = 30.0


class TaskWriter:
    """Publishes the rows of one task.

    Args:
        options: Validated options of the write.
        window: The stream's duplicate window in seconds when the write was planned.
        scope: Unique name of query, batch and partition, the same for every attempt. With `sink_state` without the
            partition, which is a part of the tag of the ids.
        partition: Number of the partition, for messages.
        name: Query, batch and partition for `sink_state`. Default: none.
        routes: Subjects of several streams. Default: there is one stream.

    Attributes:
        duplicates: Number of published rows that the stream already had.
        sent_again: Whether this task itself may have published rows twice: after a reconnect, or because a part of an
            atomic batch was already stored.
        groups: The concatenated digests of the groups; empty if there are none.
        replayed: Data with which the driver completes a replayed batch; None if there is nothing to complete.
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
    ) -> None:
        self._options = options
        self._partition = partition
        self._name = name
        # Seconds for which the server tracks an id.
        self._window = window + WINDOW_MARGIN
        self._state: SinkState | None = None
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
        js = jetstream(client, options.connection)
        if self._name is not None and options.sink_state is not None:
            stream = options.streams[0]
            self._state = SinkState(js, options.sink_state, stream, subject=options.subject, name=self._name)
        return client, js

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
