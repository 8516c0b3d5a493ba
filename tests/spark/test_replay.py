"""exactlyOnce=state: a replayed batch is stored once, however it is split into partitions. Without Spark's JVM.

The duplicate window of the targets is so short that the server recognises nothing.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetarrow.core.errors import Error
from jetarrow.spark.options.write import WriteOptions, write_options
from jetarrow.spark.sink import rows as write_rows
from jetarrow.spark.sink import state
from jetarrow.spark.sink.batch_records import BatchName
from jetarrow.spark.sink.group_writer import GroupWriter
from jetarrow.spark.sink.partition_writer import PartitionWriter
from jetarrow.spark.sink.replay import complete
from jetarrow.spark.sink.target import prepare
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tests.strategies import bounded

if TYPE_CHECKING:
    from .tools import Stored, Streams

    Read = Callable[..., list[Stored]]

WINDOW = 100_000_000  # nanoseconds; the minimum of a server
LAYOUT = "columns data, subject=a"


class Crash(Exception):
    """The worker was killed."""


class Query:
    """The executions of one batch of a query that writes to a stream."""

    def __init__(self, streams: Streams, **more: str) -> None:
        self.streams = streams
        self.name = streams.new(duplicate_window=WINDOW, allow_atomic=True)
        self.options: WriteOptions = write_options(
            {
                "servers": streams.url,
                "stream": self.name,
                "subject": f"{self.name}.a",
                "exactlyOnce": "state",
                "sinkState": f"STATE_{self.name}",
                **more,
            }
        )
        fields = [StructField("data", StringType()), StructField("order", LongType())]
        schema = StructType(fields if "atomicBy" in more else fields[:1])
        prepare(schema, self.options, overwrite=False, streaming=True)

    def run(
        self,
        split: Sequence[Sequence[Any]],
        *,
        crash: dict[int, int] | None = None,
        order: Sequence[int] | None = None,
        **name: Any,
    ) -> int:
        """Executes the batch with one task for each list of rows; returns the number of duplicates.

        Args:
            split: The rows of each partition.
            crash: Partitions whose task is killed, and the number of their calls before that; the batch is not
                completed then. 0: the task is killed before it reads a row.
            order: The order of the tasks.
        """
        first = replace(BatchName("q", 7, 0, uuid.uuid4().hex, LAYOUT), **name)
        # All ids are forgotten from here on.
        time.sleep(0.15)
        writers = []
        for partition in range(len(split)) if order is None else order:
            made = PartitionWriter if self.options.atomic_by is None else GroupWriter
            here = replace(first, partition=partition)
            writer = made(self.options, window=0.1, scope="q:7", partition=partition, name=here)
            most = (crash or {}).get(partition)
            try:
                assert writer.write(self._batches(split[partition], most)) == len(split[partition])
            except Crash:
                continue
            writers.append(writer)
        duplicates = sum(writer.duplicates for writer in writers)
        if crash:
            return duplicates
        replayed = [writer.replayed for writer in writers if writer.replayed is not None]
        assert len(replayed) in (0, len(split))
        return duplicates + (complete(self.options, replayed, partitions=len(split)) if replayed else 0)

    def _batches(self, rows: Sequence[Any], most: int | None) -> Iterator[pa.RecordBatch]:
        for number in range(0, len(rows), 5):
            if most is not None and number >= most * 5:
                break
            piece = rows[number : number + 5]
            if self.options.atomic_by is None:
                yield pa.RecordBatch.from_pydict({"data": pa.array(piece, pa.binary())})
            else:
                data, order = zip(*piece, strict=True)
                columns = {"data": pa.array(data, pa.binary()), "order": pa.array(order, pa.int64())}
                yield pa.RecordBatch.from_pydict(columns)
        if most is not None:
            raise Crash


@contextlib.contextmanager
def other_split_allowed() -> Iterator[None]:
    """A partition that was complete and has other rows now fails once."""
    try:
        yield
    except (Error, StreamingQueryException) as error:
        if "may be split otherwise than before" not in str(error):
            raise


@pytest.fixture
def calls_of_five(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_rows, "_CALL_ROWS", 5)


def contents(found: list[Stored]) -> Counter[bytes]:
    return Counter(message.data for message in found)


def split_evenly(rows: Sequence[Any], partitions: int) -> list[Sequence[Any]]:
    """Round robin, as `repartition(n)`."""
    return [rows[number::partitions] for number in range(partitions)]


ROWS = [b"%d" % (i % 80) for i in range(100)]


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4), (4, 1), (4, 4)])
@pytest.mark.parametrize("done", [(2, 3), (0,), (0, 1, 2, 3)])
@pytest.mark.usefixtures("calls_of_five")
def test_replay_with_another_number_of_partitions(
    streams: Streams, stored: Read, before: int, after: int, done: tuple[int, ...]
) -> None:
    query = Query(streams)
    others = {number: 0 for number in range(before) if number not in done}
    there = query.run(split_evenly(ROWS, before), crash=others or {before: 0})
    assert there == 0
    there = len(stored(query.name))
    for _ in range(3):
        with other_split_allowed():
            assert query.run(split_evenly(ROWS, after)) == there
            break
        there = len(stored(query.name))
    else:
        pytest.fail("three attempts")
    assert contents(stored(query.name)) == Counter(ROWS)
    assert query.run(split_evenly(ROWS, after)) == 100
    assert contents(stored(query.name)) == Counter(ROWS)


@pytest.mark.usefixtures("calls_of_five")
def test_replay_with_the_same_partitions_passes_no_row_to_the_driver(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, stored: Read
) -> None:
    query = Query(streams)
    rows = [b"%d" % i for i in range(100)]
    query.run(split_evenly(rows, 4), crash={0: 0, 1: 2, 2: 1})
    monkeypatch.setattr(state, "_MAX_HELD_BYTES", -1)
    assert query.run(split_evenly(rows, 4)) == 10 + 5 + 25
    assert contents(stored(query.name)) == Counter(rows)


@bounded(20)
@given(data=st.data())
@pytest.mark.usefixtures("calls_of_five")
def test_any_executions_store_each_row_once(streams: Streams, stored: Read, data: st.DataObject) -> None:
    query = Query(streams)
    rows = data.draw(st.lists(st.sampled_from([b"a", b"b", b"c", *ROWS]), min_size=1, max_size=40))
    for _ in range(data.draw(st.integers(1, 4))):
        split = _drawn_split(data, rows)
        numbers = st.integers(0, len(split) - 1)
        crash = data.draw(st.dictionaries(numbers, st.integers(0, 4), min_size=1))
        order = data.draw(st.permutations(range(len(split))))
        with other_split_allowed():
            query.run(split, crash=crash, order=order)
        found = contents(stored(query.name))
        assert found <= Counter(rows)
    split = _drawn_split(data, rows)
    for _ in range(len(split) + 1):
        with other_split_allowed():
            query.run(split, order=data.draw(st.permutations(range(len(split)))))
            break
    assert contents(stored(query.name)) == Counter(rows)
    query.streams.delete(query.name)


def _drawn_split(data: st.DataObject, rows: list[bytes]) -> list[list[bytes]]:
    """All rows in any order, in up to five partitions."""
    split: list[list[bytes]] = [[] for _ in range(data.draw(st.integers(1, 5)))]
    for row in data.draw(st.permutations(rows)):
        split[data.draw(st.integers(0, len(split) - 1))].append(row)
    return split


@pytest.mark.usefixtures("calls_of_five")
def test_rows_that_changed_in_a_replay_are_an_error(streams: Streams, stored: Read) -> None:
    query = Query(streams)
    query.run(split_evenly(ROWS, 4), crash={0: 0, 1: 0})
    with pytest.raises(
        Error, match=r"batch 7, partition 0 of this query has changed .*: 50 stored rows are none of its"
    ):
        query.run([[b"x%d" % i for i in range(10)], [b"y"]])
    # The rows of the replay were stored by its tasks; those that it held were not.
    assert contents(stored(query.name)) == Counter([*ROWS[2::4], *ROWS[3::4], *(b"x%d" % i for i in range(10)), b"y"])


def test_another_layout_is_refused_before_a_row_is_published(streams: Streams, stored: Read) -> None:
    query = Query(streams)
    query.run([ROWS], crash={0: 0})
    with pytest.raises(
        Error, match=r"it began with columns data, subject=a, and now has columns data, headers; restart"
    ):
        query.run([ROWS], layout="columns data, headers")
    assert stored(query.name) == []
    # Another batch may differ.
    assert query.run([ROWS], batch=8, layout="columns data, headers") == 0
    assert contents(stored(query.name)) == Counter(ROWS)


@pytest.mark.usefixtures("calls_of_five")
def test_too_many_rows_of_other_partitions_are_refused(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, stored: Read
) -> None:
    query = Query(streams)
    query.run(split_evenly(ROWS, 4), crash={0: 0, 1: 0})
    monkeypatch.setattr(state, "_MAX_HELD_BYTES", 500)
    with pytest.raises(Error, match=r"other partitions have stored more than 0 MiB of the rows of partition 0"):
        query.run(split_evenly(ROWS, 2))
    monkeypatch.undo()
    monkeypatch.setattr(write_rows, "_CALL_ROWS", 5)
    query.run(split_evenly(ROWS, 4))
    assert contents(stored(query.name)) == Counter(ROWS)


def test_an_execution_that_was_replaced_does_not_complete(streams: Streams) -> None:
    query = Query(streams)
    query.run([ROWS, ROWS], crash={1: 0})
    old = BatchName("q", 7, 0, "old", LAYOUT)
    writer = PartitionWriter(query.options, window=0.1, scope="q:7", partition=0, name=old)
    assert writer.write(query._batches(ROWS, None)) == 100
    query.run([ROWS, ROWS])
    assert writer.replayed is not None
    with pytest.raises(Error, match="another execution of it has begun"):
        complete(query.options, [writer.replayed], partitions=2)


def test_groups_move_between_partitions(streams: Streams, stored: Read) -> None:
    query = Query(streams, atomicBy="order")
    groups = [[(b"%d" % order, order)] * 3 for order in range(12)]

    def split(partitions: int) -> list[list[tuple[bytes, int]]]:
        return [[row for group in groups[number::partitions] for row in group] for number in range(partitions)]

    query.run(split(4), crash={0: 0, 1: 0})
    assert len(stored(query.name)) == 18
    assert query.run(split(2)) == 18
    assert contents(stored(query.name)) == Counter(row for group in groups for row, _ in group)


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.filterwarnings("ignore:jetstream. stream .* recognises duplicates")
@pytest.mark.slow
def test_query_restarted_with_fewer_partitions(
    spark: SparkSession, streams: Streams, stored: Read, tmp_path: Path
) -> None:
    source, target = streams.new(), streams.new(duplicate_window=WINDOW)
    rows = [b"%d" % i for i in range(400)]
    streams.publish(source, rows)
    broken = tmp_path / "broken"
    broken.touch()

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() >= 2 and broken.exists():
            raise RuntimeError("the worker was killed")
        yield from batches

    def run(partitions: int) -> None:
        given = {"servers": streams.url, "stream": source, "startingOffsets": "earliest"}
        frame = spark.readStream.format("jetstream").options(**given).load().select("data").repartition(partitions)
        given = {"servers": streams.url, "stream": target, "subject": f"{target}.a", "exactlyOnce": "state"}
        given |= {"sinkState": f"STATE_{target}", "checkpointLocation": str(tmp_path / "checkpoint")}
        written = frame.mapInArrow(fail, "data binary").writeStream.format("jetstream").options(**given)
        assert written.trigger(availableNow=True).start().awaitTermination(60)

    with pytest.raises(StreamingQueryException, match="the worker was killed"):
        run(4)
    assert len(stored(target)) == 200
    broken.unlink()
    for _ in range(3):
        with other_split_allowed():
            run(2)
            break
    assert contents(stored(target)) == Counter(rows)
