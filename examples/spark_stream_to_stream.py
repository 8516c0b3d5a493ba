"""One stream into another by a streaming query, each message once: also when the query dies and starts again.

    python examples/spark_stream_to_stream.py [nats://host:4222]

Without an address it starts a nats-server of its own, which ends with it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile

import jetarrow.sync
from jetarrow.server import NatsServer
from pyspark.sql import SparkSession


def forward(spark: SparkSession, servers: str, checkpoint: str) -> None:
    """Clicks that were bought something with, under new subjects."""
    clicks = (
        spark.readStream.format("jetstream")
        .option("servers", servers)
        .option("stream", "CLICKS")
        .option("startingOffsets", "earliest")
        .option("payload", "string")
        .load()
    )
    sales = clicks.where("data like '%buy%'").selectExpr(
        "replace(subject, 'clicks.', 'sales.') as subject",
        "upper(data) as data",
        # Where a message comes from says which one it is, whatever the partitions are: exactly once, as far as the
        # stream's duplicate window reaches.
        "concat(stream, ':', seq) as msg_id",
    )
    query = (
        sales.writeStream.format("jetstream")
        .option("servers", servers)
        .option("stream", "SALES")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main(servers: str) -> None:
    # The workers' Python is this one: the format is found where it is installed.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName("clicks to sales").getOrCreate()
    with tempfile.TemporaryDirectory() as folder, jetarrow.sync.connect(servers) as nc:
        js = nc.jetstream()
        js.get_or_create_stream(name="CLICKS", subjects=["clicks.>"])
        js.get_or_create_stream(name="SALES", subjects=["sales.>"])
        # The second query has a checkpoint of its own: it forwards all again, and the stream knows them all.
        for checkpoint in ("first", "second"):
            clicks = [f"{checkpoint} {'buy' if i % 4 == 0 else 'look'} {i}" for i in range(1_000)]
            js.publish_batch([f"clicks.{i % 5}" for i in range(1_000)], clicks).raise_for_errors()
            forward(spark, servers, f"{folder}/{checkpoint}")
            print(f"{js.stream_info('SALES').state.messages} sales of {js.stream_info('CLICKS').state.messages} clicks")


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        main(sys.argv[1] if len(sys.argv) > 1 else stack.enter_context(NatsServer()).url)
