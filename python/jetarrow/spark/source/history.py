"""Whether streams still have what a query has read of them; see docs/rollback.md."""

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

# How long a new leader may not know the newest messages yet, in seconds.
_NEW_LEADER_TIMEOUT = 2.0
_RETRY_PAUSE = 0.1


class History:
    """What a query has read, compared with the streams: at its start, and after whatever raises a doubt.

    Args:
        on_rollback: What becomes of a position that has no meaning any more.
    """

    def __init__(self, on_rollback: OnRollback) -> None:
        self._on_rollback = on_rollback
        # Per stream: the link and the leader that it was seen under, and its last sequence then.
        self._seen: dict[str, tuple[Witness, str | None, int]] = {}

    def standing(self, name: str, entry: Entry, info: StreamInfo, lookup: Lookup) -> Entry:
        """Return where a query goes on: where it stood, unless the stream went back behind that.

        Args:
            name: Name of the stream.
            entry: Where it stood.
            info: The stream as it is now.
            lookup: To look at messages.

        Raises:
            StreamRolledBackError: It did, and that is an error here.
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
        # Spark has the position that does not hold until a batch has ended elsewhere: it stays in doubt.
        self._seen.pop(name, None)
        if self._on_rollback == OnRollback.FAIL:
            raise error
        if self._on_rollback == OnRollback.EARLIEST or error.last_good is None:
            warnings.warn(f"jetstream: {error.summary}; this query begins at its first message", stacklevel=3)
            return replace(entry, next=first_sequence(info), initial="earliest", marks=())
        warnings.warn(f"jetstream: {error.summary}; this query goes on behind that", stacklevel=3)
        good = error.last_good[0]
        return replace(entry, next=good + 1, initial=None, marks=tuple(mark for mark in entry.marks if mark[0] <= good))

    def is_lost(self, name: str, entry: Entry, info: StreamInfo, lookup: Lookup) -> bool:
        """Whether a stream went back behind a position.

        Args:
            name: Name of the stream.
            entry: The position.
            info: The stream as it was a moment ago.
            lookup: To look at messages.

        Raises:
            StreamRolledBackError: It did, and that is an error here.
        """
        error = self._contradiction(name, entry, info, lookup)
        if error is not None and self._on_rollback == OnRollback.FAIL:
            raise error
        return error is not None

    def _contradiction(self, name: str, entry: Entry, info: StreamInfo, lookup: Lookup) -> StreamRolledBackError | None:
        """How a stream differs from what was read of it; None where nothing says that it does."""
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
    """Compare messages that were seen with a stream; a request at most where it holds, none if the newest is its last.

    Args:
        name: Name of the stream.
        marks: Their sequences and times.
        info: The stream as it was a moment ago.
        lookup: To ask it.
    """
    if not marks:
        return None
    extent = (info.state.first_seq, info.state.last_seq, info.state.last_ns)
    error = lookup.retry(lambda: verify_marks(lookup.js, name, marks, extent=extent))
    return None if error is None else spark_error(error)


def spark_error(error: StreamRolledBackError) -> StreamRolledBackError:
    """Return the error with what can be done in Spark.

    Args:
        error: As the core says it.
    """
    message = (
        f"jetstream: {error.summary}; what was read after it is another history: look into the server, then load it"
        " again, or with a streaming query begin with a new checkpoint, or set onRollback to continue (behind the last"
        " message that is still there) or earliest"
    )
    return StreamRolledBackError(error.stream, error.expected, error.found, error.last_good, message=message)


def marks_before(
    ends: Mapping[str, int],
    infos: Mapping[str, StreamInfo],
    lookup: Lookup,
    *,
    known: Mapping[str, Sequence[Mark]] | None = None,
) -> dict[str, tuple[Mark, ...]]:
    """Return what is kept of positions, so that it can be told later whether the streams are still the same.

    Costs one request for each stream that is not read to its end.

    Args:
        ends: The positions: the sequence to read next, by stream.
        infos: The streams as they are now.
        lookup: To look at the message before, where that is not the stream's last.
        known: Marks of earlier positions, and the last messages that filters match. Default: none.
    """
    found: dict[str, set[Mark]] = {}
    asked = {}
    for name, end in ends.items():
        info, marks = infos[name], found.setdefault(name, set((known or {}).get(name, ())))
        if end == end_sequence(info):
            marks |= {(end - 1, last)} if (last := info.state.last_ns) is not None else set()
        elif all(mark[0] != end - 1 for mark in marks):
            asked[name] = end - 1
    for name, mark in lookup.at(asked).items():
        found[name] |= {mark} if mark is not None else set()
    return {name: tuple(thin(mark for mark in found[name] if mark[0] < end)) for name, end in ends.items()}
