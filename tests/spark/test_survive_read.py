"""Reads while workers and servers are killed, and streams are purged and created again, with a real Spark."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from jetarrow.server import NatsServer
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from .tools import Streams, end_idle_workers, kill_workers, wait_until, workers

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

COUNT = 1000
# Bytes in flight are a fraction of the whole, so that a task lasts as long as Spark consumes its rows.
SMALL = {"batchBytes": "256k", "fetchBytes": "256k", "startingOffsets": "earliest"}


@pytest.fixture
def streams(own_server: NatsServer) -> Streams:
    """On a server of the test's own, which may be killed."""
    # A worker that is killed after the one that reads may have its task already, and Spark tries a task twice only.
    end_idle_workers()
    return Streams(own_server.url)


def fill(streams: Streams, name: str) -> None:
    streams.publish(name, [bytes(20_000)] * COUNT)


def kill_readers(streams: Streams, name: str) -> None:
    """Kills the workers in the middle of a task: the consumer with which it reads is not deleted."""
    reading = streams.readers(name)
    assert reading
    assert kill_workers() >= 1
    assert streams.readers(name) >= reading


PACE = "jetarrow.test.pace"


def slowly(frame: DataFrame) -> list[int]:
    """The sequences; Spark sleeps over each, for 2 ms unless `held`."""
    pace = f"cast(reflect('java.lang.System', 'getProperty', '{PACE}', '2') as bigint)"
    rows = frame.selectExpr("seq", f"reflect('java.lang.Thread', 'sleep', {pace}) as slept").collect()
    return sorted(row.seq for row in rows)


@contextlib.contextmanager
def held(spark: SparkSession) -> Iterator[None]:
    """Tasks hardly move on inside: however busy the machine is, none ends before the test has broken what it reads."""
    properties = spark._jvm.java.lang.System  # type: ignore[union-attr]
    properties.setProperty(PACE, "200")
    try:
        yield
    finally:
        properties.clearProperty(PACE)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def batch(spark: SparkSession, streams: Streams, pool: ThreadPoolExecutor) -> Callable[..., Future[list[int]]]:
    """Starts a batch read of a stream, and returns when its task reads."""

    def start(name: str, **options: object) -> Future[list[int]]:
        # One task: by default the first one is small, and ends before the test interferes.
        given = {"servers": streams.url, "stream": name, "minPartitions": 1} | SMALL | options
        frame = spark.read.format("jetstream").options(**{k: str(v) for k, v in given.items()}).load()
        done = pool.submit(slowly, frame)
        wait_until(lambda: streams.readers(name) or done.done())
        assert not done.done()
        return done

    return start


def test_a_batch_whose_worker_is_killed(
    spark: SparkSession, streams: Streams, batch: Callable[..., Future[list[int]]]
) -> None:
    name = streams.new()
    fill(streams, name)
    with held(spark):
        done = batch(name)
        # No other one to which Spark could give the task meanwhile.
        assert len(workers()) == 1
        kill_readers(streams, name)
    assert done.result(60) == list(range(1, COUNT + 1))


def test_a_batch_whose_server_is_killed(
    spark: SparkSession, streams: Streams, own_server: NatsServer, batch: Callable[..., Future[list[int]]]
) -> None:
    name = streams.new()
    fill(streams, name)
    with held(spark):
        done = batch(name, minPartitions=3)
        own_server.kill()
    assert not done.done()
    time.sleep(1)  # away for a while
    own_server.restart()
    assert done.result(60) == list(range(1, COUNT + 1))


def test_a_batch_whose_stream_is_purged(
    spark: SparkSession, streams: Streams, batch: Callable[..., Future[list[int]]]
) -> None:
    name = streams.new()
    fill(streams, name)
    with held(spark):
        done = batch(name, startingOffsets=f'{{"{name}": 1}}')
        streams.purge(name, before=COUNT)
    with pytest.raises(PySparkException) as error:
        done.result(60)
    text = str(error.value)
    assert "DataLossError: nats: jetstream: messages " in text
    assert f"to {COUNT - 1} of stream" in text
    assert f"available from {COUNT}; set failOnDataLoss=false" in text


def test_a_batch_whose_stream_is_made_again(
    spark: SparkSession, streams: Streams, batch: Callable[..., Future[list[int]]]
) -> None:
    name = streams.new()
    fill(streams, name)
    with held(spark):
        done = batch(name)
        streams.delete(name)
        streams.create(name)
        fill(streams, name)
    with pytest.raises(PySparkException, match="StreamRecreatedError: nats: stream "):
        done.result(60)


# One batch for all messages that `fill` publishes, not one for the first of them: with a short delay, which a batch
# before exceeds, the next one begins with what is stored then, and its rows end before the test has broken anything.
WHOLE = {"minOffsetsPerTrigger": COUNT, "maxTriggerDelay": "1h"}


class Query:
    """A slow streaming query; `batches` has the sequences of each batch."""

    def __init__(self, spark: SparkSession, url: str, checkpoint: Path) -> None:
        self.spark = spark
        self.url = url
        self.checkpoint = checkpoint
        self.batches: dict[int, list[int]] = {}
        self.reading = threading.Event()

    def start(self, name: str, **options: object) -> StreamingQuery:
        given = {"servers": self.url, "stream": name} | SMALL | options
        frame = self.spark.readStream.format("jetstream").options(**{k: str(v) for k, v in given.items()}).load()
        return frame.writeStream.foreachBatch(self.take).option("checkpointLocation", str(self.checkpoint)).start()

    def take(self, frame: DataFrame, batch: int) -> None:
        self.reading.set()
        found = slowly(frame)
        self.reading.clear()
        assert self.batches.setdefault(batch, found) == found

    @property
    def seqs(self) -> list[int]:
        return sorted(seq for batch in list(self.batches.values()) for seq in batch)


@pytest.fixture
def query(spark: SparkSession, streams: Streams, tmp_path: Path) -> Iterator[Query]:
    query = Query(spark, streams.url, tmp_path / "checkpoint")
    yield query
    for active in spark.streams.active:
        active.stop()


def test_a_streaming_query_survives_kills(streams: Streams, own_server: NatsServer, query: Query) -> None:
    name = streams.new()
    fill(streams, name)
    with held(query.spark):
        running = query.start(name, **WHOLE)
        wait_until(lambda: streams.readers(name))
        assert query.reading.is_set()
        own_server.kill()
    time.sleep(1)
    own_server.restart()
    wait_until(lambda: len(query.seqs) == COUNT or not running.isActive)
    assert query.seqs == list(range(1, COUNT + 1))

    # The worker is killed in the middle of the next batch, and the server between two. A consumer of the last batch may
    # be there still, because its deletion is best effort.
    done = streams.readers(name)
    with held(query.spark):
        fill(streams, name)
        wait_until(lambda: streams.readers(name) - done)
        assert query.reading.is_set()
        # Not until it expires: that of this batch would expire soon after it.
        for left in streams.readers(name) & done:
            with contextlib.suppress(AssertionError):
                streams.request(f"CONSUMER.DELETE.{name}.{left}")
        assert not streams.readers(name) & done
        kill_readers(streams, name)
    wait_until(lambda: len(query.seqs) == 2 * COUNT or not running.isActive)
    assert running.exception() is None
    own_server.kill()
    own_server.restart()
    streams.publish(name, [b"x"] * COUNT)
    wait_until(lambda: len(query.seqs) == 3 * COUNT or not running.isActive)
    assert running.exception() is None
    assert query.seqs == list(range(1, 3 * COUNT + 1))


@pytest.mark.needs_spark("4.2", "limits per micro-batch")
def test_a_streaming_query_stopped_in_the_middle(streams: Streams, query: Query) -> None:
    name = streams.new()
    fill(streams, name)
    running = query.start(name, maxOffsetsPerTrigger=400)
    wait_until(lambda: 0 in query.batches)
    with held(query.spark):
        wait_until(query.reading.is_set)
        running.stop()
    assert 0 < len(query.seqs) < COUNT
    running = query.start(name, maxOffsetsPerTrigger=100)
    wait_until(lambda: len(query.seqs) == COUNT or not running.isActive)
    assert query.seqs == list(range(1, COUNT + 1))
    # The batch that was stopped is planned as it was logged.
    assert [len(query.batches[i]) for i in (0, 1)] == [400, 400]


@pytest.mark.slow
def test_a_streaming_query_whose_stream_is_purged_and_made_again(streams: Streams, query: Query) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 5)
    running = query.start(name, **WHOLE)
    wait_until(lambda: query.seqs == [1, 2, 3, 4, 5])
    with held(query.spark):
        fill(streams, name)
        wait_until(lambda: streams.readers(name))
        streams.purge(name, before=COUNT)
    with pytest.raises(StreamingQueryException, match=r"DataLossError: nats: jetstream: messages \d+ to \d+ of stream"):
        running.awaitTermination(60)
    running = query.start(name, failOnDataLoss=False)
    wait_until(lambda: len(query.seqs) == 11 or not running.isActive)
    assert query.seqs == [1, 2, 3, 4, 5, *range(COUNT, COUNT + 6)]
    streams.delete(name)
    streams.create(name)
    with pytest.raises(StreamingQueryException, match=r"StreamRecreatedError: nats: stream|there is no stream"):
        running.awaitTermination(60)
