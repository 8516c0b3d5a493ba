"""Publish Parquet files to a stream, each row once, even if the job is repeated.

    python examples/spark_parquet_to_stream.py [nats://host:4222]

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


def publish(spark: SparkSession, servers: str, folder: str) -> None:
    rows = spark.read.parquet(folder).selectExpr(
        "concat('invoices.', country) as subject",
        "to_json(struct(*)) as data",
        "map('Content-Type', 'application/json') as headers",
        # The stream stores one message per id within its duplicate window.
        "concat('invoice-', number) as msg_id",
    )
    (
        rows.write.format("jetstream")
        .option("servers", servers)
        .option("stream", "INVOICES")
        .option("recoveryWindow", "10m")
        .mode("append")
        .save()
    )


def main(servers: str) -> None:
    # Run the workers with this Python: Spark discovers the format in a Python that has jetarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName("invoices to jetstream").getOrCreate()
    with tempfile.TemporaryDirectory() as folder, jetarrow.sync.connect(servers) as nc:
        invoices = spark.range(2_000).selectExpr(
            "id as number", "element_at(array('de', 'fr'), int(id % 2 + 1)) as country", "id / 100 as euros"
        )
        invoices.write.parquet(f"{folder}/invoices")
        js = nc.jetstream()
        js.get_or_create_stream(name="INVOICES", subjects=["invoices.>"], duplicate_window=600)
        for run in ("first", "second"):
            publish(spark, servers, f"{folder}/invoices")
            print(f"after the {run} run the stream has {js.stream_info('INVOICES').state.messages} messages")


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        main(sys.argv[1] if len(sys.argv) > 1 else stack.enter_context(NatsServer()).url)
