"""A streaming write on a standalone Spark: a worker is killed with its executor, then the driver, in mid-batch."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import jetarrow.sync
import pytest

from .standalone import PATIENCE, Process, kill, spark_environment, standalone, submit
from .tools import Streams, wait_until

COUNT, BATCH = 12_000, 4_000
DRIVER = f"""
import sys
from pyspark.sql import SparkSession

servers, source, target, bucket, checkpoint = sys.argv[1:]
spark = SparkSession.builder.appName("copy").getOrCreate()
rows = (
    spark.readStream.format("jetstream").option("servers", servers).option("stream", source)
    .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", {BATCH}).option("minPartitions", 2).load()
)
query = (
    rows.selectExpr(f"concat('{{target}}.', seq % 7) as subject", "data")
    .writeStream.format("jetstream").option("servers", servers).option("stream", target)
    .option("exactlyOnce", "state").option("sinkState", bucket)
    # One row at a time in each task: a batch lasts long enough to be killed in its middle.
    .option("maxInFlight", 1)
    .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
)
query.awaitTermination()
print("copied", flush=True)
"""


class Copy:
    """The query, as often as it is started, and the stream that it writes to."""

    def __init__(self, js: jetarrow.sync.JetStream, master: str, streams: Streams, folder: Path) -> None:
        self.js, self.master, self.url, self.folder = js, master, streams.url, folder
        self.source, self.target = streams.new(), streams.new()
        self.program = folder / "copy_rows.py"
        self.program.write_text(DRIVER)
        self.starts = 0

    def start(self) -> Process:
        self.starts += 1
        bucket, checkpoint = f"STATE_{self.target}", (self.folder / "checkpoint").as_uri()
        arguments = [self.program, self.url, self.source, self.target, bucket, checkpoint]
        environment = spark_environment(self.folder, sys.executable)
        return submit(*arguments, master=self.master, log=self.log(), environment=environment, cwd=self.folder)

    def log(self) -> Path:
        return self.folder / f"driver{self.starts}.log"

    def stored(self) -> int:
        return self.js.stream_info(self.target).state.messages

    def reach(self, batch: int, driver: Process) -> None:
        """Waits until rows of the batch of this number are stored, and asserts that the batch is not complete."""
        first = batch * BATCH

        def begun() -> bool:
            assert driver.poll() is None, self.log().read_text(errors="replace")[-4000:]
            return self.stored() > first + BATCH // 10

        wait_until(begun, patience=PATIENCE)
        assert self.stored() < first + BATCH * 3 // 4, "the batch ended too early to be killed in its middle"


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
@pytest.mark.xdist_group("spark_processes")
@pytest.mark.timeout(900)
@pytest.mark.slow
def test_streaming_write_stores_each_row_once_after_kills_of_worker_and_driver(
    streams: Streams, tmp_path: Path
) -> None:
    with (
        jetarrow.sync.connect(streams.url) as nc,
        standalone(tmp_path, python=sys.executable) as (master, workers),
        contextlib.ExitStack() as stack,
    ):
        js = nc.jetstream()
        copy = Copy(js, master, streams, tmp_path)
        expected = [b"row %d" % number for number in range(COUNT)]
        js.publish_batch(f"{copy.source}.a", expected).raise_for_errors()
        driver = copy.start()
        stack.callback(kill, driver)
        copy.reach(0, driver)
        kill(workers[0])
        copy.reach(1, driver)
        kill(driver)
        driver = copy.start()
        stack.callback(kill, driver)
        assert driver.wait(PATIENCE) == 0, copy.log().read_text(errors="replace")[-4000:]
        assert "copied" in copy.log().read_text(errors="replace")
        found = js.read(copy.target).read_all()["data"].to_pylist()
    assert len(found) == COUNT
    assert sorted(found) == sorted(expected)
