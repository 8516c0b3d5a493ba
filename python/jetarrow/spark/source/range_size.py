"""How much there is to read in a range, and into how many partitions it goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jetarrow.jetstream.models import StreamInfo
from jetarrow.spark.options.read import ReadOptions

from .metadata import Lookup, end_sequence, first_sequence
from .read_plan import SMALL_RANGE, is_direct, pushed_filters


@dataclass(frozen=True)
class RangeSize:
    """What a range of one stream holds.

    Attributes:
        sequences: Its sequences.
        messages: The messages that come: less, where some are deleted or the server filters.
        size: Their bytes, by the stream's average.
        most: More of them than this cannot be there.
    """

    sequences: int
    messages: int
    size: int
    most: int


def range_size(
    options: ReadOptions, info: StreamInfo, lookup: Lookup | None, *, start: int, sequences: int
) -> RangeSize:
    """Say how much there is to read in a range.

    Args:
        options: Checked options of the read.
        info: The stream.
        lookup: To count what it does not say; with None it is estimated.
        start: First sequence.
        sequences: How many.
    """
    state = info.state
    average = state.bytes / max(1, state.messages)
    most = min(sequences, state.messages)
    found = _counted(options, info, lookup, start=start, sequences=sequences, average=average)
    if found is not None:
        return RangeSize(sequences, found, int(found * average), found)
    # Deleted messages are taken to lie evenly; those that are there cannot be more deleted than are missing.
    span = max(1, end_sequence(info) - first_sequence(info))
    messages = min(most, max(sequences - (span - state.messages), sequences * state.messages // span))
    return RangeSize(sequences, messages, int(messages * average), most)


def split_counts(options: ReadOptions, sizes: Mapping[str, RangeSize]) -> dict[str, int]:
    """Return how many partitions each stream gets, those with nothing to read left out.

    Args:
        options: Checked options of the read.
        sizes: What there is to read, by stream.
    """
    total = max(1, sum(size.messages for size in sizes.values()))
    counts = {}
    for name, size in sizes.items():
        if size.sequences > 0:
            wanted = [
                # minPartitions is a total: each stream has a share by what it has, rounded up.
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
    """The messages of the range where that is known, or the server is worth asking."""
    state, filters = info.state, pushed_filters(options, info, lookup, start=start, sequences=sequences)
    most = min(sequences, state.messages)
    if not filters:
        whole = end_sequence(info) - first_sequence(info) == state.messages
        few = most <= options.max_records_per_partition and most * average <= options.max_bytes_per_partition
        # What has no gap is counted already; and few messages make one partition, however many are deleted.
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
