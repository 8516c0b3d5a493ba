"""Sizes of ranges of streams, and their numbers of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jetarrow.jetstream.models import StreamInfo
from jetarrow.spark.options.read import ReadOptions

from .metadata import Lookup, end_sequence, first_sequence
from .read_plan import filters_for, is_direct, pushed_filters

# Size in bytes that a partition costs in addition to its messages: the default of spark.sql.files.openCostInBytes.
OPEN_COST = 4 << 20
# Number of partitions of a large range without the option minPartitions. Spark's file source uses the session's
# parallelism, which the planner of a Python source cannot read: its process has no session, in Spark 4.0 to 4.3.
PARALLELISM = 2
# Size in bytes of the first partition of a large range, and its minimum number of messages: `show()` takes 21.
_FIRST_BYTES = 64 << 10
_FIRST_MESSAGES = 21
# Bytes of a delivery on the wire beyond the stored message: the reply subject and the protocol line.
_DELIVERY_OVERHEAD = 100


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


def range_sizes(
    options: ReadOptions,
    infos: Mapping[str, StreamInfo],
    lookup: Lookup | None,
    spans: Mapping[str, tuple[int, int]],
) -> dict[str, RangeSize]:
    """Estimate the sizes of ranges. The server counts the messages if the number of partitions depends on it.

    Args:
        options: Validated options of the read.
        infos: Info of the streams, by name.
        lookup: Lookup of counts; None estimates them.
        spans: First sequence and end of each range, by stream.
    """
    sizes = {name: _estimate(options, infos[name], end - start) for name, (start, end) in spans.items()}
    # The number of partitions by key does not depend on sizes.
    if lookup is None or options.partition_by:
        return sizes
    split = split_size(options, sizes.values())
    for name, size in sizes.items():
        found = _counted(options, infos[name], lookup, start=spans[name][0], size=size, split=split)
        if found is not None:
            sizes[name] = found
    return sizes


def split_counts(options: ReadOptions, sizes: Mapping[str, RangeSize]) -> dict[str, int]:
    """Return the number of partitions of each stream, without empty streams.

    Args:
        options: Validated options of the read.
        sizes: Sizes of the ranges, by stream.
    """
    if options.partition_by:
        return {name: options.min_partitions or PARALLELISM for name, size in sizes.items() if size.sequences > 0}
    total = max(1, sum(size.messages for size in sizes.values()))
    split = split_size(options, sizes.values())
    # minPartitions is a total: each stream has a share in proportion to its messages, rounded up.
    least = options.min_partitions or 0
    return {
        name: max(_count(options, size, split), min(_ceil(least * size.messages, total), size.sequences, size.most))
        for name, size in sizes.items()
        if size.sequences > 0
    }


def first_sequences(size: RangeSize) -> int:
    """Return the number of sequences at the begin of a range with about 64 KiB of messages; 0 if the range is small.

    Args:
        size: Size of the range.
    """
    if size.size <= OPEN_COST:
        return 0
    mean = size.size // max(1, size.messages) + _DELIVERY_OVERHEAD
    return _ceil(size.sequences * max(_FIRST_MESSAGES, _FIRST_BYTES // mean), max(1, size.messages))


def split_size(options: ReadOptions, sizes: Iterable[RangeSize]) -> int:
    """Return the size of a partition in bytes, as Spark's `FilePartition.maxSplitBytes` with a stream as a file.

    Args:
        options: Validated options of the read.
        sizes: Sizes of the ranges.
    """
    present = [size.size for size in sizes if size.sequences > 0]
    each = (sum(present) + len(present) * OPEN_COST) // (options.min_partitions or PARALLELISM)
    return min(options.max_partition_bytes, max(OPEN_COST, each))


def _count(options: ReadOptions, size: RangeSize, split: int) -> int:
    """Return the number of partitions of a stream without its share of `minPartitions`."""
    wanted = [
        1,
        _ceil(size.size, split),
        _ceil(size.size, options.max_bytes_per_partition or split),
        _ceil(size.messages, options.max_records_per_partition),
        _ceil(size.sequences, options.max_offsets_per_partition or size.sequences),
    ]
    return max(1, min(max(wanted), size.sequences, size.most))


def _estimate(options: ReadOptions, info: StreamInfo, sequences: int) -> RangeSize:
    """Estimate a range without requests: with filters all messages may match."""
    messages = most = min(sequences, info.state.messages)
    if not filters_for(options, info):
        # Deleted messages are assumed to be evenly distributed.
        span = max(1, end_sequence(info) - first_sequence(info))
        messages = max(_fewest(info, sequences), sequences * info.state.messages // span)
    return _sized(info, sequences, min(most, messages), most)


def _fewest(info: StreamInfo, sequences: int) -> int:
    """Return the lower limit of the number of messages: a range has at most all deleted messages of the stream."""
    return max(0, sequences - (end_sequence(info) - first_sequence(info) - info.state.messages))


def _counted(
    options: ReadOptions, info: StreamInfo, lookup: Lookup, *, start: int, size: RangeSize, split: int
) -> RangeSize | None:
    """Return the size with the number of messages that the server counts; None if the estimate is sufficient."""
    if size.sequences <= 0 or is_direct(options, info):
        return None
    filters, most = pushed_filters(options, info, lookup, start=start, sequences=size.sequences), size.most
    fewest = 0 if filters else min(most, _fewest(info, size.sequences))
    few, many = (_sized(info, size.sequences, messages, messages) for messages in (fewest, most))
    if _count(options, few, split) == _count(options, many, split):
        return None
    name, end = str(info.config.name), start + size.sequences
    found = lookup.matching(name, start, filters)
    beyond = 0 if end >= end_sequence(info) else lookup.matching(name, end, filters)
    if found is None or beyond is None:
        return None
    messages = min(most, max(0, found - beyond))
    return _sized(info, size.sequences, messages, messages)


def _sized(info: StreamInfo, sequences: int, messages: int, most: int) -> RangeSize:
    return RangeSize(sequences, messages, int(messages * info.state.bytes / max(1, info.state.messages)), most)


def _ceil(count: int, each: int) -> int:
    return -(-count // each)
