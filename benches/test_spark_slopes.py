"""Spark: the fixed cost of a query, the cost per message, and the latency from publish to `foreachBatch`."""

from __future__ import annotations

import dataclasses
import itertools
import json
import statistics
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import sparks
import wire
from harness import Group, Run
from test_spark import NATIVE, SPARK, load, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SLOPE = Group("Spark: slope of a batch read, 128 B", "read", "raw socket", count=1_000_000, rounds=5)
WRITE_SLOPE = Group(
    "Spark: slope of a batch write with ids, 128 B",
    "publish",
    "raw socket with ids",
    "jetarrow publish_batch",
    count=500_000,
    rounds=5,
)
LATENCY = Group("Spark: from publish to foreachBatch, 100 rows", "core", peer="Spark, Python rate source", count=3_000)
FIXED = Group("Spark: a batch query of 1,000 rows", "read", peer="Spark, Python source", count=1_000)
QUERIES = 10
# The smaller of the two message counts, and its number of runs.
FEW, SMALL_ROUNDS = 1_000, 5
ROWS = 100
TRIGGER = 0.1


def slope(run: Run, work: Callable[[Run, int], int]) -> int:
    """Process few messages several times, then all; the rate is that of the additional messages.

    The cost of few messages is nearly the fixed cost of a query, so their median is used as the fixed cost. With two
    counts of the same order of magnitude the noise of both would be a multiple of the difference.
    """
    small: list[Run] = []
    for _ in range(SMALL_ROUNDS):
        few = dataclasses.replace(run, count=FEW, seconds=0.0, client_cpu=0.0, server_cpu=None)
        if (done := work(few, FEW)) != FEW:
            raise wire.WireError(f"{done} rows of {FEW}")
        small.append(few)
    if (done := work(run, run.count)) != run.count:
        raise wire.WireError(f"{done} rows of {run.count}")
    fixed = statistics.median(few.seconds for few in small)
    run.notes["fixed cost, ms"] = 1000 * fixed
    # In a short round, or on a busy machine, all messages may take less time than few.
    run.seconds = max(run.seconds - fixed, 1e-6) * run.count / max(1, run.count - FEW)
    run.client_cpu = max(0.0, run.client_cpu - statistics.median(few.client_cpu for few in small))
    return run.count


@SLOPE.row("raw socket")
def raw_socket(run: Run) -> int:
    def read(one: Run, count: int) -> int:
        wire.pull(one.url, one.stream, count, clock=one.clock())
        return count  # it has checked the consumer's own count

    return slope(run, read)


@SLOPE.row("jetarrow read, sync", needs=NATIVE)
def read_sync(run: Run) -> int:
    import jetarrow.sync

    def read(one: Run, count: int) -> int:
        with jetarrow.sync.connect(one.url) as nc, one.clock():
            batches = nc.jetstream().read(one.stream, end_seq=count + 1, timestamp_unit="us")
            return sum(batch.to_pyarrow().num_rows for batch in batches)

    return slope(run, read)


@SLOPE.row("Spark, 1 partition", needs=SPARK)
def one_partition(run: Run) -> int:
    return slope(run, lambda one, count: noop(one, count, maxRecordsPerPartition=run.count))


@SLOPE.row("Spark, 2 partitions", needs=SPARK)
def two_partitions(run: Run) -> int:
    return slope(run, lambda one, count: noop(one, count, maxRecordsPerPartition=run.count, minPartitions=2))


@SLOPE.row("Spark, 2 partitions, seq and subject", needs=SPARK)
def two_columns(run: Run) -> int:
    columns = "seq bigint, subject string"
    return slope(run, lambda one, count: noop(one, count, columns, maxRecordsPerPartition=run.count, minPartitions=2))


@SLOPE.row("Spark, 2 partitions, whole batches", needs=SPARK)
def whole_batches(run: Run) -> int:
    """Read with the former size of a batch: 65,536 rows or 8 MiB."""
    options = {"maxRecordsPerPartition": run.count, "minPartitions": 2, "batchBytes": "8m"}
    return slope(run, lambda one, count: noop(one, count, **options))


def noop(run: Run, count: int, columns: str | None = None, **options: object) -> int:
    """Read the first `count` messages of the stream into a noop sink."""
    given = {"endingOffsets": json.dumps({run.stream: count + 1}), "maxBytesPerPartition": "100g", **options}
    return sparks.read_to_nowhere(load(run, columns, **given), run)


def write_slope(run: Run, work: Callable[[Run], object]) -> int:
    """Like `slope`, but purge the stream after each run except the last, because the harness counts its messages."""

    def once(one: Run, _count: int) -> int:
        work(one)
        stored = wire.stream_messages(one.url, one.stream)
        if one is not run:
            wire.purge_stream(one.url, one.stream)
        return stored

    return slope(run, once)


@WRITE_SLOPE.row("raw socket with ids")
def raw_socket_ids(run: Run) -> int:
    turn = itertools.count()

    def work(one: Run) -> None:
        wire.publish(one.url, one.subject, one.size, one.count, ids=f"r{next(turn)}", clock=one.clock())

    return write_slope(run, work)


@WRITE_SLOPE.row("jetarrow publish_batch", needs=NATIVE)
def publish_ids(run: Run) -> int:
    import jetarrow.sync
    import pyarrow

    payloads, turn = pyarrow.array(run.payloads, pyarrow.binary()), itertools.count()

    def work(one: Run) -> None:
        # As long as the ids of Spark's rows.
        number = next(turn)
        ids = pyarrow.array([f"{number:04}{i:018}" for i in range(one.count)], pyarrow.string())
        with jetarrow.sync.connect(one.url) as nc:
            js = nc.jetstream()
            with one.clock():
                result = js.publish_batch(one.subject, payloads[: one.count], msg_ids=ids, expected_stream=one.stream)
        result.raise_for_errors()

    return write_slope(run, work)


@WRITE_SLOPE.row("Spark, content ids", needs=SPARK)
def spark_ids(run: Run) -> int:
    return write_slope(run, write)


def queries(run: Run, frame: Callable[[], DataFrame]) -> int:
    """Run the queries one after the other, and record the median."""
    found = []
    for _ in range(QUERIES):
        one = dataclasses.replace(run, seconds=0.0)
        if sparks.read_to_nowhere(frame(), one) != run.count:
            raise wire.WireError("rows are missing")
        found.append(one.seconds)
    run.seconds = statistics.median(found)
    run.notes["ms a query"] = 1000 * run.seconds
    return run.count


@FIXED.row("Spark, Python source", needs=SPARK)
def python_source(run: Run) -> int:
    from test_spark import rate_like

    source = rate_like()
    sparks.session().dataSource.register(source)
    options = {"rows": str(run.count), "step": "1"}
    return queries(run, lambda: sparks.session().read.format(source.name()).options(**options).load())


@FIXED.row("Spark, jetstream", needs=SPARK)
def jetstream_query(run: Run) -> int:
    return queries(run, lambda: load(run))


class Arrivals:
    """Times at which the batch with the last expected row arrived in `foreachBatch`, and at which it was counted."""

    def __init__(self) -> None:
        self.rows, self.called, self.counted = 0, 0.0, 0.0
        self._changed = threading.Condition()

    def take(self, frame: DataFrame, _batch: int) -> None:
        called = time.perf_counter()
        rows = frame.count()
        with self._changed:
            self.rows += rows
            self.called, self.counted = called, time.perf_counter()
            self._changed.notify_all()

    def wait(self, rows: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self.rows >= rows, 60):
                raise wire.WireError(f"{self.rows} of {rows} rows came")


def latencies(run: Run, frame: DataFrame, send: Callable[[int], None]) -> int:
    """Send 100 rows at a time, at varying moments of the trigger's interval, after the previous ones have arrived."""
    arrivals, found = Arrivals(), []
    query = frame.writeStream.foreachBatch(arrivals.take).trigger(processingTime="100 milliseconds").start()
    try:
        for number in range(run.count // ROWS):
            sent = time.perf_counter()
            send(number)
            arrivals.wait((number + 1) * ROWS)
            found.append((arrivals.called - sent, arrivals.counted - sent))
            time.sleep(TRIGGER * (number * 0.37 % 1))
    finally:
        query.stop()
    # The first batches include the start of the query.
    called, counted = (statistics.median(times) for times in zip(*found[3:] or found, strict=True))
    run.notes |= {"ms to foreachBatch": 1000 * called, "ms to its rows": 1000 * counted}
    run.seconds = counted * len(found)
    return arrivals.rows


@LATENCY.row("Spark, Python rate source", needs=SPARK)
def rate_latency(run: Run) -> int:
    from test_spark import rate_like

    source = rate_like()
    sparks.session().dataSource.register(source)
    gate = sparks.scratch() / f"rate-{uuid.uuid4().hex}"

    def send(number: int) -> None:
        gate.write_text(str((number + 1) * ROWS))

    send(-1)
    options = {"rows": str(run.count), "step": str(ROWS), "gate": str(gate)}
    return latencies(run, sparks.session().readStream.format(source.name()).options(**options).load(), send)


@LATENCY.row("Spark, jetstream", needs=SPARK)
def jetstream_latency(run: Run) -> int:
    import jetarrow.sync

    name = f"L{uuid.uuid4().hex[:8]}"
    payloads = [b"x" * run.size] * ROWS
    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        js.add_stream(name=name, subjects=[name])
        try:
            options = {"servers": run.url, "stream": name, "startingOffsets": "earliest"}
            frame = sparks.session().readStream.format("jetstream").options(**options).load()
            return latencies(run, frame, lambda _: js.publish_batch(name, payloads).raise_for_errors())
        finally:
            js.delete_stream(name)


@pytest.mark.parametrize("name", SLOPE.rows)
def test_spark_slope(name: str, record: Callable[[Group, str], None]) -> None:
    record(SLOPE, name)


@pytest.mark.parametrize("name", WRITE_SLOPE.rows)
def test_spark_write_slope(name: str, record: Callable[[Group, str], None]) -> None:
    record(WRITE_SLOPE, name)


@pytest.mark.parametrize("name", FIXED.rows)
def test_spark_fixed(name: str, record: Callable[[Group, str], None]) -> None:
    record(FIXED, name)


@pytest.mark.parametrize("name", LATENCY.rows)
def test_spark_latency(name: str, record: Callable[[Group, str], None]) -> None:
    record(LATENCY, name)
