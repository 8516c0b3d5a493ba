"""What one task of a write with `atomicBy` does: each group of rows into the stream, whole or not at all, and once."""

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
from .rows import check_headers
from .seen_ids import SeenIds
from .task_writer import ANSWER_TIMEOUT, DUPLICATE_IN_BATCH, TaskWriter

# Groups of a task that are unanswered at once: the server has room for 50 open batches of a stream, from all tasks.
_SIDE_BY_SIDE = 8
_MOST_BYTES = 32 << 20
# The server's number for a stream with too many open batches.
_TOO_MANY_OPEN = 10210
_PAUSE = 0.05
# Rows of groups that are to be looked for in the stream, before it is read for them.
_MOST_SUSPECTS = 100_000


class GroupWriter(TaskWriter):
    """Publishes the rows of one task, a group at a time; `options` have `atomic_by`, hence one stream and no routes.

    The ids of a group's rows are made of query, batch, partition, group and all that its rows say, so that one of them
    stands for all: where the server refuses the batch because it knows one, the group is stored. Ids that the rows
    bring may be those of other rows: such a group is looked for in the stream before the task ends.
    """

    def _begin(self, scope: bytes, routes: Sequence[Route]) -> None:
        self._scope = scope
        self._seen: SeenIds | None = None
        self._suspects: list[tuple[Group, pa.Array]] = []
        # Of rows that bring their ids: two groups with one id would be taken for each other.
        self._own = ContentIds(None)

    def write(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Publish all groups.

        Args:
            batches: Rows with the columns that `rows.check_columns` lets pass.

        Returns:
            How many rows there were.

        Raises:
            BatchError: A group was not stored: the first such one, with the server's codes.
            ValueError: A row cannot be published, or rows of a group do not follow each other.
            Error: A group has changed since an earlier attempt; no server, or it was silent for 30 seconds.
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
                self._was_there(group, published)
            rows, size = rows - published.num_rows, size - published.nbytes

        with ThreadPoolExecutor(_SIDE_BY_SIDE, "jetarrow-spark-group") as pool:
            for group in groups:
                if (missing := self._prepare(js, group)) is None:
                    continue
                rows, size = rows + missing.num_rows, size + missing.nbytes
                while waiting and (rows > most or size > _MOST_BYTES or len(waiting) >= _SIDE_BY_SIDE):
                    settle()
                waiting.append((group, missing, pool.submit(self._store, js, group, missing)))
            while waiting:
                settle()
        self._look_for_suspects()
        self.sent_again |= client.stats["reconnects"] != reconnects
        self._finish()
        self.groups = b"".join(sorted(groups.seen))
        return groups.count

    def _prepare(self, js: jetarrow.sync.JetStream, group: Group) -> pa.RecordBatch | None:
        """The group with ids; None where the target's state says that it is stored."""
        piece, own = group.rows, None
        if "headers" in piece.schema.names:
            check_headers(piece, first_row=group.first_row)
        ids = pa.array(ContentIds(self._scope + b":" + group.digest).column(piece, self._options.subject))
        if "msg_id" in piece.schema.names and piece.column("msg_id").null_count < piece.num_rows:
            own = piece.column("msg_id").is_valid()
            if (repeated := self._own.column(piece, self._options.subject).repeated) is not None:
                row, msg_id = repeated
                raise self._repeated(group.first_row + row, msg_id)
            if self._seen is None:
                self._seen = SeenIds(js, self._options.streams[0], window=self._window)
        else:
            ids = _ids_of_all(ids)
        columns = {name: piece.column(name) for name in piece.schema.names if name != "msg_id"}
        piece = pa.RecordBatch.from_pydict(columns | {"msg_id": ids})
        if self._state is None:
            return piece
        missing = self._state.note(piece, own)
        if 0 < missing.num_rows < piece.num_rows:
            raise self._changed(group, piece.num_rows - missing.num_rows)
        return missing if missing.num_rows else None

    def _store(self, js: jetarrow.sync.JetStream, group: Group, rows: pa.RecordBatch) -> bool:
        """Store one group; False where the server knows an id of it."""
        deadline = time.monotonic() + ANSWER_TIMEOUT
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
                # Stored or not: at the next attempt the ids tell.
                passes = isinstance(error, PublishUnconfirmedError) or is_transient(error)
                if not passes or time.monotonic() > deadline:
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
            timeout=ANSWER_TIMEOUT,
        )

    def _was_there(self, group: Group, rows: pa.RecordBatch) -> None:
        self.duplicates += rows.num_rows
        if "msg_id" in group.rows.schema.names and group.rows.column("msg_id").null_count < group.rows.num_rows:
            self._suspects.append((group, rows.column("msg_id")))
            if sum(len(ids) for _, ids in self._suspects) > _MOST_SUSPECTS:
                self._look_for_suspects()

    def _look_for_suspects(self) -> None:
        """Check that the stream has all of the groups of which it knows an id."""
        if not self._suspects:
            return
        assert self._seen is not None  # made before the first row with an id of its own
        found = self._seen.of(pa.concat_arrays([ids for _, ids in self._suspects]))
        for group, ids in self._suspects:
            known = pc.sum(pc.is_in(ids, value_set=found)).as_py()
            if known < len(ids):
                raise self._changed(group, known)
        self._suspects = []

    def _failed(self, group: Group, cause: Exception) -> BatchError:
        row = getattr(cause, "row", None)
        return BatchError(
            f"jetstream: the group {self._options.atomic_by}={group.value!r} could not be stored in"
            f" {self._options.target}, and nothing of it was; it begins with row {group.first_row} of partition"
            f" {self._partition}: {reason_of(cause)}",
            row=group.first_row if row is None else row,
        )

    def _changed(self, group: Group, known: int) -> Error:
        return Error(
            f"jetstream: of the {group.rows.num_rows} rows of the group {self._options.atomic_by}={group.value!r}"
            f" {self._options.target} has {known}: it has changed since an earlier attempt, or rows of another"
            " group have their ids. atomicBy needs rows that are the same whenever they are computed (no rand(), no"
            " current_timestamp()), and one msg_id for each"
        )


def _ids_of_all(ids: pa.Array) -> pa.Array:
    """Ids that stand for the whole group each: numbers behind a hash of the ids of its rows, in whatever order."""
    whole = hashlib.blake2b("".join(sorted(one or "" for one in ids.to_pylist())).encode(), digest_size=16).hexdigest()
    return pa.array([f"{whole}.{number}" for number in range(len(ids))])
