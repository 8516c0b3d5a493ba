"""Copy one stream to another with a streaming query, each message once, even after a restart of the query.

    python examples/spark_stream_to_stream.py [nats://host:4222]

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


def forward(spark: SparkSession, servers: str, checkpoint: str) -> None:
    """Forward the clicks that led to a purchase, under new subjects."""
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
        # Stream and sequence identify a message independently of partitions, so each is stored exactly once within the
        # target stream's duplicate window.
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
    # Run the workers with this Python: Spark discovers the format in a Python that has jetarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName("clicks to sales").getOrCreate()
    with tempfile.TemporaryDirectory() as folder, jetarrow.sync.connect(servers) as nc:
        js = nc.jetstream()
        js.get_or_create_stream(name="CLICKS", subjects=["clicks.>"])
        js.get_or_create_stream(name="SALES", subjects=["sales.>"])
        # The second query has its own checkpoint and forwards all messages again. The stream rejects the duplicates.
        for checkpoint in ("first", "second"):
            clicks = [f"{checkpoint} {'buy' if i % 4 == 0 else 'look'} {i}" for i in range(1_000)]
            js.publish_batch([f"clicks.{i % 5}" for i in range(1_000)], clicks).raise_for_errors()
            forward(spark, servers, f"{folder}/{checkpoint}")
            print(f"{js.stream_info('SALES').state.messages} sales of {js.stream_info('CLICKS').state.messages} clicks")


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        main(sys.argv[1] if len(sys.argv) > 1 else stack.enter_context(NatsServer()).url)
