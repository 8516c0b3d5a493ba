"""Aggregate a stream of JSON orders with Spark.

    python examples/spark_batch.py [nats://host:4222]

Without an address it starts a temporary nats-server.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

import jetarrow.sync
from jetarrow.server import NatsServer
from pyspark.sql import SparkSession

COUNTRIES = ("de", "fr", "it", "at")


def publish_orders(servers: str, count: int) -> None:
    """Publish the orders of a shop, with one subject per country."""
    with jetarrow.sync.connect(servers) as nc:
        js = nc.jetstream()
        js.get_or_create_stream(name="SHOP", subjects=["shop.>"])
        subjects = [f"shop.{COUNTRIES[i % 4]}" for i in range(count)]
        orders = [json.dumps({"id": i, "country": COUNTRIES[i % 4], "euros": i % 90 + 0.5}) for i in range(count)]
        js.publish_batch(subjects, orders, msg_ids=[f"order-{i}" for i in range(count)]).raise_for_errors()


def main(servers: str) -> None:
    publish_orders(servers, 2_000)
    # Run the workers with this Python: Spark discovers the format in a Python that has jetarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName("orders by country").getOrCreate()
    orders = (
        spark.read.format("jetstream")
        .option("servers", servers)
        .option("stream", "SHOP")
        .option("minPartitions", 4)
        .option("payload", "json")
        .option("valueSchema", "id bigint, country string, euros double")
        .load()
        .select("seq", "timestamp", "value.*")
    )
    orders.groupBy("country").agg({"id": "count", "euros": "sum"}).orderBy("country").show()


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        main(sys.argv[1] if len(sys.argv) > 1 else stack.enter_context(NatsServer()).url)
