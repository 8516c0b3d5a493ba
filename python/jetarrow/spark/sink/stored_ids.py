"""Message ids that a stream has stored since a write was planned, for an attempt that sends rows again.

The server drops a row whose id it stored less than the duplicate window ago. An attempt that knows all ids stored until
some time may therefore send the other rows until the window has passed since that time. When the write is planned, no
row of it is stored. Later the attempt reads the ids again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from time import monotonic
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

import jetarrow.sync
from jetarrow.core.errors import PermissionsViolationError
from jetarrow.spark._core import Loss, RangeReader
from jetarrow.spark.connection import retry_transient

from .positions import Position, position_of
from .seen_ids import message_ids

# Part of the duplicate window after which ids are read again before a row is sent. The rest is for the time until the
# row is stored, and for differences of clocks.
_LOOKUP_SHARE = 0.25
# Part of the duplicate window within which the rows must have been stored.
_PROOF_SHARE = 0.9
# Maximum number of ids kept by an attempt: about 40 bytes each.
_MAX_IDS = 5_000_000
# Maximum number of reads in a row that each take longer than the ids are valid.
_MAX_READS = 20
_ADVICE = (
    "increase the stream's duplicate_window to more than the time for which Spark retries a task, or use a streaming"
    " query with exactlyOnce=state"
)


class IdSource(Protocol):
    """A stream whose messages have ids."""

    def position(self) -> Position:
        """Return its present position."""

    def ids(self, first: int, end: int) -> Iterator[tuple[int, pa.Array]]:
        """Yield the number of messages, and the ids that may be those of the task, of parts of a range."""


class StoredIds:
    """The ids that one stream has stored since a write was planned, as known to one attempt of a task.

    Args:
        source: The stream.
        stream: Its name, for messages.
        planned: Its position when the write was planned; None if it is unknown.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self, source: IdSource, stream: str, planned: Position | None, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._source, self._stream, self._clock = source, stream, clock
        asked = clock()
        now = source.position()
        self._created = now.created if planned is None else planned.created
        if planned is None or now.created != self._created:
            self._window = now.window
            raise self._unknown("it was created after the write was planned")
        self._window = min(now.window, planned.window)
        # Last sequence up to which ids are known, and the clock at that position.
        self._last = planned.seq
        self._since = asked - max(0.0, now.time - planned.time) if planned.time else -inf
        self._known = self._twice = pa.array([], pa.string())
        self._unproven: list[pa.Array] = []
        self._unproven_since: float | None = None

    @property
    def is_due(self) -> bool:
        """Whether `contains` reads the stream before the next row."""
        return self._clock() - self._since > self._window * _LOOKUP_SHARE

    def contains(self, ids: pa.Array) -> pa.Array:
        """Return whether each of the ids is stored. The others may be sent at once.

        Args:
            ids: Ids of rows of the task; null for rows without.

        Raises:
            ValueError: The stored ids are unknown, or a row was stored twice.
        """
        if self.is_due:
            self._look_up()
        if self._unproven_since is None:
            self._unproven_since = self._since
        self._check_once(ids)
        found = pc.is_in(ids, value_set=self._known, skip_nulls=True)
        self._unproven.append(ids.filter(pc.and_(pc.invert(found), ids.is_valid())))
        return found

    def confirm(self) -> None:
        """Check that the rows sent since the last call were stored once; call it after they are acknowledged.

        Raises:
            ValueError: A row was stored twice, or its result is unknown.
        """
        since, self._unproven_since = self._unproven_since, None
        sent, self._unproven = self._unproven, []
        if since is None or self._clock() - since < self._window * _PROOF_SHARE:
            return
        # The window has passed between the last look at the stream and the acks, for example in a slow stage before.
        self._look_up()
        self._check_once(pa.concat_arrays([pa.array([], pa.string()), *sent]))

    def _look_up(self) -> None:
        """Read the ids stored since the last position."""
        found = [self._known, self._twice]
        for _ in range(_MAX_READS):
            asked = self._clock()
            now = self._source.position()
            if now.created != self._created:
                raise self._unknown("it was created after the write was planned")
            self._window = min(self._window, now.window)
            if now.seq > self._last:
                found.extend(self._read(self._last + 1, now.seq + 1))
            behind, self._last, self._since = now.seq - self._last, now.seq, asked
            # A read that took long is continued, because its ids are known only until its begin.
            if behind == 0 or self._clock() - asked <= self._window * _LOOKUP_SHARE:
                break
        else:
            raise self._unknown("it stores messages faster than their ids can be read")
        counts = pc.value_counts(pa.concat_arrays(found))
        self._known = counts.field("values")
        self._twice = self._known.filter(pc.greater(counts.field("counts"), 1))

    def _read(self, first: int, end: int) -> Iterator[pa.Array]:
        messages, total = 0, len(self._known)
        try:
            for count, ids in self._source.ids(first, end):
                messages, total = messages + count, total + len(ids)
                if total > _MAX_IDS:
                    raise self._unknown(f"it has stored more than {_MAX_IDS:,} messages with ids since then")
                yield ids
        except PermissionsViolationError as error:
            raise self._unknown(f"this user may not read it ({error})") from None
        if messages != end - first:
            raise self._unknown(f"{end - first - messages} of its messages from {first} on were removed since")

    def _check_once(self, ids: pa.Array) -> None:
        """Check that none of the ids is stored twice."""
        twice = ids.filter(pc.is_in(ids, value_set=self._twice, skip_nulls=True))
        if len(twice):
            raise ValueError(
                f"jetstream: {len(twice)} rows are stored twice in stream {self._stream!r}, because an attempt of their"
                f" task sent them again after the duplicate window ({self._window:g} s), the first with the id"
                f" {twice[0].as_py()!r}; {_ADVICE}"
            )

    def _unknown(self, why: str) -> ValueError:
        return ValueError(
            f"jetstream: could not write the rows of a retried task: stream {self._stream!r} no longer recognises those"
            f" of an earlier attempt (its duplicate window has passed), and {why}; {_ADVICE}"
        )


class RetriedRows:
    """Finds the rows that the streams of a task have from an earlier attempt.

    Args:
        js: The context.
        planned: Positions of the streams when the write was planned.
        prefix: Prefix of the ids of the task; empty if they have none.
    """

    def __init__(self, js: jetarrow.sync.JetStream, planned: Mapping[str, Position], *, prefix: str) -> None:
        self._js, self._planned, self._prefix = js, planned, prefix
        self._streams: dict[str, StoredIds] = {}

    @property
    def is_due(self) -> bool:
        """Whether `stored` reads a stream before the next row."""
        return any(stream.is_due for stream in self._streams.values())

    def stored(self, ids: pa.Array, streams: pa.Array | str) -> pa.Array:
        """Return whether each row is stored.

        Args:
            ids: The ids of the rows; null for rows without.
            streams: The stream of all rows, or that of each; null for rows without.

        Raises:
            ValueError: As `StoredIds.contains`.
        """
        if isinstance(streams, str):
            return self._of(streams).contains(ids)
        found = pa.array([False] * len(ids), pa.bool_())
        for name in streams.unique().drop_null().to_pylist():
            ours = pc.fill_null(pc.equal(streams, name), False)
            found = pc.or_(found, self._of(name).contains(pc.if_else(ours, ids, None)))
        return found

    def confirm(self) -> None:
        """Check that the rows sent since the last call were stored once; call it after they are acknowledged.

        Raises:
            ValueError: As `StoredIds.confirm`.
        """
        for stream in self._streams.values():
            stream.confirm()

    def _of(self, name: str) -> StoredIds:
        if name not in self._streams:
            source = StreamIds(self._js, name, prefix=self._prefix)
            self._streams[name] = StoredIds(source, name, self._planned.get(name))
        return self._streams[name]


class StreamIds:
    """Ids of the messages of a stream, read from their headers.

    Args:
        js: The context.
        stream: Name of the stream.
        prefix: Prefix of the ids to return; empty for all.
    """

    def __init__(self, js: jetarrow.sync.JetStream, stream: str, *, prefix: str) -> None:
        self._js, self._stream, self._prefix = js, stream, prefix

    def position(self) -> Position:
        """Return the stream's present position.

        Raises:
            NotFoundError: The stream does not exist.
        """
        return position_of(self._js, self._stream)

    def ids(self, first: int, end: int) -> Iterator[tuple[int, pa.Array]]:
        """Yield the number of messages and the ids of parts of a range, without removed messages.

        Args:
            first: The first sequence.
            end: The sequence after the last one.

        Raises:
            TimeoutError: No server has responded for 60 s.
        """
        reader = retry_transient(
            lambda: RangeReader(self._js, self._stream, start_seq=first, end_seq=end, columns=["headers"])
        )
        try:
            while (item := reader.next()) is not None:
                if isinstance(item, Loss):
                    continue
                headers = pa.record_batch(item).column("headers")
                ids = message_ids(headers)
                yield len(headers), ids.filter(pc.starts_with(ids, self._prefix)) if self._prefix else ids
        finally:
            reader.close()
