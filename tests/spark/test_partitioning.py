"""How ranges are split, without Spark's JVM and without a server."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest
from jetarrow.js.api import StreamConfig, StreamInfo, StreamState
from jetarrow.js.errors import DataLossError
from jetarrow.spark.options.read import read_options
from jetarrow.spark.source.partitioning import StreamRange, plan_partitions


def info(first: int, last: int) -> StreamInfo:
    state = StreamState(messages=max(0, last - first + 1), bytes=0, first_seq=first, last_seq=last, consumer_count=0)
    return StreamInfo(config=StreamConfig(name="any"), state=state)


def planned(infos: dict[str, StreamInfo], **options: object) -> list[StreamRange]:
    given = {"servers": "a:1", "stream": ",".join(infos), **{k: str(v) for k, v in options.items()}}
    return plan_partitions(read_options(given), infos)


def bounds(partitions: list[StreamRange]) -> list[tuple[str, int, int]]:
    return [(p.stream, p.start, p.end) for p in partitions]


def test_splits_are_even_contiguous_and_never_empty() -> None:
    chance = random.Random(5)
    for _ in range(300):
        first, size = chance.randint(1, 10_000), chance.randint(1, 3_000)
        least, most = chance.randint(1, 40), chance.randint(1, 2_000)
        found = planned({"A": info(first, first + size - 1)}, minPartitions=least, maxOffsetsPerPartition=most)
        sizes = [p.end - p.start for p in found]
        assert found[0].start == first
        assert found[-1].end == first + size
        assert all(a.end == b.start for a, b in pairwise(found))
        assert min(sizes) >= 1
        assert max(sizes) <= most
        assert max(sizes) - min(sizes) <= 1
        assert len(found) == min(size, max(least, -(-size // most)))


def test_min_partitions_is_a_total_shared_by_size() -> None:
    found = planned({"A": info(1, 900), "B": info(1, 100), "C": info(0, 0)}, minPartitions=10)
    assert [p.stream for p in found] == ["A"] * 9 + ["B"]


@pytest.mark.parametrize("last", [0, 41])
def test_an_empty_stream_has_no_partition(last: int) -> None:
    # New: 0 and 0. Purged: the first sequence is the one after the last.
    assert planned({"A": info(last + 1 if last else 0, last)}, minPartitions=4) == []


@pytest.mark.parametrize(
    ("starting", "ending", "expected"),
    [
        ({"A": 12}, {"A": 15}, [("A", 12, 15)]),
        ({"A": -2}, {"A": -1}, [("A", 10, 21)]),
        ({}, {}, [("A", 10, 21)]),
        ({"A": 12}, {"A": 99}, [("A", 12, 21)]),
        ({"A": 20}, {"A": 21}, [("A", 20, 21)]),
        ({"A": 12}, {"A": 12}, []),
        ({"A": 15}, {"A": 12}, []),
        ({"A": 21}, {}, []),
        ({"A": 99}, {}, []),
        ({}, {"A": 10}, []),
        ({}, {"A": 3}, []),
    ],
)
def test_offsets(starting: dict[str, int], ending: dict[str, int], expected: list[tuple[str, int, int]]) -> None:
    found = planned({"A": info(10, 20)}, startingOffsets=json.dumps(starting), endingOffsets=json.dumps(ending))
    assert bounds(found) == expected


def test_a_start_that_is_gone_is_loss() -> None:
    with pytest.raises(DataLossError, match="sequence 9 of stream 'A' is gone; the stream begins with 10") as e:
        planned({"A": info(10, 20)}, startingOffsets='{"A": 9}')
    assert (e.value.asked, e.value.available) == ((9, 21), 10)


def test_only_the_first_partition_from_earliest_may_find_its_head_gone() -> None:
    infos = {"A": info(10, 20), "B": info(10, 20)}
    given = {"startingOffsets": '{"B": 10}', "minPartitions": "4"}
    found = planned(infos, **given)
    assert [(p.stream, p.head, p.plan.loss_fails) for p in found] == [
        ("A", True, True),
        ("A", False, True),
        ("B", False, True),
        ("B", False, True),
    ]
    assert not any(p.head for p in planned(infos, **given, failOnDataLoss="true"))
