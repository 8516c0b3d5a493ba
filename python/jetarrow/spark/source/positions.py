"""Positions of a streaming query: where it starts, where it stands, and what lies ahead of it."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace

from jetarrow.jetstream.errors import DataLossError, NotFoundError
from jetarrow.jetstream.models import RetentionPolicy, StreamInfo
from jetarrow.spark.options.bounds import EARLIEST, LATEST
from jetarrow.spark.options.choices import CommitMode, FailOnDataLoss, OnRecreated
from jetarrow.spark.options.read import ReadOptions

from .metadata import Lookup, check_created, created, end_sequence, first_sequence, retention
from .offsets import Entry, Offset
from .read_plan import filters_for

# How long a new leader may not know the newest messages yet, in seconds.
_NEW_LEADER_TIMEOUT = 2.0
_RETRY_PAUSE = 0.1


class Positions:
    """Positions in the streams of one query.

    Args:
        options: Checked options.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        # Per stream: its last sequence and creation, and the end of what the filters match in it.
        self._matched: dict[str, tuple[tuple[int, str], int]] = {}

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
            self._matched[name] = (now[name], (last or 0) + 1)
        return {name: self._matched[name][1] if name in asked else end_sequence(info) for name, info in infos.items()}

    def current(self, begin: Offset, infos: Mapping[str, StreamInfo]) -> dict[str, Entry]:
        """Return where the query stands, by stream; those that are new to it start at their first message.

        Args:
            begin: Where the next batch begins.
            infos: The streams as they are now.

        Raises:
            NotFoundError: A stream that `streamPattern` had found was deleted, and that is an error here.
            ValueError: The checkpoint is of a query that read other streams.
            StreamRecreatedError: As `standing`.
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
            name: self.standing(name, begin.streams[name], info) if name in begin.streams else _first(info)
            for name, info in infos.items()
        }
        return {**begin.streams, **now}

    def standing(self, name: str, entry: Entry, info: StreamInfo) -> Entry:
        """Return where the query stands in a stream that may have been made again since, as `onRecreated` says.

        Args:
            name: Name of the stream.
            entry: Where it stood.
            info: The stream as it is now.

        Raises:
            StreamRecreatedError: It was made again, and that is an error here.
        """
        now = created(info)
        if not self.is_over(name, entry, info):
            return replace(entry, created=now)
        warnings.warn(
            f"jetstream: stream {name!r} of {entry.created} was deleted and made again at {now}: this query begins at"
            " its first message (onRecreated=earliest); what it had not read of the old one is lost",
            stacklevel=2,
        )
        return _first(info)

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

    def check_not_beyond_end(self, name: str, entry: Entry, lookup: Lookup) -> None:
        """Check that a stream does not end before what was read of it, unless the user asked for later messages.

        Args:
            name: Name of the stream.
            entry: Where the query stands in it.
            lookup: To look at the stream.

        Raises:
            DataLossError: It does, also after a new leader had time to catch up.
        """
        until = time.monotonic() + _NEW_LEADER_TIMEOUT
        while entry.initial != "ahead":
            last = lookup.info(name).state.last_seq
            if last + 1 >= entry.next:
                return
            if time.monotonic() > until:
                raise DataLossError(
                    entry.next,
                    message=f"jetstream: stream {name!r} ends with {last}, but this query has read up to"
                    f" {entry.next - 1}: the stream was restored or has lost its end; begin with a new checkpoint",
                )
            time.sleep(_RETRY_PAUSE)


def bytes_per_sequence(info: StreamInfo) -> float:
    """Return the size of one sequence on average, in bytes; deleted messages count with none."""
    return info.state.bytes / max(1, end_sequence(info) - first_sequence(info))


def _first(info: StreamInfo) -> Entry:
    return Entry(created(info), first_sequence(info), "earliest")


def _listed(streams: Mapping[str, object]) -> str:
    return ", ".join(map(repr, sorted(streams)))
