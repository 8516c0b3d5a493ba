"""Planning: split of the sequences of streams into partitions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from jetarrow.jetstream.errors import DataLossError
from jetarrow.jetstream.models import StreamInfo
from jetarrow.spark._core import Mark
from jetarrow.spark.options.bounds import EARLIEST, LATEST
from jetarrow.spark.options.read import ReadOptions

from .history import marks_before
from .key_shares import MOST_SUBJECTS, KeyShare, share_filters
from .metadata import Lookup, end_sequence, first_sequence
from .pushdown import Restriction
from .range_size import first_sequences, range_sizes, split_counts
from .read_plan import SMALL_RANGE, ReadPlan, check_readable, head_may_move, loss_fails, read_plan

# A partition is cut only if its first messages are at most one of this many parts.
_SMALL_SHARE = 4


@dataclass(frozen=True)
class StreamRange(InputPartition):
    """One partition: the messages of `stream` with start <= sequence < end.

    Attributes:
        stream: Name of the stream.
        start: First sequence.
        end: The sequence to stop before, above `start`.
        plan: Read plan, the same for all partitions of a stream.
        head: Whether it begins at the head of the stream, which retention may move before the task runs, so lost
            messages before its first message are not an error. Default: False.
        marks: Marks of the stream at planning, up to the end of the range, which show later rollbacks. Default: none.
        before: Marks of the end of the preceding batch, for the first partition. Default: none.
        share: With `partitionBy`: the share of the keys in the range. Default: None, all messages.
    """

    stream: str
    start: int
    end: int
    plan: ReadPlan
    head: bool = False
    marks: tuple[Mark, ...] = ()
    before: tuple[Mark, ...] = ()
    share: KeyShare | None = None


def plan_partitions(
    options: ReadOptions,
    infos: Mapping[str, StreamInfo],
    lookup: Lookup | None = None,
    *,
    restriction: Restriction | None = None,
) -> list[StreamRange]:
    """Plan a batch: split the messages evenly into partitions, none of them empty.

    Args:
        options: Validated options of the read.
        infos: Present info of the streams, by name.
        lookup: Lookup of times and counts. Default: none, if the options have neither times nor filters.
        restriction: Restriction by pushed filters. Default: none.

    Returns:
        Partitions in the order of streams and sequences; empty if there are no messages.

    Raises:
        DataLossError: A stream no longer has its sequence of `startingOffsets`.
        ValueError: `startingOffsets` or `endingOffsets` names another stream; or as `read_plan`.
    """
    check_named(options, infos)
    check_readable(options, infos)
    ranges = {name: span_of(options, info, lookup, stream=name) for name, info in infos.items()}
    if restriction is not None:
        ranges = {name: _restricted(span, restriction, lookup, stream=name) for name, span in ranges.items()}
        if restriction.subjects is not None and not options.subjects:
            options = replace(options, subjects=restriction.subjects)
    sizes = range_sizes(options, infos, lookup, ranges)
    counts = split_counts(options, sizes)
    marks = {} if lookup is None else marks_before({name: ranges[name][1] for name in counts}, infos, lookup)
    partitions = []
    for name, count in counts.items():
        start, end = ranges[name]
        earliest = options.start.time is None and options.start.of(name, EARLIEST) == EARLIEST
        plan = read_plan(options, infos[name], lookup, start=start, size=end - start)
        head = earliest and head_may_move(options)
        whole = StreamRange(name, start, end, plan=plan, head=head, marks=marks.get(name, ()))
        partitions += divide(whole, count, by=options.partition_by, lookup=lookup)
    if options.min_partitions is None and partitions and not options.partition_by:
        partitions[:1] = _small_first(partitions[0], first_sequences(sizes[partitions[0].stream]))
    return partitions


def _small_first(partition: StreamRange, first: int) -> list[StreamRange]:
    """Cut the first sequences off a partition.

    Spark runs the first partition alone for `show`, `take` and `limit`, and a task reads ahead of the rows that Spark
    takes: without the cut that was some MB for ten rows.
    """
    cut = partition.start + first
    if first == 0 or first > (partition.end - partition.start) // _SMALL_SHARE:
        return [partition]
    # Retention may have moved the head past the small one, so both are at the head.
    return [replace(partition, end=cut), replace(partition, start=cut)]


def divide(whole: StreamRange, count: int, *, by: tuple[int, ...], lookup: Lookup | None) -> list[StreamRange]:
    """Divide a range into partitions: by sequence, or by key with `partitionBy`.

    Partitions by key each have the whole range. The server filters them if it needs few filters for each; else each of
    them receives all messages of the range.

    Args:
        whole: The range.
        count: Number of partitions; a maximum for partitions by sequence.
        by: Tokens of `partitionBy`; empty for partitions by sequence.
        lookup: Lookup of subjects; None disables filters of the server.
    """
    if not by:
        return split(
            whole.stream, whole.start, whole.end, count=count, plan=whole.plan, head=whole.head, marks=whole.marks
        )
    if count <= 1:
        return [whole]
    shares = [KeyShare(by, index, count) for index in range(count)]
    plan, found = whole.plan, None
    # A small range is received sooner than its filters are made. Filters of the user cannot be intersected with others.
    many = (whole.end - whole.start) * (count - 1) > SMALL_RANGE
    if many and lookup is not None and not (plan.direct or plan.pushed or plan.local):
        subjects = lookup.subjects(whole.stream, MOST_SUBJECTS, end=whole.end)
        found = None if subjects is None else share_filters(subjects, by, count)
    if found is None:
        return [replace(whole, share=share) for share in shares]
    return [
        replace(
            whole,
            plan=replace(plan, pushed=tuple(sorted(filters))),
            share=replace(share, empty=not filters, exact=True),
        )
        for share, filters in zip(shares, found, strict=True)
    ]


def split(
    stream: str,
    start: int,
    end: int,
    *,
    count: int,
    plan: ReadPlan,
    head: bool = False,
    marks: tuple[Mark, ...] = (),
) -> list[StreamRange]:
    """Split a range evenly into partitions, none of them empty.

    Args:
        stream: Name of the stream.
        start: First sequence.
        end: The sequence to stop before.
        count: Maximum number of partitions.
        plan: Their read plan.
        head: Whether the first one is at the head of the stream (`StreamRange.head`). Default: False.
        marks: As `StreamRange.marks`. Default: none.
    """
    count = min(count, end - start)
    cuts = [start + (end - start) * i // count for i in range(count + 1)] if count > 0 else []
    return [StreamRange(stream, a, b, plan=plan, head=head and a == start, marks=marks) for a, b in pairwise(cuts)]


def check_named(options: ReadOptions, infos: Mapping[str, StreamInfo]) -> None:
    """Check that offsets name only streams of the read, which a pattern selects only now.

    Args:
        options: Validated options of the read.
        infos: Info of the streams.

    Raises:
        ValueError: `startingOffsets` or `endingOffsets` names another stream.
    """
    for side, bound in (("starting", options.start), ("ending", options.end)):
        for name in bound.named:
            if name not in infos:
                known = ", ".join(infos)
                raise ValueError(f"jetstream option '{side}Offsets': {name!r} is not read; valid: one of {known}")


def span_of(options: ReadOptions, info: StreamInfo, lookup: Lookup | None, *, stream: str) -> tuple[int, int]:
    """Return first sequence and end (exclusive) of one stream, limited to its present messages.

    Args:
        options: Validated options of the read.
        info: Present info of the stream.
        lookup: Lookup of times.
        stream: Name of the stream.

    Raises:
        DataLossError: The stream no longer has the sequence of `startingOffsets`.
    """
    first, latest = first_sequence(info), end_sequence(info)
    start = position(options.start.of(stream, EARLIEST), options.start.time, lookup, stream=stream, latest=latest)
    end = position(options.end.of(stream, LATEST), options.end.time, lookup, stream=stream, latest=latest)
    start, end = first if start == EARLIEST else start, min(end, latest)
    if start < min(first, end):
        if loss_fails(options, info):
            message = (
                f"jetstream option 'startingOffsets': sequence {start} of stream {stream!r} is gone; the stream"
                f" begins with {first} now: start there, or with earliest, or set failOnDataLoss=false"
            )
            raise DataLossError((start, end), first, message=message)
        warnings.warn(
            f"jetstream: messages {start} to {min(first, end) - 1} of stream {stream!r} are gone (retention, purge or"
            " delete); the read begins after them",
            stacklevel=2,
        )
        start = first
    return start, max(start, end)


def position(given: int, time: str | None, lookup: Lookup | None, *, stream: str, latest: int) -> int:
    """Return the sequence of an offset or a time.

    Args:
        given: The offset, which applies if there is no time; LATEST for the end.
        time: As RFC 3339.
        lookup: Lookup of times.
        stream: Name of the stream.
        latest: The sequence after its last message.
    """
    if time is not None and lookup is not None:
        found = lookup.first_at(stream, time)
        return latest if found is None else found
    return latest if given == LATEST else given


def _restricted(
    span: tuple[int, int], restriction: Restriction, lookup: Lookup | None, *, stream: str
) -> tuple[int, int]:
    """Return a range under a restriction."""
    start, end = span
    if restriction.streams is not None and stream not in restriction.streams:
        return start, start

    def first_at(time: str | None) -> int | None:
        return None if time is None or lookup is None else lookup.first_at(stream, time)

    if restriction.since is not None:
        found = first_at(restriction.since)
        start = max(start, end if found is None else found)
    ends = [end, first_at(restriction.until), restriction.end]
    end = min(one for one in ends if one is not None)
    start = max(start, restriction.first or start)
    return start, max(start, end)
