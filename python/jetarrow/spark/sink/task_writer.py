"""What the two ways to write a task's rows share: what they are told, whom they reach, what they remember."""

from __future__ import annotations

from collections.abc import Sequence

import jetarrow.sync
from jetarrow.spark.connection import jetstream, retry_transient, shared_client
from jetarrow.spark.options.write import WriteOptions

from .routes import Route
from .state import BatchName, SinkState

# A server that is silent for longer, in seconds, is given up: the task fails, and Spark tries it again.
ANSWER_TIMEOUT = 30.0
# The server's number for a message id of an atomic batch that it knows already.
DUPLICATE_IN_BATCH = 10201
# Seconds added to the duplicate window: the server forgets ids a little later than it says.
WINDOW_MARGIN = 30.0


class TaskWriter:
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
        groups: The digests of the groups, one behind the other; empty where there are none.
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
        # For so long, in seconds, the server knows an id.
        self._window = window + WINDOW_MARGIN
        self._state: SinkState | None = None
        self.duplicates = 0
        self.sent_again = False
        self.groups = b""
        self._begin(scope.encode(), routes)

    def _begin(self, scope: bytes, routes: Sequence[Route]) -> None:
        """Set up what one of the two needs besides."""
        raise NotImplementedError

    def _connect(self) -> tuple[jetarrow.sync.Client, jetarrow.sync.JetStream]:
        """Connect the task, and take over what is remembered of it.

        Raises:
            Exception: As `connection.connect`, after a minute without a server; or as `SinkState`.
        """
        options = self._options
        # The driver has reached a server a moment ago: one that restarts just now is waited for.
        client = retry_transient(lambda: shared_client(options.connection))
        js = jetstream(client, options.connection)
        if self._name is not None and options.sink_state is not None:
            stream = options.streams[0]
            self._state = SinkState(js, options.sink_state, stream, subject=options.subject, name=self._name)
        return client, js

    def _finish(self) -> None:
        """All rows have their answer: what is remembered is written, and what was remembered counts."""
        if self._state is not None:
            self._state.finish()
            self.duplicates += self._state.skipped
            self.sent_again |= self._state.skipped > 0

    def _repeated(self, row: int, msg_id: str) -> ValueError:
        """Make the error for a row (its number in the partition) with the id of another one of its task."""
        return ValueError(
            f"jetstream: row {row} of partition {self._partition} has the msg_id {msg_id!r} of another"
            " row of it: the stream would drop it as a duplicate. An id stands for one row of the output (concat"
            " more columns into it); rows that are meant to be one are made one by dropDuplicates(['msg_id'])"
        )
