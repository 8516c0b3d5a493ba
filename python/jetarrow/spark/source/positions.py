"""Positions of a streaming query: where it starts, where it stands, and what lies ahead of it."""

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
        options: Checked options.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        # Per stream: its last sequence and creation, and the last message that the filters match in it.
        self._matched: dict[str, tuple[tuple[int, str], Mark | None]] = {}
        self.history = History(options.on_rollback)

    def initial(self, name: str, info: StreamInfo, lookup: Lookup) -> Entry:
        """Return where a new query starts in one stream.

        Args:
            name: Name of the stream.
            info: The stream as it is now.
            lookup: To find times.
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
        """Return the sequence after the last message that matters, by stream: foreign traffic would make empty batches.

        Args:
            infos: The streams as they are now.
            lookup: To find the last messages that filters match, where something has come since they were found.
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
        """Return positions with what shows later whether their streams are still the same.

        Args:
            ends: The positions, by stream.
            infos: The streams as they are now.
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
        """Return where the query stands, by stream; those that are new to it start at their first message.

        Args:
            begin: Where the next batch begins.
            infos: The streams as they are now.
            lookup: To compare them with what was read.

        Raises:
            NotFoundError: A stream that `streamPattern` had found was deleted, and that is an error here.
            ValueError: The checkpoint is of a query that read other streams.
            StreamRecreatedError: As `standing`.
            StreamRolledBackError: As `standing`.
        """
        pattern, options = self._options.pattern, self._options
        if pattern is None and begin.streams and not begin.streams.keys() & infos.keys():
            raise ValueError(
                f"jetstream: this checkpoint is of a query that reads {_listed(begin.streams)}, not {_listed(infos)}:"
                " give every query a checkpointLocation of its own"
            )
        for name in begin.streams.keys() - infos.keys():
            found_by_pattern = pattern is not None and re.fullmatch(pattern, name)
            if found_by_pattern and options.fail_on_data_loss != FailOnDataLoss.FALSE:
                raise NotFoundError(
                    message=f"jetstream: stream {name!r} was deleted; what was not read of it is lost; set"
                    " failOnDataLoss=false to go on without it"
                )
        now = {
            name: self.standing(name, begin.streams[name], info, lookup) if name in begin.streams else _first(info)
            for name, info in infos.items()
        }
        return {**begin.streams, **now}

    def standing(self, name: str, entry: Entry, info: StreamInfo, lookup: Lookup) -> Entry:
        """Return where the query stands in a stream that may have been made again since, or gone back, as options say.

        Args:
            name: Name of the stream.
            entry: Where it stood.
            info: The stream as it is now.
            lookup: To compare it with what was read.

        Raises:
            StreamRecreatedError: It was made again, and that is an error here.
            StreamRolledBackError: It went back behind what was read, and that is an error here.
        """
        now = created(info)
        if self.is_over(name, entry, info):
            warnings.warn(
                f"jetstream: stream {name!r} of {entry.created} was deleted and made again at {now}: this query begins"
                " at its first message (onRecreated=earliest); what it had not read of the old one is lost",
                stacklevel=2,
            )
            return _first(info)
        if entry.created != now:
            error = verify(name, entry.marks, info, lookup)
            if error is not None:
                warnings.warn(
                    f"jetstream: {error.summary}; its sequences are taken for the same ones (onRecreated=continue)",
                    stacklevel=2,
                )
            entry = replace(entry, created=now, marks=() if error is not None else entry.marks)
        return self.history.standing(name, entry, info, lookup)

    def is_over(self, name: str, entry: Entry, info: StreamInfo) -> bool:
        """Whether a position is of a stream that is no more, and has no meaning in the present one.

        Args:
            name: Name of the stream.
            entry: The position.
            info: The stream as it is now.

        Raises:
            StreamRecreatedError: It is, and that is an error here.
        """
        if self._options.on_recreated == OnRecreated.FAIL:
            check_created(name, entry.created, created(info))
        return self._options.on_recreated == OnRecreated.EARLIEST and entry.created != created(info)


def bytes_per_sequence(info: StreamInfo) -> float:
    """Return the size of one sequence on average, in bytes; deleted messages count with none."""
    return info.state.bytes / max(1, end_sequence(info) - first_sequence(info))


def _first(info: StreamInfo) -> Entry:
    return Entry(created(info), first_sequence(info), "earliest")


def _listed(streams: Mapping[str, object]) -> str:
    return ", ".join(map(repr, sorted(streams)))
