"""Where a streaming query starts, stands, and what it has before it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from jetarrow.js.api import StreamInfo
from jetarrow.js.errors import DataLossError, NotFoundError
from jetarrow.spark.options.read import EARLIEST, LATEST, ReadOptions

from .metadata import Lookup
from .offsets import Entry, Offset
from .partitioning import created, filters_for, retention

# A new leader may not know the newest messages yet.
_SETTLE = 2.0


class Where:
    """Positions in the streams of one query.

    Args:
        options: Checked options.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        # Per stream: last sequence, and the end of what the filters match in it.
        self._matched: dict[str, tuple[int, int]] = {}

    def initial(self, name: str, info: StreamInfo, lookup: Lookup) -> Entry:
        options, after_last = self._options, info.state.last_seq + 1
        if options.start.time is not None:
            found = lookup.first_at(name, options.start.time)
            return Entry(created(info), after_last if found is None else found)
        whole = options.commit_mode == "purge" or retention(info) == "workqueue"
        position = options.start.of(name, EARLIEST if whole else LATEST)
        if position == EARLIEST:
            return _first(info)
        if position == LATEST:
            return Entry(created(info), after_last)
        return Entry(created(info), position, "ahead" if position > after_last else None)

    def target(self, name: str, info: StreamInfo, lookup: Lookup) -> int:
        """One past the last message that matters: foreign traffic would make empty batches."""
        last, filters = info.state.last_seq, filters_for(self._options, info)
        if not filters:
            return last + 1
        known, end = self._matched.get(name, (-1, 0))
        if known != last:
            end = (lookup.last_match(name, filters) or 0) + 1
            self._matched[name] = (last, end)
        return end

    def known(self, begin: Offset, infos: Mapping[str, StreamInfo]) -> dict[str, Entry]:
        """Where the query stands, with the streams that are new; those start at their first message."""
        pattern, options = self._options.pattern, self._options
        for name in begin.streams.keys() - infos.keys():
            if pattern is not None and re.fullmatch(pattern, name) and options.fail_on_data_loss != "false":
                raise NotFoundError(
                    message=f"jetstream: stream {name!r} was deleted; what was not read of it is lost; set"
                    " failOnDataLoss=false to go on without it"
                )
        new = {name: _first(info) for name, info in infos.items() if name not in begin.streams}
        return {**begin.streams, **new}

    def check_ahead(self, name: str, entry: Entry, lookup: Lookup) -> None:
        """A stream that ends before what was read of it has lost messages, unless the user asked for later ones."""
        until = time.monotonic() + _SETTLE
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
            time.sleep(0.1)


def _first(info: StreamInfo) -> Entry:
    return Entry(created(info), max(1, info.state.first_seq), "earliest")


def weight(info: StreamInfo) -> float:
    """Bytes of one sequence, on average; deleted ones have none."""
    state = info.state
    return state.bytes / max(1, state.last_seq + 1 - max(1, state.first_seq))
