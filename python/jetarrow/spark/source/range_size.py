"""Size of a range of a stream, and its number of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jetarrow.jetstream.models import StreamInfo
from jetarrow.spark.options.read import ReadOptions

from .metadata import Lookup, end_sequence, first_sequence
from .read_plan import SMALL_RANGE, is_direct, pushed_filters


@dataclass(frozen=True)
class RangeSize:
    """Size of a range of one stream.

    Attributes:
        sequences: Number of sequences.
        messages: Estimated number of delivered messages, without deleted and filtered ones.
        size: Their estimated size in bytes, by the stream's average.
        most: Upper limit of the number of messages.
    """

    sequences: int
    messages: int
    size: int
    most: int


def range_size(
    options: ReadOptions, info: StreamInfo, lookup: Lookup | None, *, start: int, sequences: int
) -> RangeSize:
    """Estimate the size of a range.

    Args:
        options: Validated options of the read.
        info: Info of the stream.
        lookup: Lookup of counts; None estimates them.
        start: First sequence.
        sequences: Number of sequences.
    """
    state = info.state
    average = state.bytes / max(1, state.messages)
    most = min(sequences, state.messages)
    found = _counted(options, info, lookup, start=start, sequences=sequences, average=average)
    if found is not None:
        return RangeSize(sequences, found, int(found * average), found)
    # Deleted messages are assumed to be evenly distributed; a range has at most all deleted messages of the stream.
    span = max(1, end_sequence(info) - first_sequence(info))
    messages = min(most, max(sequences - (span - state.messages), sequences * state.messages // span))
    return RangeSize(sequences, messages, int(messages * average), most)


def split_counts(options: ReadOptions, sizes: Mapping[str, RangeSize]) -> dict[str, int]:
    """Return the number of partitions of each stream, without empty streams.

    Args:
        options: Validated options of the read.
        sizes: Sizes of the ranges, by stream.
    """
    total = max(1, sum(size.messages for size in sizes.values()))
    counts = {}
    for name, size in sizes.items():
        if size.sequences > 0:
            wanted = [
                # minPartitions is a total: each stream has a share in proportion to its messages, rounded up.
                _ceil(options.min_partitions * size.messages, total),
                _ceil(size.messages, options.max_records_per_partition),
                _ceil(size.size, options.max_bytes_per_partition),
                _ceil(size.sequences, options.max_offsets_per_partition or size.sequences),
            ]
            counts[name] = max(1, min(max(wanted), size.sequences, size.most))
    return counts


def _counted(
    options: ReadOptions, info: StreamInfo, lookup: Lookup | None, *, start: int, sequences: int, average: float
) -> int | None:
    """Return the number of messages of the range, known or counted by the server; None to estimate it."""
    state, filters = info.state, pushed_filters(options, info, lookup, start=start, sequences=sequences)
    most = min(sequences, state.messages)
    if not filters:
        whole = end_sequence(info) - first_sequence(info) == state.messages
        few = most <= options.max_records_per_partition and most * average <= options.max_bytes_per_partition
        # Without gaps the number is known, and few messages are one partition in any case.
        if whole or few:
            return most
    if lookup is None or is_direct(options, info) or (filters and sequences <= SMALL_RANGE):
        return None if not filters else most
    name, end = str(info.config.name), start + sequences
    found = lookup.matching(name, start, filters)
    beyond = 0 if end >= end_sequence(info) else lookup.matching(name, end, filters)
    return None if found is None or beyond is None else max(0, found - beyond)


def _ceil(count: int, each: int) -> int:
    return -(-count // each)
