"""Planning of a batch read: which sequences of which streams, in which partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from jetarrow.js.api import StreamInfo
from jetarrow.js.errors import DataLossError

from .options import EARLIEST, LATEST, ReadOptions


@dataclass(frozen=True)
class StreamRange(InputPartition):
    """One partition: the messages of `stream` with start <= sequence < end.

    Attributes
    ----------
    stream:
        Name of the stream.
    start:
        First sequence.
    end:
        The sequence to stop before, above `start`.
    created:
        Creation time of the stream that was planned: one made later under its name has other messages.
    from_earliest:
        The plan began at the head, which retention may move before the task runs; that is no loss.
    """

    stream: str
    start: int
    end: int
    created: str
    from_earliest: bool


def created(info: StreamInfo) -> str:
    """Return a stream's creation time, in the form that plan and task compare."""
    return str(info.created)


def plan(options: ReadOptions, infos: Mapping[str, StreamInfo]) -> list[StreamRange]:
    """Split what there is to read evenly, with no empty partition.

    Parameters
    ----------
    options:
        Checked options of the read.
    infos:
        What the server says now of each of its streams.

    Returns
    -------
    list[StreamRange]
        In the order of streams and sequences; empty if there is nothing to read.

    Raises
    ------
    jetarrow.js.errors.DataLossError
        A start named by `startingOffsets` is not in its stream any more.
    """
    bounds = {name: _bounds(options, infos[name], stream=name) for name in options.streams}
    total = sum(end - start for start, end in bounds.values())
    partitions = []
    for name, (start, end) in bounds.items():
        size = end - start
        if size == 0:
            continue
        # minPartitions is a total: each stream has a share by its size, rounded up.
        share = -(-options.min_partitions * size // total)
        count = min(size, max(share, -(-size // options.max_offsets_per_partition)))
        head, stamp = options.starting[name] == EARLIEST, created(infos[name])
        cuts = [start + size * i // count for i in range(count + 1)]
        partitions += [StreamRange(name, a, b, created=stamp, from_earliest=head) for a, b in pairwise(cuts)]
    return partitions


def _bounds(options: ReadOptions, info: StreamInfo, *, stream: str) -> tuple[int, int]:
    """First sequence and end (exclusive) to read of one stream, frozen at what is there now."""
    first, after_last = max(1, info.state.first_seq), info.state.last_seq + 1
    start, end = options.starting[stream], options.ending[stream]
    end = after_last if end == LATEST else min(end, after_last)
    if start == EARLIEST:
        start = first
    if start < min(first, end):
        message = (
            f"jetstream option 'startingOffsets': sequence {start} of stream {stream!r} is gone; the stream"
            f" begins with {first} now: start there, or with earliest"
        )
        raise DataLossError(start, first, message=message)
    return start, max(start, end)
