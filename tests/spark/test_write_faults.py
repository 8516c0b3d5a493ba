"""Writes during which a worker, driver or server is killed: every row is in the stream exactly once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from jetarrow.server import NatsServer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from .tools import clients, has_unread, port_of, wait_until

if TYPE_CHECKING:
    from .tools import Stored
    from .tools import Streams as StreamsOf

    Read = Callable[..., list[Stored]]
    Write = Callable[..., None]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="needs Linux"),
]
ROWS, PARTITIONS = 6_000, 2
# Bytes of a row. Spark buffers 64 KiB; with this size most rows of a half pass the buffers.
SIZE = 300


class Gate:
    """In the first attempt each task stops half-way until the gate is open; in others its rows are reversed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def through(self, frame: DataFrame) -> DataFrame:
        path = str(self.path)

        def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            rows = pa.Table.from_batches(list(batches))
            if TaskContext.get().attemptNumber() or os.path.exists(path):  # type: ignore[union-attr]
                rows = rows.take(list(range(rows.num_rows))[::-1])
                yield from rows.to_batches()
                return
            half = rows.num_rows // 2
            yield from rows.slice(0, half).to_batches()
            deadline = time.monotonic() + 60
            while not os.path.exists(path) and time.monotonic() < deadline:
                time.sleep(0.01)
            yield from rows.slice(half).to_batches()

        return frame.mapInArrow(pass_on, frame.schema)

    def open(self) -> None:
        self.path.touch()


@pytest.fixture
def gate(tmp_path: Path, spark: SparkSession) -> Iterator[Gate]:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    # Small batches, so that some have gone on before the gate.
    spark.conf.set(name, "200")
    made = Gate(tmp_path / "gate")
    yield made
    made.open()
    spark.conf.set(name, before)


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture
def streams(server: NatsServer, streams: StreamsOf) -> StreamsOf:
    streams.url = server.url
    return streams


class Running(threading.Thread):
    """A blocking call in a thread; `done` raises the exception of the call."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error

    def done(self) -> None:
        self.join(120)
        assert not self.is_alive()
        if self._error is not None:
            raise self._error


def in_thread(spark: SparkSession, work: Callable[[], object]) -> Running:
    def run() -> None:
        # The line that docs/spark.md names: without it a write in a thread does not find the format.
        spark.createDataFrame([], "x int")
        work()

    return Running(run)


def rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, PARTITIONS).selectExpr(f"lpad(id, {SIZE}, '0') as data")


def each_once(found: list[Stored]) -> None:
    assert Counter(message.data for message in found) == {b"%0*d" % (SIZE, i): 1 for i in range(ROWS)}


def half_way(streams: StreamsOf, name: str) -> None:
    """Waits until rows from before the gate are stored."""
    wait_until(lambda: streams.messages(name) >= ROWS // 4)
    assert streams.messages(name) <= ROWS // 2


def kill_server(server: NatsServer) -> None:
    """Kills it while it has messages that it has not answered, and starts it again."""
    wait_until(lambda: has_unread(server))
    server.kill()
    server.start()


def test_killed_workers(
    spark: SparkSession, write: Write, gate: Gate, server: NatsServer, streams: StreamsOf, stored: Read
) -> None:
    name = streams.new()
    options = {"servers": server.url, "subject": f"{name}.x"}
    running = in_thread(spark, lambda: write(gate.through(rows(spark)), name, **options))
    half_way(streams, name)
    workers = clients(port_of(server))
    assert len(workers) == PARTITIONS
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    gate.open()
    running.done()
    each_once(stored(name, url=server.url))


def test_killed_server(
    spark: SparkSession, write: Write, gate: Gate, server: NatsServer, streams: StreamsOf, stored: Read
) -> None:
    name = streams.new()
    options = {"servers": server.url, "subject": f"{name}.x"}
    running = in_thread(spark, lambda: write(gate.through(rows(spark)), name, **options))
    half_way(streams, name)
    server.pause()
    gate.open()
    kill_server(server)
    running.done()
    each_once(stored(name, url=server.url))


class Query:
    """Text files in a folder, line by line into a stream; the folder's checkpoint is kept from run to run."""

    def __init__(self, spark: SparkSession, folder: Path, url: str, stream: str) -> None:
        self.spark = spark
        self.folder = folder
        self.options = {"servers": url, "stream": stream, "subject": f"{stream}.x"}
        (folder / "in").mkdir()

    def add(self, name: str, lines: range) -> None:
        text = "".join(f"{i:0{SIZE}}\n" for i in lines)
        (self.folder / name).write_text(text)
        (self.folder / name).rename(self.folder / "in" / name)

    def start(self, through: Callable[[DataFrame], DataFrame] = lambda frame: frame) -> StreamingQuery:
        frame = self.spark.readStream.schema("data string").text(str(self.folder / "in"))
        writer = through(frame).writeStream.format("jetstream").options(**self.options)
        return writer.option("checkpointLocation", str(self.folder / "checkpoint")).start()

    def run(self, through: Callable[[DataFrame], DataFrame] = lambda frame: frame) -> None:
        query = self.start(through)
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def uncommit(self) -> None:
        """As if the driver had died when the last batch was written, and before it was noted as done."""
        commits = self.folder / "checkpoint" / "commits"
        last = max((file for file in commits.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
        (commits / f".{last.name}.crc").unlink(missing_ok=True)
        last.unlink()


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path, server: NatsServer, streams: StreamsOf) -> Query:
    return Query(spark, tmp_path, server.url, streams.new())


def other_order(frame: DataFrame) -> DataFrame:
    def turn(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(list(batches))
        yield from rows.take(list(range(rows.num_rows))[::-1]).to_batches()

    return frame.mapInArrow(turn, frame.schema)


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
def test_driver_dies_between_write_and_commit(query: Query, server: NatsServer, stored: Read) -> None:
    """Twice, and each time the rows come in another order."""
    name = query.options["stream"]
    query.add("a", range(2_000))
    query.run()
    query.add("b", range(2_000, ROWS))
    query.run(other_order)
    each_once(stored(name, url=server.url))
    for through in (other_order, lambda frame: frame):
        query.uncommit()
        query.run(through)
        each_once(stored(name, url=server.url))


# A driver of its own. Its tasks stop half-way, for ever.
DRIVER = """
import json, sys, time
from pyspark.sql import SparkSession

options, folder = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for name in ("host", "bindAddress"):
    builder = builder.config(f"spark.driver.{name}", "127.0.0.1")
spark = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "200").getOrCreate()

def half(batches):
    for count, rows in enumerate(batches):
        if count == 15:
            time.sleep(600)
        yield rows

frame = spark.readStream.schema("data string").text(f"{folder}/in")
writer = frame.mapInArrow(half, frame.schema).writeStream.format("jetstream").options(**options)
writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
"""


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
@pytest.mark.timeout(300)
@pytest.mark.slow
def test_killed_driver(query: Query, streams: StreamsOf, server: NatsServer, stored: Read) -> None:
    """With all its workers, in the middle of a batch; another driver goes on from the checkpoint."""
    name = query.options["stream"]
    query.add("a", range(ROWS))
    log = query.folder / "driver.log"
    with log.open("wb") as out:
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, json.dumps([query.options, str(query.folder)])],
            stdout=out,
            stderr=out,
            cwd=query.folder,
            start_new_session=True,
        )
    try:
        # The start of a JVM depends on the machine, so it has a longer timeout than the waits after it.
        wait_until(lambda: (query.folder / "checkpoint").exists() or driver.poll() is not None, patience=150)
        assert driver.poll() is None, log.read_text(errors="replace")
        half_way(streams, name)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # the group is the one made above
        driver.wait()
    wait_until(lambda: not clients(port_of(server)))
    query.run(other_order)
    each_once(stored(name, url=server.url))


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
def test_another_number_of_partitions(query: Query, server: NatsServer, stored: Read) -> None:
    """With `msg_id` rows are stored once. Ids from content depend on the partition: rows may repeat, none is lost."""

    def with_ids(frame: DataFrame) -> DataFrame:
        return frame.selectExpr("data", "concat('row-', data) as msg_id")

    name = query.options["stream"]
    query.add("a", range(ROWS))
    query.run(with_ids)
    query.uncommit()
    query.run(lambda frame: with_ids(frame.repartition(3)))
    each_once(stored(name, url=server.url))
    query.add("b", range(ROWS, ROWS + 500))
    query.run()
    query.uncommit()
    query.run(lambda frame: frame.repartition(3))
    found = Counter(message.data for message in stored(name, url=server.url))
    assert found.keys() == {b"%0*d" % (SIZE, i) for i in range(ROWS + 500)}
    assert {found[b"%0*d" % (SIZE, i)] for i in range(ROWS)} == {1}


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
def test_killed_worker_and_server_during_a_micro_batch(
    query: Query, gate: Gate, server: NatsServer, streams: StreamsOf, stored: Read
) -> None:
    name = query.options["stream"]
    query.add("a", range(ROWS))
    started = query.start(gate.through)
    half_way(streams, name)
    (worker,) = clients(port_of(server))
    server.pause()
    os.kill(worker, signal.SIGKILL)
    gate.open()
    kill_server(server)
    started.processAllAvailable()
    started.stop()
    each_once(stored(name, url=server.url))


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
def test_complete_mode_is_refused(spark: SparkSession, query: Query) -> None:
    query.add("a", range(10))
    with pytest.raises(Exception, match="outputMode complete would have to delete the messages"):
        frame = spark.readStream.schema("data string").text(str(query.folder / "in")).groupBy("data").count()
        writer = frame.select("data").writeStream.format("jetstream").options(**query.options).outputMode("complete")
        writer.option("checkpointLocation", str(query.folder / "checkpoint")).start().processAllAvailable()
