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
from .partitioning import StreamRange, check_named, divide
from .positions import Positions, bytes_per_sequence
from .range_size import range_sizes, split_counts
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

# Seconds for which the info of many streams is reused for planning.
_INFO_TTL = 1.0


class JetStreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches: ranges of sequences, which Spark logs before it reads them.

    Spark creates one reader for a query and keeps it on the driver. Its copies in the tasks do not use its state.

    Args:
        schema: Columns to read, a projection of the source's (see `schema.check_schema`).
        options: Validated options.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._positions = Positions(options)
        self._committer = Committer(options, self._positions)
        # Name and creation time of the streams that fit the options.
        self._prepared: set[tuple[str, str]] = set()
        # End of the previous batch, which Spark before 4.2 does not pass to `latestOffset`. After a restart it plans
        # the last batch again first.
        self._end: Offset | None = None
        # Present end by stream; with AvailableNow also the end of the query.
        self._latest: dict[str, Entry] = {}
        self._until: dict[str, int] | None = None
        self._last_batch: float | None = None
        self._backoff = IdleBackoff()
        # Last infos of the streams and their time: a batch is planned right after its end was determined.
        self._infos: Mapping[str, StreamInfo] = {}
        self._checked = 0.0

    @hide_traceback()
    def initialOffset(self) -> dict[str, Any]:
        """Return the initial offset of a new query. Spark calls it twice.

        The results may differ, because `latest` moves: the end offset of the first batch contains its begin.

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
        owner = self._committer.owner()
        self._prepare(lookup, infos, entries)
        initial = Offset(entries, owner=owner)
        # Spark before 4.2 requests it after the end of the first batch.
        self._end = self._end or initial
        return initial.json()

    @hide_traceback()
    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """Return the end of the next micro-batch; `start` if there is nothing to read.

        Args:
            start: Begin of the batch. Default: None, the end of the previous one (Spark before 4.2).
            limit: Read limit of Spark; the limits of the options apply unless it is `ReadAllAvailable` or None.
                Default: None.

        Raises:
            StreamRecreatedError: A stream was deleted and created again.
            NotFoundError: A stream was deleted.
            StreamRolledBackError: A stream was rolled back behind the position.
        """
        if start is None and self._end is None:
            self.initialOffset()
        begin = Offset.of(start) if start is not None else self._end
        assert begin is not None
        if self._backoff.is_active(begin):
            return start if start is not None else begin.json()
        owner = self._committer.owner(begin.owner)
        lookup = self._lookup()
        infos = lookup.infos()
        self._infos, self._checked = infos, time.monotonic()
        ends = self._positions.ends(infos, lookup)
        self._latest = {name: Entry(created(infos[name]), end) for name, end in ends.items()}
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
                # Deleted and other messages would cause empty batches: count from the first matching message.
                found = lookup.next_match(name, entry.next, filters_for(self._options, infos[name]))
                end = min(end, (end if found is None else found[0]) + count)
            if count > 0:
                advanced[name] = end
        parts = self._parts({name: (entries[name].next, end) for name, end in advanced.items()}, infos, lookup)
        self._last_batch = time.monotonic()
        kept = self._positions.kept(advanced, infos, lookup, known=entries)
        self._end = Offset({**entries, **kept}, start=entries, parts=parts, owner=owner, by=self._options.partition_by)
        return self._end.json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return a limit other than `ReadAllAvailable` if an option sets one; Spark has none for several limits."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of the streams at the last check, for the query's progress; None before the first check."""
        return Offset(self._latest).json() if self._latest else None

    @hide_traceback()
    def prepareForTriggerAvailableNow(self) -> None:
        """Set the end of the query to the present ends of the streams."""
        lookup = self._lookup()
        infos = lookup.infos()
        self._until = self._positions.ends(infos, lookup)

    @hide_traceback()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan a micro-batch; equal offsets have equal partitions, even if options have changed.

        Args:
            start: Begin of the batch; used only if `end` does not contain it.
            end: End of the batch, usually with its begin.

        Returns:
            Ranges that are not empty.

        Raises:
            DataLossError: Messages were lost, and `failOnDataLoss` applies.
            Exception: As `latestOffset`.
        """
        self._end = to = Offset.of(end)
        if start == end:
            return []
        before, lookup = Offset.of(start).streams if start else {}, self._lookup()
        begin = to.streams if to.start is None else to.start or to.streams
        if to.start is None:
            begin = self._begin(before, to.streams, lookup)
        spans = {name: (begin[name].next, entry.next) for name, entry in to.streams.items() if name in begin}
        spans = {name: (first, last) for name, (first, last) in spans.items() if last > first}
        infos = self._known(spans) or lookup.many(spans)
        parts, by = to.parts, to.by
        if not parts:
            parts, by = self._parts(spans, infos, lookup), self._options.partition_by
        ranges: list[StreamRange] = []
        for name in spans:
            if not self._positions.is_over(name, begin[name], infos[name]):
                whole = self._range(begin[name], to.streams[name], info=infos[name], lookup=lookup)
                found = divide(whole, parts.get(name, 1), by=by, lookup=lookup)
                # The marks apply only if this batch begins at that position.
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
            Arrow batches of the exact schema that Spark requires.

        Raises:
            Exception: As `partition_reader.read_range`.
        """
        if isinstance(partition, StreamRange):
            with hide_traceback():
                yield from read_range(self._schema, self._options, partition)

    @hide_traceback()
    def commit(self, end: dict[str, Any]) -> None:
        """Remove processed messages from the server, by `commitMode`. Spark calls it while it plans the next batch.

        Args:
            end: End of the last complete batch.

        Raises:
            StreamRecreatedError: A stream was deleted and created again; no message of the new one is removed.
            ValueError: As `Committer.commit`.
        """
        if self._options.commit_mode != CommitMode.NONE:
            lookup, last = self._lookup(), Offset.of(end)
            infos = lookup.infos()
            self._committer.owner(last.owner)
            self._retry(lambda: self._committer.commit(lookup, infos, last.streams))

    def _known(self, names: Iterable[str]) -> Mapping[str, StreamInfo]:
        """Return recent infos of many streams, if there are any; tasks check the streams that they read again."""
        fresh = len(self._infos) >= MANY_STREAMS and time.monotonic() - self._checked < _INFO_TTL
        return self._infos if fresh and all(name in self._infos for name in names) else {}

    def _retry(self, work: Callable[[], Any]) -> Any:
        return retry_transient(work, timeout=self._options.reconnect_timeout)

    def _lookup(self) -> Lookup:
        # Only a server that was reached before is waited for, so a wrong address is an error at once.
        return Lookup(shared_jetstream(self._options.connection), self._options, self._retry)

    def _prepare(self, lookup: Lookup, infos: Mapping[str, StreamInfo], at: Mapping[str, Entry]) -> None:
        new = {name: info for name, info in infos.items() if (name, created(info)) not in self._prepared}
        if new:
            check_readable(self._options, new)
            self._retry(lambda: self._committer.prepare(lookup.js, new, at))
            self._prepared |= {(name, created(info)) for name, info in new.items()}

    def _backlog(self, entries: Mapping[str, Entry], ends: Mapping[str, int]) -> dict[str, int]:
        """Return the number of pending sequences by stream."""
        sizes = {}
        for name, end in ends.items():
            end = end if self._until is None else min(end, self._until.get(name, 0))
            sizes[name] = max(0, end - entries[name].next)
        return sizes

    def _waits(self, waiting: int, limit: ReadLimit | None) -> bool:
        """Return whether no batch is due: no message, or fewer than `minOffsetsPerTrigger` before `maxTriggerDelay`."""
        least = self._options.min_offsets_per_trigger
        if waiting == 0 or least is None or self._until is not None or not _limited(limit):
            return waiting == 0
        # The first batch of a run is due at once, as in Spark's Kafka source.
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
        """Return the number of partitions of each stream, by its begin and end."""
        return split_counts(self._options, range_sizes(self._options, infos, lookup, spans))

    def _begin(self, start: Mapping[str, Entry], end: Mapping[str, Entry], lookup: Lookup) -> dict[str, Entry]:
        """Return the begin of a batch whose end omits it: `start`, unless a stream was replaced or rolled back."""
        found = {name: one for name, one in start.items() if name in end}
        for name, one in found.items():
            info = lookup.info(name)
            if one.created != end[name].created:
                found[name] = self._positions.standing(name, one, info, lookup)
            elif one.created == created(info):
                found[name] = self._positions.history.standing(name, one, info, lookup)
        return found

    def _range(self, begin: Entry, end: Entry, *, info: StreamInfo, lookup: Lookup) -> StreamRange:
        options, name = self._options, str(info.config.name)
        first, head = first_sequence(info), begin.initial == "earliest" and head_may_move(options)
        if begin.next < first and not head and loss_fails(options, info):
            raise DataLossError(
                (begin.next, end.next),
                first,
                message=f"jetstream: messages {begin.next} to {min(first, end.next) - 1} of stream {name!r} are gone"
                f" (retention, purge or delete): this batch is [{begin.next}, {end.next}), the stream begins with"
                f" {first}; set failOnDataLoss=false to continue with the remaining messages",
            )
        plan = read_plan(options, info, lookup, start=begin.next, size=end.next - begin.next)
        # Marks cannot be compared with a stream that was deleted and created again.
        marks = end.marks if end.created == created(info) else ()
        return StreamRange(name, begin.next, end.next, plan=plan, head=head, marks=marks)


def _limited(limit: ReadLimit | None) -> bool:
    return limit is not None and not isinstance(limit, ReadAllAvailable)
