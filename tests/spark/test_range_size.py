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
from jetarrow.spark.source.range_size import RangeSize, range_size, split_counts
from pyspark.sql.streaming.datasource import ReadAllAvailable

from ..tools import wait_until

if TYPE_CHECKING:
    from .tools import Here, Streams

    Publish = Callable[..., None]


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
    assert counted(whole(1_000_000, 10**11)) == [373]
    assert counted(whole(10), minPartitions=4) == [4]
    assert counted(whole(3), minPartitions=4) == [3]
    assert counted(whole(900), whole(100), whole(0), minPartitions=10) == [9, 1]
    assert counted(whole(100), maxRecordsPerPartition=30) == [4]
    assert counted(whole(100, 100_000), maxBytesPerPartition="10k") == [10]
    # Two messages in 30,001 sequences were 31 partitions.
    assert counted(RangeSize(30_001, 2, 10, 2), maxOffsetsPerPartition=1000) == [2]
    assert counted(RangeSize(30_001, 2, 10, 2), minPartitions=8) == [2]
    assert counted(RangeSize(1000, 0, 0, 0), minPartitions=8) == [1]


def test_range_size_is_estimated_without_a_request() -> None:
    sparse = info(first=1, last=1_000_000, messages=400_000, size=4_000_000)
    assert range_size(options(), sparse, None, start=1, sequences=1_000_000) == RangeSize(
        1_000_000, 400_000, 4_000_000, 400_000
    )
    assert range_size(options(), sparse, None, start=500_001, sequences=500_000).messages == 200_000
    # A range has at most as many deleted messages as the whole stream.
    dense = info(first=1, last=1_000_000, messages=990_000, size=9_900_000)
    assert range_size(options(), dense, None, start=700_001, sequences=300_000).messages == 297_000
    assert range_size(options(), dense, None, start=1, sequences=20_000).messages == 20_000


def test_a_plan_of_large_messages() -> None:
    infos = {"A": info(first=1, last=1000, messages=1000, size=1 << 30)}
    found: list[StreamRange] = plan_partitions(options(), infos)
    assert [(part.start, part.end) for part in found] == [(1, 251), (251, 501), (501, 751), (751, 1001)]


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
    assert asked == [1]
    tail = f'{{"{name}": 30002}}'
    assert partitions(maxRecordsPerPartition=1000, startingOffsets=tail) == 5
    middle = {"startingOffsets": f'{{"{name}": 2}}', "endingOffsets": f'{{"{name}": 30002}}'}
    assert partitions(maxRecordsPerPartition=1000, **middle) == 1
    assert asked == [2, 30_002]
    # With a filter, only matching messages are counted.
    monkeypatch.setattr(read_plan, "SMALL_RANGE", 100)
    assert partitions(maxRecordsPerPartition=500, subjects=f"{name}.new") == 4
    wait_until(lambda: streams.consumers(name) == 0)


def test_a_micro_batch_is_split_by_what_it_holds(here: Here, streams: Streams, publish: Publish) -> None:
    name = streams.new()
    publish(f"{name}.a", 1_000)
    reader = here.stream(name, startingOffsets="earliest", maxRecordsPerPartition=300)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end["parts"] == {name: 4}
    # Logged: other options do not change a batch.
    assert len(here.stream(name).partitions(start, end)) == 4
