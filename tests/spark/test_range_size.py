"""Partitions are planned by available messages and bytes, not by sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jetarrow.sync
import pytest
from jetarrow.js.api import StreamConfig, StreamInfo, StreamState
from jetarrow.spark.options.read import read_options
from jetarrow.spark.source import metadata, read_plan
from jetarrow.spark.source.partitioning import StreamRange, plan_partitions
from jetarrow.spark.source.range_size import RangeSize, range_sizes, split_counts, split_size
from jetarrow.spark.source.stream_reader import ReadAllAvailable

from ..tools import wait_until

if TYPE_CHECKING:
    from .tools import Here, Streams

    Publish = Callable[..., None]


MB = 1_000_000


def info(*, first: int, last: int, messages: int, size: int = 0) -> StreamInfo:
    state = StreamState(messages=messages, bytes=size, first_seq=first, last_seq=last, consumer_count=0)
    return StreamInfo(config=StreamConfig(name="any"), state=state)


def options(**given: object) -> Any:
    return read_options({"servers": "a:1", "stream": "A", **{name: str(value) for name, value in given.items()}})


def counted(*sizes: RangeSize, **given: object) -> list[int]:
    return list(split_counts(options(**given), {str(i): size for i, size in enumerate(sizes)}).values())


def whole(messages: int, size: int = 0) -> RangeSize:
    return RangeSize(messages, messages, size, messages)


def test_counts() -> None:
    assert counted(whole(1_000_000)) == [4]
    assert counted(whole(1_000_001)) == [5]
    # A million messages of 100 kB were one task of 100 GB.
    assert counted(whole(1_000_000, 10**11)) == [746]
    assert counted(whole(10), minPartitions=4) == [4]
    assert counted(whole(3), minPartitions=4) == [3]
    assert counted(whole(900), whole(100), whole(0), minPartitions=10) == [9, 1]
    assert counted(whole(100), maxRecordsPerPartition=30) == [4]
    assert counted(whole(100, 100_000), maxBytesPerPartition="10k") == [10]
    # Two messages in 30,001 sequences were 31 partitions.
    assert counted(RangeSize(30_001, 2, 10, 2), maxOffsetsPerPartition=1000) == [2]
    assert counted(RangeSize(30_001, 2, 10, 2), minPartitions=8) == [2]
    assert counted(RangeSize(1000, 0, 0, 0), minPartitions=8) == [1]


def test_counts_follow_those_of_files() -> None:
    """As `FilePartition.maxSplitBytes` with spark.sql.files.* and a parallelism of two."""
    assert counted(whole(200_000, 200 * MB)) == [2]
    assert counted(whole(900_000, 900_000 * 140)) == [4]
    assert counted(whole(200_000, 900_000 * 140)) == [2]
    assert counted(whole(10, 1_000)) == counted(whole(200_000, 4 << 20)) == [1]
    assert counted(whole(10, (4 << 20) + 1)) == [2]
    assert counted(whole(200_000, 1 << 30)) == [8]
    # A small stream beside a large one, and many small ones, are a task each.
    assert counted(whole(100, 100 * MB), whole(100, MB)) == [2, 1]
    assert counted(*[whole(100, MB)] * 20) == [1] * 20
    # With many streams each costs 4 MiB.
    assert counted(*[whole(100, 10 * MB)] * 20) == [1] * 20
    assert counted(whole(200_000, 200 * MB), minPartitions=1) == [2]
    assert counted(whole(200_000, 100 * MB), minPartitions=1) == [1]
    assert counted(whole(200_000, 200 * MB), minPartitions=8) == [8]
    assert counted(whole(200_000, 200 * MB), maxPartitionBytes="20m") == [10]
    assert counted(whole(200_000, 2_000 * MB), maxPartitionBytes="1g", minPartitions=1) == [2]
    # Both limits may be below the cost of a partition, and the lower one applies.
    assert counted(whole(100, MB), maxPartitionBytes="100k") == [10]
    assert counted(whole(100, MB), maxBytesPerPartition="100k") == [10]
    assert counted(whole(200_000, 200 * MB), maxBytesPerPartition="10g") == [2]
    assert split_size(options(), []) == 4 << 20


def range_size(given: Any, stream: StreamInfo, *, start: int, sequences: int) -> RangeSize:
    return range_sizes(given, {"A": stream}, None, {"A": (start, start + sequences)})["A"]


def test_range_size_is_estimated_without_a_request() -> None:
    sparse = info(first=1, last=1_000_000, messages=400_000, size=4_000_000)
    assert range_size(options(), sparse, start=1, sequences=1_000_000) == RangeSize(
        1_000_000, 400_000, 4_000_000, 400_000
    )
    assert range_size(options(), sparse, start=500_001, sequences=500_000).messages == 200_000
    # A range has at most as many deleted messages as the whole stream.
    dense = info(first=1, last=1_000_000, messages=990_000, size=9_900_000)
    assert range_size(options(), dense, start=700_001, sequences=300_000).messages == 297_000
    assert range_size(options(), dense, start=1, sequences=20_000).messages == 19_800
    # All may match.
    assert range_size(options(subjects="a"), sparse, start=1, sequences=1_000).messages == 1_000


def test_a_plan_of_large_messages() -> None:
    infos = {"A": info(first=1, last=1000, messages=1000, size=1 << 30)}
    found: list[StreamRange] = plan_partitions(options(maxPartitionBytes="256m", minPartitions=1), infos)
    assert [(part.start, part.end) for part in found] == [(1, 251), (251, 501), (501, 751), (751, 1001)]


def test_a_large_batch_begins_with_a_small_partition() -> None:
    """For `show` and `limit`: 64 KiB with the protocol, at least 21 messages."""

    def planned(size: int, **given: object) -> list[tuple[int, int]]:
        infos = {"A": info(first=1, last=10_000, messages=10_000, size=size)}
        return [(part.start, part.end) for part in plan_partitions(options(**given), infos)]

    assert planned(10 * MB) == [(1, 60), (60, 5001), (5001, 10001)]
    assert planned(40 * MB) == [(1, 22), (22, 5001), (5001, 10001)]
    assert planned(4 * MB) == [(1, 10001)]
    assert planned(10 * MB, minPartitions=2) == [(1, 5001), (5001, 10001)]
    # Sparse: as many sequences as have the messages.
    sparse = {"A": info(first=1, last=10_000, messages=5_000, size=5 * MB)}
    assert [part.end for part in plan_partitions(options(), sparse)] == [119, 5001, 10001]
    heads = plan_partitions(options(), {"A": info(first=1, last=10_000, messages=10_000, size=10 * MB)})
    assert [part.head for part in heads] == [True, True, False]


@pytest.fixture
def publish(nats_url: str) -> Iterator[Publish]:
    """`publish(subject, count)`."""
    with jetarrow.sync.connect(nats_url) as client:
        js = client.jetstream()
        yield lambda subject, count: js.publish_batch(subject, [b"x" * 10] * count).raise_for_errors()


def test_messages_of_an_uneven_stream_are_counted_by_requests(
    here: Here, streams: Streams, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One old message, a long gap, and everything else at the end: an even spread would make it one partition."""
    name = streams.new(max_msgs_per_subject=3_000)
    publish(f"{name}.old", 1)
    publish(f"{name}.rewritten", 33_000)
    publish(f"{name}.new", 2_000)
    state = streams.request(f"STREAM.INFO.{name}")["state"]
    assert (state["first_seq"], state["last_seq"], state["messages"]) == (1, 35_001, 5_001)
    asked: list[int] = []
    count = metadata.Lookup._count
    monkeypatch.setattr(metadata.Lookup, "_count", lambda self, *key: asked.append(key[1]) or count(self, *key))

    def partitions(**given: object) -> int:
        asked.clear()
        return len(here.plan(name, **given))

    assert partitions() == 1
    assert partitions(minPartitions=3) == 3
    assert not asked, "nothing depends on it"
    assert partitions(maxRecordsPerPartition=1000) == 6
    assert not asked, "the stream's number of messages is known"
    tail = f'{{"{name}": 30002}}'
    assert partitions(maxRecordsPerPartition=1000, startingOffsets=tail) == 5
    middle = {"startingOffsets": f'{{"{name}": 2}}', "endingOffsets": f'{{"{name}": 30002}}'}
    assert partitions(maxRecordsPerPartition=1000, **middle) == 1
    assert asked == [2, 30_002]
    # With a filter, only matching messages are counted.
    monkeypatch.setattr(read_plan, "SMALL_RANGE", 100)
    assert partitions(maxRecordsPerPartition=500, subjects=f"{name}.new") == 4
    wait_until(lambda: streams.consumers(name) == 0)


@pytest.fixture
def large(streams: Streams) -> list[str]:
    """Two streams of 24 messages and 12 MB, with three subjects."""
    names = [streams.new(), streams.new()]
    for name in names:
        streams.publish(name, [b"x" * 500_000] * 24)
    return names


def both(here: Here, stream: str, **given: object) -> tuple[int, int]:
    """The number of partitions of a batch, and of the first micro-batch of a query."""
    reader = here.stream(stream, startingOffsets="earliest", **given)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    return len(here.plan(stream, **given)), len(reader.partitions(start, end))


def test_partitions_of_dense_sparse_filtered_mirrored_and_many_streams(
    here: Here, streams: Streams, large: list[str], publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense, other = large
    assert both(here, dense) == (2, 2)
    assert both(here, dense, minPartitions=1) == (1, 1)
    assert both(here, dense, maxPartitionBytes="4m") == (3, 3)
    assert both(here, f"{dense},{other}") == (2, 2)
    assert both(here, f"{dense},{other}", minPartitions=4) == (4, 4)
    # A third of 12 MB is less than the cost of a partition; two thirds are not.
    assert both(here, dense, subjects=f"{dense}.1") == (1, 1)
    assert both(here, dense, subjects=f"{dense}.1,{dense}.2") == (2, 2)
    mirror = f"{dense}M"
    streams.request(f"STREAM.CREATE.{mirror}", {"name": mirror, "mirror": {"name": dense}})
    wait_until(lambda: streams.messages(mirror) == 24)
    assert both(here, mirror) == (2, 2)
    assert both(here, mirror, subjects=f"{dense}.1") == (1, 1)
    # Ten small messages among many deleted sequences.
    sparse = streams.new(max_msgs_per_subject=10)
    publish(f"{sparse}.a", 30_000)
    publish(f"{sparse}.b", 1)
    assert both(here, sparse) == (1, 1)
    assert both(here, sparse, startingTimestamp="2020-01-01Z") == (1, 1)
    # Deleted messages do not count.
    streams.delete_messages(other, list(range(2, 24)))
    assert both(here, other) == (1, 1)
    wait_until(lambda: all(streams.consumers(name) == 0 for name in (*large, mirror, sparse)))


def test_a_micro_batch_is_split_by_what_it_holds(here: Here, streams: Streams, publish: Publish) -> None:
    name = streams.new()
    publish(f"{name}.a", 1_000)
    reader = here.stream(name, startingOffsets="earliest", maxRecordsPerPartition=300)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end["parts"] == {name: 4}
    # Logged: other options do not change a batch.
    assert len(here.stream(name).partitions(start, end)) == 4
