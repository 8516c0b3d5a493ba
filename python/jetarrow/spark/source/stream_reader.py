"""The streaming reader: offsets and admission on the driver, reading in the Python workers of the executors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from jetarrow.jetstream.errors import DataLossError
from jetarrow.jetstream.models import StreamInfo
from jetarrow.spark.connection import retry_transient, shared_jetstream
from jetarrow.spark.errors import hide_traceback
from jetarrow.spark.options.choices import CommitMode
from jetarrow.spark.options.read import ReadOptions

from .admission import admit
from .commit import Committer
from .idle_backoff import MANY_STREAMS, IdleBackoff
from .metadata import Lookup, created, first_sequence
from .offsets import Entry, Offset
from .partition_reader import read_range
from .partitioning import StreamRange, check_named, split
from .positions import Positions, bytes_per_sequence
from .range_size import range_size, split_counts
from .read_plan import check_readable, filters_for, head_may_move, loss_fails, read_plan
from .rows import check_types

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before 4.2 there is no admission control
    ReadAllAvailable = ReadLimit = ReadMaxBytes = ReadMaxRows = ReadMinRows = SupportsTriggerAvailableNow = object  # type: ignore[misc, assignment]

# Seconds for which what is known of many streams is recent enough to plan with.
_MOMENT = 1.0


class JetStreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches: ranges of sequences, which Spark logs before it reads them.

    Spark makes one for a query and keeps it on the driver; copies of it, with none of its state, read in the tasks.

    Args:
        schema: Columns to read, a projection of the source's (see `schema.check_schema`).
        options: Checked options.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._positions = Positions(options)
        self._committer = Committer(options, self._positions)
        self._ready = False
        # The end of the previous batch; Spark before 4.2 does not say it.
        self._end: Offset | None = None
        # Per stream: where the present messages end. Under AvailableNow: where the query ends.
        self._latest: dict[str, Entry] = {}
        self._until: dict[str, int] | None = None
        self._last_batch: float | None = None
        self._backoff = IdleBackoff()
        # What the last look at the streams found, and when: a batch is planned right after its end was found.
        self._infos: Mapping[str, StreamInfo] = {}
        self._looked = 0.0

    @hide_traceback()
    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query starts, as the options say it. Spark asks twice.

        The answers may differ, as `latest` moves: the offset at the end of the first batch holds where it began.

        Raises:
            Exception: As `batch_reader.JetStreamReader.partitions`.
        """
        lookup = self._lookup()
        infos = lookup.infos()
        check_named(self._options, infos)
        check_types(self._schema, self._options.rows, lookup.js)
        entries = {name: self._positions.initial(name, info, lookup) for name, info in infos.items()}
        ends = {name: entry.next for name, entry in entries.items() if entry.initial is None}
        entries |= self._positions.kept(ends, infos, lookup)
        self._prepare(lookup, infos, entries)
        self._end = Offset(entries)
        return self._end.json()

    @hide_traceback()
    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """Return where the next micro-batch ends; `start` itself where there is nothing to read.

        Args:
            start: Where it begins. Default: None, where the previous one ended; Spark before 4.2 does not say it.
            limit: Whether the limits of the options count; with `ReadAllAvailable` they do not. Default: None, they do
                not.

        Raises:
            StreamRecreatedError: A stream was deleted and made again.
            NotFoundError: A stream is gone.
            StreamRolledBackError: A stream has not what was read of it any more.
        """
        begin = Offset.of(start) if start is not None else self._end
        if begin is not None and self._backoff.is_active(begin):
            return start if start is not None else begin.json()
        lookup = self._lookup()
        infos = lookup.infos()
        self._infos, self._looked = infos, time.monotonic()
        ends = self._positions.ends(infos, lookup)
        self._latest = {name: Entry(created(infos[name]), end) for name, end in ends.items()}
        if begin is None:
            at = self._positions.kept(ends, infos, lookup)
            self._prepare(lookup, infos, at)
            self._end = Offset(at, start=None)
            return self._end.json()
        entries = self._positions.current(begin, infos, lookup)
        self._prepare(lookup, infos, entries)
        sizes = self._backlog(entries, ends)
        if self._waits(sum(sizes.values()), limit):
            wild = any("*" in subject or ">" in subject for subject in self._options.subjects)
            self._backoff.start(begin, sizes if self._until is None else {}, costly=wild and self._until is None)
            return start if start is not None else begin.json()
        advanced: dict[str, int] = {}
        for name, count in self._admitted(sizes, infos, limit).items():
            entry, end = entries[name], entries[name].next + sizes[name]
            if 0 < count < sizes[name]:
                # Deleted or foreign messages would make empty batches: the count begins with what there is.
                found = lookup.next_match(name, entry.next, filters_for(self._options, infos[name]))
                end = min(end, (end if found is None else found[0]) + count)
            if count > 0:
                advanced[name] = end
        parts = self._parts({name: (entries[name].next, end) for name, end in advanced.items()}, infos, lookup)
        self._last_batch = time.monotonic()
        kept = self._positions.kept(advanced, infos, lookup, known=entries)
        self._end = Offset({**entries, **kept}, start=entries, parts=parts)
        return self._end.json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return a limit that is not `ReadAllAvailable` where an option sets one; there is no object for several."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where the streams ended at the last look, for the query's progress; None before the first."""
        return Offset(self._latest).json() if self._latest else None

    @hide_traceback()
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix where the query ends: at what the streams hold now."""
        lookup = self._lookup()
        infos = lookup.infos()
        self._until = self._positions.ends(infos, lookup)

    @hide_traceback()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan a micro-batch; the same offsets give the same partitions, whatever the options say meanwhile.

        Args:
            start: Where the batch begins; used only where `end` does not say it.
            end: Where it ends, with where it begins.

        Returns:
            Ranges that are not empty.

        Raises:
            DataLossError: Messages have gone, and that is an error here.
            Exception: As `latestOffset`.
        """
        if start == end:
            return []
        to, before, lookup = Offset.of(end), Offset.of(start).streams if start else {}, self._lookup()
        begin = to.streams if to.start is None else to.start or to.streams
        if to.start is None:
            begin = self._begin(before, to.streams, lookup)
        spans = {name: (begin[name].next, entry.next) for name, entry in to.streams.items() if name in begin}
        spans = {name: (first, last) for name, (first, last) in spans.items() if last > first}
        infos = self._known(spans) or lookup.many(spans)
        parts = to.parts or self._parts(spans, infos, lookup)
        ranges: list[StreamRange] = []
        for name in spans:
            if not self._positions.is_over(name, begin[name], infos[name]):
                found = self._split(
                    begin[name], to.streams[name], info=infos[name], lookup=lookup, count=parts.get(name, 1)
                )
                # Unless this batch begins elsewhere.
                stood = before.get(name)
                if stood is not None and (stood.created, stood.next) == (begin[name].created, begin[name].next):
                    found[0] = replace(found[0], before=stood.marks)
                ranges += found
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one partition.

        Args:
            partition: One of `partitions`.

        Yields:
            Arrow batches of exactly the schema that Spark demands.

        Raises:
            Exception: As `partition_reader.read_range`.
        """
        if isinstance(partition, StreamRange):
            with hide_traceback():
                yield from read_range(self._schema, self._options, partition)

    @hide_traceback()
    def commit(self, end: dict[str, Any]) -> None:
        """Let the server forget what was processed, as `commitMode` says. Spark calls it while it plans the next batch.

        Args:
            end: Where the last complete batch ends.

        Raises:
            StreamRecreatedError: A stream was deleted and made again: nothing of the new one is touched.
        """
        if self._options.commit_mode != CommitMode.NONE:
            lookup, at = self._lookup(), Offset.of(end).streams
            infos = lookup.infos()
            self._retry(lambda: self._committer.commit(lookup, infos, at))

    def _known(self, names: Iterable[str]) -> Mapping[str, StreamInfo]:
        """Many streams as they were a moment ago, if they were looked at: tasks look once more at what they read."""
        fresh = len(self._infos) >= MANY_STREAMS and time.monotonic() - self._looked < _MOMENT
        return self._infos if fresh and all(name in self._infos for name in names) else {}

    def _retry(self, work: Callable[[], Any]) -> Any:
        return retry_transient(work, timeout=self._options.reconnect_timeout)

    def _lookup(self) -> Lookup:
        # Only a server that was reached once is waited for: a wrong address is an error at once.
        return Lookup(shared_jetstream(self._options.connection), self._options, self._retry)

    def _prepare(self, lookup: Lookup, infos: Mapping[str, StreamInfo], at: Mapping[str, Entry]) -> None:
        if not self._ready:
            check_readable(self._options, infos)
            self._retry(lambda: self._committer.prepare(lookup.js, infos, at))
            self._ready = True

    def _backlog(self, entries: Mapping[str, Entry], ends: Mapping[str, int]) -> dict[str, int]:
        """How many sequences wait, by stream."""
        sizes = {}
        for name, end in ends.items():
            end = end if self._until is None else min(end, self._until.get(name, 0))
            sizes[name] = max(0, end - entries[name].next)
        return sizes

    def _waits(self, waiting: int, limit: ReadLimit | None) -> bool:
        """Whether there is nothing to do: no message, or too few of them and not for long enough."""
        least = self._options.min_offsets_per_trigger
        if waiting == 0 or least is None or self._until is not None or not _limited(limit):
            return waiting == 0
        # As with Kafka, the first batch of a run comes at once.
        late = self._last_batch is None or time.monotonic() - self._last_batch >= self._options.max_trigger_delay
        return waiting < least and not late

    def _admitted(
        self, sizes: Mapping[str, int], infos: Mapping[str, StreamInfo], limit: ReadLimit | None
    ) -> dict[str, int]:
        if not _limited(limit):
            return dict(sizes)
        weights = {name: bytes_per_sequence(info) for name, info in infos.items()}
        options = self._options
        most, most_bytes = options.max_offsets_per_trigger, options.max_bytes_per_trigger
        return admit(sizes, weights, most_offsets=most, most_bytes=most_bytes)

    def _parts(
        self, spans: Mapping[str, tuple[int, int]], infos: Mapping[str, StreamInfo], lookup: Lookup
    ) -> dict[str, int]:
        """How many partitions each stream gets, by where it begins and ends."""
        weights = {
            name: range_size(self._options, infos[name], lookup, start=first, sequences=last - first)
            for name, (first, last) in spans.items()
        }
        return split_counts(self._options, weights)

    def _begin(self, start: Mapping[str, Entry], end: Mapping[str, Entry], lookup: Lookup) -> dict[str, Entry]:
        """Where a batch begins whose end does not say it: `start`, unless a stream was made again or went back."""
        found = {name: one for name, one in start.items() if name in end}
        for name, one in found.items():
            info = lookup.info(name)
            if one.created != end[name].created:
                found[name] = self._positions.standing(name, one, info, lookup)
            elif one.created == created(info):
                found[name] = self._positions.history.standing(name, one, info, lookup)
        return found

    def _split(self, begin: Entry, end: Entry, *, info: StreamInfo, lookup: Lookup, count: int) -> list[StreamRange]:
        options, name = self._options, str(info.config.name)
        first, head = first_sequence(info), begin.initial == "earliest" and head_may_move(options)
        if begin.next < first and not head and loss_fails(options, info):
            raise DataLossError(
                (begin.next, end.next),
                first,
                message=f"jetstream: messages {begin.next} to {min(first, end.next) - 1} of stream {name!r} are gone"
                f" (retention, purge or delete): this batch is [{begin.next}, {end.next}), the stream begins with"
                f" {first}; set failOnDataLoss=false to go on with what is left",
            )
        plan = read_plan(options, info, lookup, start=begin.next, size=end.next - begin.next)
        # They cannot be compared with a stream that was deleted and created again.
        marks = end.marks if end.created == created(info) else ()
        return split(name, begin.next, end.next, count=count, plan=plan, head=head, marks=marks)


def _limited(limit: ReadLimit | None) -> bool:
    return limit is not None and not isinstance(limit, ReadAllAvailable)
