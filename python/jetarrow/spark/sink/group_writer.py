"""Writer of one task with `atomicBy`: publishes each group of rows atomically and once."""

from __future__ import annotations

import hashlib
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

import jetarrow.sync
from jetarrow.core.errors import Error
from jetarrow.jetstream.errors import BatchError, PublishUnconfirmedError
from jetarrow.spark._core import ContentIds, is_transient, publish_rows, reason_of

from .groups import Group, Groups
from .routes import Route
from .rows import checked_headers
from .seen_ids import SeenIds
from .task_writer import DUPLICATE_IN_BATCH, TaskWriter

# Maximum number of groups of a task in flight: the server admits 50 open batches per stream, of all tasks (ADR-50).
_MAX_GROUPS = 8
# Maximum size in bytes of the groups in flight.
_MAX_BYTES = 32 << 20
# err_code for too many open batches of a stream.
_TOO_MANY_OPEN = 10210
_PAUSE = 0.05
# Number of rows of suspected groups at which the stream is read for them.
_MAX_SUSPECTS = 100_000


class GroupWriter(TaskWriter):
    """Publishes the rows of one task by groups; `options` have `atomic_by`, hence one stream and no routes.

    The ids of a group's rows are hashes of query, batch, partition, group and the content of all of its rows. If the
    server rejects the batch because it knows one of these ids, the group is stored. Ids of the user may belong to other
    rows: such a group is searched for in the stream before the task ends.
    """

    def _begin(self, scope: bytes, routes: Sequence[Route]) -> None:
        self._scope = scope
        self._seen: SeenIds | None = None
        self._suspects: list[tuple[Group, pa.Array]] = []
        # Ids of the user: two groups with the same id could not be distinguished.
        self._own = ContentIds(None)

    def write(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Publish all groups.

        Args:
            batches: Rows with the columns that `rows.check_columns` accepts.

        Returns:
            The number of rows.

        Raises:
            BatchError: A group was not stored: the first such one, with the server's codes.
            ValueError: A row cannot be published, or the rows of a group are not consecutive.
            Error: A group has changed since an earlier attempt; or no server has answered for 30 seconds.
        """
        options, column = self._options, self._options.atomic_by
        most = options.max_in_flight or sys.maxsize
        assert column is not None
        client, js = self._connect()
        groups = Groups(batches, column, keep=column in ("data", "subject", "msg_id"), partition=self._partition)
        reconnects, rows, size = client.stats["reconnects"], 0, 0
        waiting: deque[tuple[Group, pa.RecordBatch, Future[bool]]] = deque()

        def settle() -> None:
            nonlocal rows, size
            group, published, future = waiting.popleft()
            if not future.result():
                self._add_duplicate(group, published)
            rows, size = rows - published.num_rows, size - published.nbytes

        with ThreadPoolExecutor(_MAX_GROUPS, "jetarrow-spark-group") as pool:
            for group in groups:
                if self._retried is not None and self._retried.is_due:
                    while waiting:
                        settle()
                    self._retried.confirm()
                if (missing := self._prepare(js, group)) is None:
                    continue
                rows, size = rows + missing.num_rows, size + missing.nbytes
                while waiting and (rows > most or size > _MAX_BYTES or len(waiting) >= _MAX_GROUPS):
                    settle()
                waiting.append((group, missing, pool.submit(self._store, js, group, missing)))
            while waiting:
                settle()
        if self._retried is not None:
            self._retried.confirm()
        self._verify_suspects()
        self.sent_again |= client.stats["reconnects"] != reconnects
        self._finish()
        self.groups = b"".join(sorted(groups.seen))
        return groups.count

    def _prepare(self, js: jetarrow.sync.JetStream, group: Group) -> pa.RecordBatch | None:
        """Return the group with ids; None if it is stored according to the sink's state."""
        piece, own = checked_headers(group.rows, self._options.reserved_headers, first_row=group.first_row), None
        ids = pa.array(ContentIds(self._scope + b":" + group.digest).column(piece, self._options.subject))
        if "msg_id" in piece.schema.names and piece.column("msg_id").null_count < piece.num_rows:
            own = piece.column("msg_id").is_valid()
            if (repeated := self._own.column(piece, self._options.subject).repeated) is not None:
                row, msg_id = repeated
                raise self._repeated(group.first_row + row, msg_id)
            if self._seen is None:
                self._seen = SeenIds(js, self._options.streams[0], window=self._window)
        else:
            ids = _ids_of_all(ids, self._tag if self._state is None else "")
        if "msg_id" in piece.schema.names:
            self._prefix = ""
        columns = {name: piece.column(name) for name in piece.schema.names if name != "msg_id"}
        piece = pa.RecordBatch.from_pydict(columns | {"msg_id": ids})
        if self._state is None:
            missing, _ = self._missing(js, piece, self._options.streams[0])
        else:
            missing = self._state.note(piece, own)
        if 0 < missing.num_rows < piece.num_rows:
            raise self._changed(group, piece.num_rows - missing.num_rows)
        return missing if missing.num_rows else None

    def _store(self, js: jetarrow.sync.JetStream, group: Group, rows: pa.RecordBatch) -> bool:
        """Store one group; return False if the server knows an id of it."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                self._publish(js, group, rows)
                return True
            except BatchError as error:
                if error.err_code == DUPLICATE_IN_BATCH:
                    return False
                if error.err_code != _TOO_MANY_OPEN or time.monotonic() > deadline:
                    raise self._failed(group, error) from error
            except Error as error:
                # The result is unknown; ids detect a stored group at the next attempt.
                is_retried = isinstance(error, PublishUnconfirmedError) or is_transient(error)
                if not is_retried or time.monotonic() > deadline:
                    raise
                self.sent_again = True
            time.sleep(_PAUSE)

    def _publish(self, js: jetarrow.sync.JetStream, group: Group, rows: pa.RecordBatch) -> None:
        publish_rows(
            js,
            rows,
            subject=self._options.subject,
            first_row=group.first_row,
            mode="atomic",
            expected_stream=self._options.stream,
            max_inflight=max(1, rows.num_rows),
            timeout=self._timeout,
        )

    def _add_duplicate(self, group: Group, rows: pa.RecordBatch) -> None:
        self.duplicates += rows.num_rows
        if "msg_id" in group.rows.schema.names and group.rows.column("msg_id").null_count < group.rows.num_rows:
            self._suspects.append((group, rows.column("msg_id")))
            if sum(len(ids) for _, ids in self._suspects) > _MAX_SUSPECTS:
                self._verify_suspects()

    def _verify_suspects(self) -> None:
        """Check that the stream has all rows of the groups of which it knows an id."""
        if not self._suspects:
            return
        assert self._seen is not None  # created before the first row with an id of the user
        found = self._seen.of(pa.concat_arrays([ids for _, ids in self._suspects]))
        for group, ids in self._suspects:
            known = pc.sum(pc.is_in(ids, value_set=found)).as_py()
            if known < len(ids):
                raise self._changed(group, known)
        self._suspects = []

    def _failed(self, group: Group, cause: Exception) -> BatchError:
        row = getattr(cause, "row", None)
        return BatchError(
            f"jetstream: could not store group {self._options.atomic_by}={group.value!r} in"
            f" {self._options.target}, and none of its rows is; it begins with row {group.first_row} of partition"
            f" {self._partition}: {reason_of(cause)}",
            row=group.first_row if row is None else row,
        )

    def _changed(self, group: Group, known: int) -> Error:
        return Error(
            f"jetstream: could not store group {self._options.atomic_by}={group.value!r}: {self._options.target} has"
            f" {known} of its {group.rows.num_rows} rows, because it has changed since an earlier attempt, or rows of"
            " another group have their ids; atomicBy needs deterministic rows (no rand(), no current_timestamp()), each"
            " with a unique msg_id"
        )


def _ids_of_all(ids: pa.Array, tag: str) -> pa.Array:
    """Return ids that each identify the whole group: a tag, a hash of the row ids in any order, and a number."""
    whole = hashlib.blake2b("".join(sorted(one or "" for one in ids.to_pylist())).encode(), digest_size=16).hexdigest()
    return pa.array([f"{tag}{whole[len(tag) :]}.{number}" for number in range(len(ids))])
