"""Spark: what a query costs by itself, told apart from what its messages cost; and from publish to `foreachBatch`."""

from __future__ import annotations

import dataclasses
import json
import math
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
from test_spark import NATIVE, SPARK, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SLOPE = Group("Spark: slope of a batch read, 128 B", "read", "raw socket", count=1_000_000)
LATENCY = Group("Spark: from publish to foreachBatch, 100 rows", "core", peer="Spark, Python rate source", count=3_000)
FIXED = Group("Spark: a batch query of 1,000 rows", "read", peer="Spark, Python source", count=1_000)
QUERIES = 10
# The smaller of the two sizes is this part of the larger one.
PART = 5
ROWS = 100
TRIGGER = 0.1


def slope(run: Run, read: Callable[[Run, int], int]) -> int:
    """Reads two sizes; the rate is that of what the larger one has more, and the rest of the time is a fixed cost.

    In a short round, and on a busy machine, more messages may take less time: then it is not known.
    """
    few = dataclasses.replace(run, count=max(1, run.count // PART), seconds=0.0, client_cpu=0.0, server_cpu=None)
    done = [read(one, one.count) for one in (few, run)]
    if done != [few.count, run.count]:
        raise wire.WireError(f"{done} rows of {few.count} and {run.count}")
    each = (run.seconds - few.seconds) / (run.count - few.count)
    run.notes["fixed cost, ms"] = 1000 * (run.seconds - each * run.count) if each > 0 else math.nan
    # Its CPU is that of the whole, the fixed cost among it.
    run.seconds = each * run.count if each > 0 else run.seconds
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


def noop(run: Run, count: int, columns: str | None = None, **options: int) -> int:
    """Reads the first messages of the stream to nowhere."""
    given = {"endingOffsets": json.dumps({run.stream: count + 1}), "maxBytesPerPartition": "100g", **options}
    return sparks.read_to_nowhere(load(run, columns, **given), run)


def queries(run: Run, frame: Callable[[], DataFrame]) -> int:
    """One after the other; the median counts."""
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
    """When a batch came in which the last of so many rows was, in `foreachBatch` and when its rows were counted."""

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
    """Sends 100 rows at a time, at any moment of the trigger's interval, once those before them are there."""
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
    # The first ones start the query.
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


@pytest.mark.parametrize("name", FIXED.rows)
def test_spark_fixed(name: str, record: Callable[[Group, str], None]) -> None:
    record(FIXED, name)


@pytest.mark.parametrize("name", LATENCY.rows)
def test_spark_latency(name: str, record: Callable[[Group, str], None]) -> None:
    record(LATENCY, name)
