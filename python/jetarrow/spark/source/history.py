"""Detection of rollbacks of streams behind the positions of a query; see docs/rollback.md."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jetarrow.jetstream.errors import StreamRolledBackError
from jetarrow.jetstream.models import StreamInfo
from jetarrow.spark._core import Mark, Witness, error_without_marks, thin, verify_marks
from jetarrow.spark.options.choices import OnRollback

from .metadata import Lookup, end_sequence, first_sequence
from .offsets import Entry

# Seconds for which a new leader may lag behind the newest messages.
_NEW_LEADER_TIMEOUT = 2.0
_RETRY_PAUSE = 0.1


class History:
    """Compares messages that a query has read with the streams: at its start, and after reconnects and elections.

    Args:
        on_rollback: Reaction to a rollback behind the position.
    """

    def __init__(self, on_rollback: OnRollback) -> None:
        self._on_rollback = on_rollback
        # By stream: connection, leader and last sequence of the last check.
        self._seen: dict[str, tuple[Witness, str | None, int]] = {}

    def standing(self, name: str, entry: Entry, info: StreamInfo, lookup: Lookup) -> Entry:
        """Return the position at which a query continues, which differs after a rollback behind its position.

        Args:
            name: Name of the stream.
            entry: Position of the query.
            info: Present info of the stream.
            lookup: Lookup of messages.

        Raises:
            StreamRolledBackError: The stream was rolled back, and `onRollback` is fail.
        """
        leader = info.cluster.leader if info.cluster is not None else None
        now = (lookup.witness, leader, info.state.last_seq)
        before = self._seen.get(name)
        if before is not None and before[:2] == now[:2] and before[2] <= now[2] and entry.next <= now[2] + 1:
            self._seen[name] = now
            return entry
        error = self._contradiction(name, entry, info, lookup)
        if error is None:
            self._seen[name] = now
            return entry
        # Spark keeps the invalid position until a batch has ended, so it is checked again.
        self._seen.pop(name, None)
        if self._on_rollback == OnRollback.FAIL:
            raise error
        if self._on_rollback == OnRollback.EARLIEST or error.last_good is None:
            warnings.warn(f"jetstream: {error.summary}; this query restarts at its first message", stacklevel=3)
            return replace(entry, next=first_sequence(info), initial="earliest", marks=())
        warnings.warn(f"jetstream: {error.summary}; this query continues after that", stacklevel=3)
        good = error.last_good[0]
        return replace(entry, next=good + 1, initial=None, marks=tuple(mark for mark in entry.marks if mark[0] <= good))

    def is_lost(self, name: str, entry: Entry, info: StreamInfo, lookup: Lookup) -> bool:
        """Return whether a stream was rolled back behind a position.

        Args:
            name: Name of the stream.
            entry: The position.
            info: Recent info of the stream.
            lookup: Lookup of messages.

        Raises:
            StreamRolledBackError: The stream was rolled back, and `onRollback` is fail.
        """
        error = self._contradiction(name, entry, info, lookup)
        if error is not None and self._on_rollback == OnRollback.FAIL:
            raise error
        return error is not None

    def _contradiction(self, name: str, entry: Entry, info: StreamInfo, lookup: Lookup) -> StreamRolledBackError | None:
        """Return the difference of a stream from its messages read before; None if none is detected."""
        error = verify(name, entry.marks, info, lookup)
        if error is not None or entry.initial == "ahead":
            return error
        until = time.monotonic() + _NEW_LEADER_TIMEOUT
        last = info.state.last_seq
        while last + 1 < entry.next:
            if time.monotonic() > until:
                return spark_error(error_without_marks(name, last, entry.next - 1))
            time.sleep(_RETRY_PAUSE)
            last = lookup.info(name).state.last_seq
        return None


def verify(name: str, marks: Sequence[Mark], info: StreamInfo, lookup: Lookup) -> StreamRolledBackError | None:
    """Compare marks with a stream; at most one request if they match, none if the newest is the last message.

    Args:
        name: Name of the stream.
        marks: Sequences and times of messages read before.
        info: Recent info of the stream.
        lookup: Lookup of messages.
    """
    if not marks:
        return None
    extent = (info.state.first_seq, info.state.last_seq, info.state.last_ns)
    error = lookup.retry(lambda: verify_marks(lookup.js, name, marks, extent=extent))
    return None if error is None else spark_error(error)


def spark_error(error: StreamRolledBackError) -> StreamRolledBackError:
    """Return the error with the remedies in Spark.

    Args:
        error: The error of the core.
    """
    message = (
        f"jetstream: {error.summary}; messages read after it are of another history: check the server, then load it"
        " again, or for a streaming query use a new checkpoint, or set onRollback to continue (after the last message"
        " that the stream still has) or earliest"
    )
    return StreamRolledBackError(error.stream, error.expected, error.found, error.last_good, message=message)


def marks_before(
    ends: Mapping[str, int],
    infos: Mapping[str, StreamInfo],
    lookup: Lookup,
    *,
    known: Mapping[str, Sequence[Mark]] | None = None,
) -> dict[str, tuple[Mark, ...]]:
    """Return marks of positions, by which rollbacks of the streams are detected later.

    It costs one request for each stream that is not read to its end.

    Args:
        ends: Positions: the sequence to read next, by stream.
        infos: Present info of the streams.
        lookup: Lookup of the preceding message, unless it is the stream's last one.
        known: Marks of earlier positions, and the last messages that filters match. Default: none.
    """
    found: dict[str, set[Mark]] = {}
    asked = {}
    for name, end in ends.items():
        info, marks = infos[name], found.setdefault(name, set((known or {}).get(name, ())))
        if end == end_sequence(info):
            marks |= {(end - 1, last)} if (last := info.state.last_ns) is not None else set()
        elif end > 1 and all(mark[0] != end - 1 for mark in marks):
            asked[name] = end - 1
    for name, mark in lookup.at(asked).items():
        found[name] |= {mark} if mark is not None else set()
    return {name: tuple(thin(mark for mark in found[name] if mark[0] < end)) for name, end in ends.items()}
