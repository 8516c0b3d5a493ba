"""Write a stream to Parquet files with a streaming query that resumes at its checkpoint.

    python examples/spark_stream_to_parquet.py [nats://host:4222]

Without an address it starts a temporary nats-server.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile

import jetarrow.sync
from jetarrow.server import NatsServer
from pyspark.sql import SparkSession


def publish_readings(servers: str, first: int, count: int) -> None:
    with jetarrow.sync.connect(servers) as nc:
        js = nc.jetstream()
        js.get_or_create_stream(name="SENSORS", subjects=["sensors.>"])
        subjects = [f"sensors.{i % 10}" for i in range(first, first + count)]
        js.publish_batch(subjects, [str(i) for i in range(first, first + count)]).raise_for_errors()


def archive(spark: SparkSession, servers: str, folder: str) -> None:
    """Archive the present messages in micro-batches of at most 500. Without the trigger the query would not end."""
    readings = (
        spark.readStream.format("jetstream")
        .option("servers", servers)
        .option("stream", "SENSORS")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 500)
        .load()
    )
    query = (
        readings.selectExpr("seq", "subject", "timestamp", "cast(data as string) as reading")
        .writeStream.format("parquet")
        .option("path", f"{folder}/readings")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main(servers: str) -> None:
    # Run the workers with this Python: Spark discovers the format in a Python that has jetarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName("sensors to parquet").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        for first in (0, 1_200):
            publish_readings(servers, first, 1_200)
            archive(spark, servers, folder)
            files = spark.read.parquet(f"{folder}/readings")
            print(f"{files.count()} readings in Parquet, {files.select('seq').distinct().count()} distinct")


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        main(sys.argv[1] if len(sys.argv) > 1 else stack.enter_context(NatsServer()).url)
