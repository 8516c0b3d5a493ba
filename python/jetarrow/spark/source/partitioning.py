"""Which sequences of which streams are read, in which partitions, and how."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from jetarrow.js.api import StreamInfo
from jetarrow.js.errors import DataLossError, StreamRecreatedError
from jetarrow.spark.options.read import EARLIEST, LATEST, ReadOptions
from jetarrow.spark.options.subjects import covers

from .metadata import Lookup
from .pushdown import Narrow

# Up to so many sequences it does not matter who filters; beyond, the server is quicker only if it finds few.
_SMALL = 20_000
_FEW = 0.1


@dataclass(frozen=True)
class StreamRange(InputPartition):
    """One partition: the messages of `stream` with start <= sequence < end.

    Attributes:
        stream: Name of the stream.
        start: First sequence.
        end: The sequence to stop before, above `start`.
        how: The same for all partitions of a stream.
    """

    stream: str
    start: int
    end: int
    how: How


@dataclass(frozen=True)
class How:
    """How the partitions of a stream are read.

    Attributes:
        created: Creation time of the stream that was planned: one made later under its name has other messages.
        loss_fails: Whether messages that are gone fail the task; else it warns.
        direct: By direct gets instead of a consumer, which would take messages away.
        pushed, local: Subject filters that the server evaluates, or else the worker; none is all.
    """

    created: str
    loss_fails: bool = True
    direct: bool = False
    pushed: tuple[str, ...] = ()
    local: tuple[str, ...] = ()


def created(info: StreamInfo) -> str:
    """Return a stream's creation time as the server writes it, the form in which it is compared."""
    return info.created_raw or ""


def check_created(stream: str, planned: str, now: str) -> None:
    """Raise StreamRecreatedError where a stream is not the one that was planned."""
    if now != planned:
        raise StreamRecreatedError(
            f"stream {stream!r} of {planned} was planned, but it was made again at {now}: its sequences mean other"
            " messages now; load it again, or with a streaming query begin with a new checkpoint"
        )


def how(options: ReadOptions, info: StreamInfo, lookup: Lookup | None, *, start: int, size: int, earliest: bool) -> How:
    """Decide how a stream is read.

    Args:
        options: Checked options of the read.
        info: The stream.
        lookup: To count what filters match; None does not ask.
        start, size: First sequence, and how many.
        earliest: The read begins at the head, which retention may move before the task runs; that is no loss.

    Raises:
        ValueError: A work-queue stream would have to be read by a consumer, or direct gets are off.
    """
    filters = filters_for(options, info)
    direct = _is_direct(options, info)
    pushed = filters
    if direct and len(filters) > 1:
        pushed = ()
    elif filters and not direct and lookup is not None and size > _SMALL:
        found = lookup.matching(str(info.config.name), start, filters)
        left = max(1, info.state.last_seq + 1 - start)
        if found is not None and found > left * _FEW:
            pushed = ()
    return How(
        created=created(info),
        loss_fails=not earliest and loss_fails(options, info),
        direct=direct,
        pushed=pushed,
        local=() if pushed else filters,
    )


def filters_for(options: ReadOptions, info: StreamInfo) -> tuple[str, ...]:
    """Return the filters that a stream needs: none where they match all that it takes."""
    config = info.config
    foreign = config.sources or config.mirror or config.subject_transform
    if not options.subjects or not config.subjects or foreign:
        return options.subjects
    whole = all(any(covers(one, subject) for one in options.subjects) for subject in config.subjects)
    return () if whole else options.subjects


def loss_fails(options: ReadOptions, info: StreamInfo) -> bool:
    """Whether messages that are gone are an error."""
    fail = options.fail_on_data_loss
    if fail is None:
        # The heads of these move by design.
        moves = retention(info) != "limits" or (info.config.max_msgs_per_subject or 0) > 0
        fail = "false" if moves else "true"
    # With a filter nobody can know whether what is gone matched.
    return fail == "strict" or (fail == "true" and not filters_for(options, info))


def retention(info: StreamInfo) -> str:
    """Return limits, workqueue or interest."""
    kind = info.config.retention
    return "limits" if kind is None else str(getattr(kind, "value", kind))


def consumes(info: StreamInfo) -> bool:
    """Whether a consumer takes messages away: work-queue and interest streams."""
    return retention(info) != "limits"


def plan(
    options: ReadOptions,
    infos: Mapping[str, StreamInfo],
    lookup: Lookup | None = None,
    *,
    narrow: Narrow | None = None,
) -> list[StreamRange]:
    """Plan a batch: split what there is to read evenly, with no empty partition.

    Args:
        options: Checked options of the read.
        infos: What the server says now of each of its streams.
        lookup: To find times, and to count what filters match. Default: none, where there are neither.
        narrow: What pushed filters leave. Default: all.

    Returns:
        In the order of streams and sequences; empty if there is nothing to read.

    Raises:
        DataLossError: A start named by `startingOffsets` is not in its stream any more.
        ValueError: `startingOffsets` or `endingOffsets` names another stream; or as `how`.
    """
    check_named(options, infos)
    check_readable(options, infos)
    ranges = {name: _bounds(options, info, lookup, stream=name) for name, info in infos.items()}
    if narrow is not None:
        ranges = {name: _narrowed(span, narrow, lookup, stream=name) for name, span in ranges.items()}
        if narrow.subjects is not None and not options.subjects:
            options = replace(options, subjects=narrow.subjects)
    counts = split_counts(options, {name: end - start for name, (start, end) in ranges.items()})
    partitions = []
    for name, count in counts.items():
        start, end = ranges[name]
        earliest = options.start.time is None and options.start.of(name, EARLIEST) == EARLIEST
        shared = how(options, infos[name], lookup, start=start, size=end - start, earliest=earliest)
        partitions += split(name, start, end, count=count, shared=shared)
    return partitions


def split_counts(options: ReadOptions, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return how many partitions each stream gets, those with nothing to read left out.

    Args:
        options: Checked options of the read.
        sizes: Sequences to read, by stream.
    """
    total = sum(sizes.values())
    counts = {}
    for name, size in sizes.items():
        if size > 0:
            # minPartitions is a total: each stream has a share by its size, rounded up.
            share = -(-options.min_partitions * size // total)
            counts[name] = min(size, max(share, -(-size // options.max_offsets_per_partition)))
    return counts


def split(stream: str, start: int, end: int, *, count: int, shared: How) -> list[StreamRange]:
    """Split [start, end) evenly into at most `count` partitions, none of them empty."""
    count = min(count, end - start)
    cuts = [start + (end - start) * i // count for i in range(count + 1)] if count > 0 else []
    return [StreamRange(stream, a, b, how=shared) for a, b in pairwise(cuts)]


def check_named(options: ReadOptions, infos: Mapping[str, StreamInfo]) -> None:
    """Raise ValueError where offsets name a stream that is not read; a pattern finds streams only now."""
    for side, bound in (("starting", options.start), ("ending", options.end)):
        for name in bound.named:
            if name not in infos:
                known = ", ".join(infos)
                raise ValueError(f"jetstream option '{side}Offsets': {name!r} is not read; valid: one of {known}")


def check_readable(options: ReadOptions, infos: Mapping[str, StreamInfo]) -> None:
    """Raise ValueError where a stream cannot be read as the options say."""
    for info in infos.values():
        _is_direct(options, info)


def _is_direct(options: ReadOptions, info: StreamInfo) -> bool:
    name = info.config.name
    if options.reader == "pull" and consumes(info):
        raise ValueError(
            f"jetstream option 'reader': pull would take messages from {retention(info)} stream {name!r};"
            " valid: auto (default), direct"
        )
    direct = options.reader == "direct" or (options.reader == "auto" and consumes(info))
    if direct and not info.config.allow_direct:
        raise ValueError(
            f"jetstream option 'reader': {retention(info)} stream {name!r} is to be read by direct gets, which it does"
            f" not allow: set allow_direct in its configuration; valid: {'direct' if consumes(info) else 'auto, pull'}"
        )
    return direct


def _bounds(options: ReadOptions, info: StreamInfo, lookup: Lookup | None, *, stream: str) -> tuple[int, int]:
    """First sequence and end (exclusive) to read of one stream, frozen at what is there now."""
    first, after_last = max(1, info.state.first_seq), info.state.last_seq + 1
    start = _position(options.start.of(stream, EARLIEST), options.start.time, lookup, stream=stream, latest=after_last)
    end = _position(options.end.of(stream, LATEST), options.end.time, lookup, stream=stream, latest=after_last)
    start, end = first if start == EARLIEST else start, min(end, after_last)
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


def _position(given: int, when: str | None, lookup: Lookup | None, *, stream: str, latest: int) -> int:
    if when is not None and lookup is not None:
        found = lookup.first_at(stream, when)
        return latest if found is None else found
    return latest if given == LATEST else given


def _narrowed(span: tuple[int, int], left: Narrow, lookup: Lookup | None, *, stream: str) -> tuple[int, int]:
    start, end = span
    if left.streams is not None and stream not in left.streams:
        return start, start
    for when, bound in ((left.since, "start"), (left.until, "end")):
        found = None if when is None or lookup is None else lookup.first_at(stream, when)
        if bound == "start" and when is not None:
            start = max(start, end if found is None else found)
        elif found is not None:
            end = min(end, found)
    start = start if left.first is None else max(start, left.first)
    end = end if left.end is None else min(end, left.end)
    return start, max(start, end)
