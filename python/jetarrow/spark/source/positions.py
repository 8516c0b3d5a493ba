"""Positions of a streaming query: initial, current and latest."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import replace

from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.models import RetentionPolicy, StreamInfo
from jetarrow.spark._core import Mark
from jetarrow.spark.options.bounds import EARLIEST, LATEST
from jetarrow.spark.options.choices import CommitMode, FailOnDataLoss, OnRecreated
from jetarrow.spark.options.read import ReadOptions

from .history import History, marks_before, verify
from .metadata import Lookup, check_created, created, end_sequence, first_sequence, retention
from .offsets import Entry, Offset
from .read_plan import filters_for


class Positions:
    """Positions in the streams of one query.

    Args:
        options: Validated options.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        # By stream: its last sequence and creation time, and the mark of the last message that the filters match.
        self._matched: dict[str, tuple[tuple[int, str], Mark | None]] = {}
        self.history = History(options.on_rollback)

    def initial(self, name: str, info: StreamInfo, lookup: Lookup) -> Entry:
        """Return the initial position of a new query in one stream.

        Args:
            name: Name of the stream.
            info: Present info of the stream.
            lookup: Lookup of times.
        """
        options, latest = self._options, end_sequence(info)
        if options.start.time is not None:
            found = lookup.first_at(name, options.start.time)
            return Entry(created(info), latest if found is None else found)
        whole = options.commit_mode == CommitMode.PURGE or retention(info) == RetentionPolicy.WORK_QUEUE
        position = options.start.of(name, EARLIEST if whole else LATEST)
        if position == EARLIEST:
            return _first(info)
        if position == LATEST:
            return Entry(created(info), latest)
        return Entry(created(info), position, "ahead" if position > latest else None)

    def ends(self, infos: Mapping[str, StreamInfo], lookup: Lookup) -> dict[str, int]:
        """Return the sequence after the last matching message, by stream; other messages would cause empty batches.

        Args:
            infos: Present info of the streams.
            lookup: Lookup of the last matching messages of streams with new messages.
        """
        if not self._options.subjects:
            return {name: end_sequence(info) for name, info in infos.items()}
        asked = {name: filters for name, info in infos.items() if (filters := filters_for(self._options, info))}
        now = {name: (infos[name].state.last_seq, created(infos[name])) for name in asked}
        new = {name: filters for name, filters in asked.items() if self._matched.get(name, (None, 0))[0] != now[name]}
        for name, last in lookup.last_matches(new).items():
            self._matched[name] = (now[name], last)

        def end(name: str) -> int:
            last = self._matched[name][1] if name in asked else (end_sequence(infos[name]) - 1, 0)
            return 1 if last is None else last[0] + 1

        return {name: end(name) for name in infos}

    def kept(
        self,
        ends: Mapping[str, int],
        infos: Mapping[str, StreamInfo],
        lookup: Lookup,
        *,
        known: Mapping[str, Entry] | None = None,
    ) -> dict[str, Entry]:
        """Return positions with marks, by which rollbacks are detected later.

        Args:
            ends: Sequences of the positions, by stream.
            infos: Present info of the streams.
            lookup: As for `history.marks_before`.
            known: Earlier positions. Default: none.
        """
        seen = {name: list(known[name].marks) if known else [] for name in ends}
        for name, marks in seen.items():
            if (matched := self._matched.get(name, (None, None))[1]) is not None:
                marks.append(matched)
        found = marks_before(ends, infos, lookup, known=seen)
        return {name: Entry(created(infos[name]), end, None, found[name]) for name, end in ends.items()}

    def current(self, begin: Offset, infos: Mapping[str, StreamInfo], lookup: Lookup) -> dict[str, Entry]:
        """Return the current positions of the query, by stream; new streams start at their first message.

        Args:
            begin: Begin of the next batch.
            infos: Present info of the streams.
            lookup: Lookup of messages.

        Raises:
            NotFoundError: A stream selected by `streamPattern` was deleted, and `failOnDataLoss` is not false.
            ValueError: The checkpoint is of a query that reads other streams.
            StreamRecreatedError: As `standing`.
            StreamRolledBackError: As `standing`.
        """
        pattern, options = self._options.pattern, self._options
        if pattern is None and begin.streams and not begin.streams.keys() & infos.keys():
            raise ValueError(
                f"jetstream: this checkpoint is of a query that reads {_listed(begin.streams)}, not {_listed(infos)}:"
                " give every query its own checkpointLocation"
            )
        for name in begin.streams.keys() - infos.keys():
            found_by_pattern = pattern is not None and re.fullmatch(pattern, name)
            if found_by_pattern and options.fail_on_data_loss != FailOnDataLoss.FALSE:
                raise NotFoundError(
                    message=f"jetstream: stream {name!r} was deleted, and its unread messages are lost; set"
                    " failOnDataLoss=false to continue without it"
                )
        now = {
            name: self.standing(name, begin.streams[name], info, lookup) if name in begin.streams else _first(info)
            for name, info in infos.items()
        }
        return {**begin.streams, **now}

    def standing(self, name: str, entry: Entry, info: StreamInfo, lookup: Lookup) -> Entry:
        """Return the position of the query in a stream that may have been created again or rolled back.

        Args:
            name: Name of the stream.
            entry: Last position.
            info: Present info of the stream.
            lookup: Lookup of messages.

        Raises:
            StreamRecreatedError: The stream was created again, and `onRecreated` is fail.
            StreamRolledBackError: The stream was rolled back behind the position, and `onRollback` is fail.
        """
        now = created(info)
        if self.is_over(name, entry, info):
            warnings.warn(
                f"jetstream: stream {name!r} of {entry.created} was deleted and created again at {now}: this query"
                " restarts at its first message (onRecreated=earliest); unread messages of the old stream are lost",
                stacklevel=2,
            )
            return _first(info)
        if entry.created != now:
            error = verify(name, entry.marks, info, lookup)
            if error is not None:
                warnings.warn(
                    f"jetstream: {error.summary}; its sequences are considered the same (onRecreated=continue)",
                    stacklevel=2,
                )
            entry = replace(entry, created=now, marks=() if error is not None else entry.marks)
        return self.history.standing(name, entry, info, lookup)

    def is_over(self, name: str, entry: Entry, info: StreamInfo) -> bool:
        """Return whether a position is invalid because the stream was created again.

        Args:
            name: Name of the stream.
            entry: The position.
            info: Present info of the stream.

        Raises:
            StreamRecreatedError: The stream was created again, and `onRecreated` is fail.
        """
        if self._options.on_recreated == OnRecreated.FAIL:
            check_created(name, entry.created, created(info))
        return self._options.on_recreated == OnRecreated.EARLIEST and entry.created != created(info)


def bytes_per_sequence(info: StreamInfo) -> float:
    """Return the average size of a sequence in bytes; deleted messages have size 0."""
    return info.state.bytes / max(1, end_sequence(info) - first_sequence(info))


def _first(info: StreamInfo) -> Entry:
    return Entry(created(info), first_sequence(info), "earliest")


def _listed(streams: Mapping[str, object]) -> str:
    return ", ".join(map(repr, sorted(streams)))
