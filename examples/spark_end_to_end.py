"""Totals of orders per shop and five minutes, exactly once in a stream and in a Delta table; malformed orders apart.

    python examples/spark_end_to_end.py [nats://host:4222 [FOLDER]]

    ORDERS ──► totals of closed windows ──► TOTALS ──► Delta table FOLDER/totals
       └─────► malformed orders ──► DEAD_LETTERS

Each result is stored once, even if this program is killed at any moment and started again with the same FOLDER.
Without an address it starts a temporary nats-server. The Delta table needs deltalake: pip install "jetarrow[delta]".
It needs Spark 4.2: before, availableNow is one batch, in which no window closes.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from datetime import UTC, datetime, timedelta

import jetarrow.sync
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from jetarrow.server import NatsServer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

ORDER = "shop string, time timestamp, cents bigint"
TOTAL = "shop string, start timestamp, orders bigint, cents bigint"
STREAMS = {"ORDERS": "orders.>", "TOTALS": "totals.>", "DEAD_LETTERS": "dead.>"}


def publish_orders(js: jetarrow.sync.JetStream) -> None:
    """Publish 1,500 orders of two hours, at most four minutes out of order; every 50th is malformed."""
    begin = datetime(2026, 1, 1, 12, tzinfo=UTC)
    orders = []
    for i in range(1_500):
        time = begin + timedelta(seconds=5 * i - i * 37 % 240)
        order = json.dumps({"shop": f"shop{i % 3}", "time": time.isoformat(), "cents": i % 97})
        orders.append(order[:-9] if i % 50 == 49 else order)
    # The watermark passes the windows of all other orders.
    orders.append(json.dumps({"shop": "shop0", "time": (begin + timedelta(hours=3)).isoformat(), "cents": 1}))
    js.publish_batch([f"orders.{i % 10}" for i in range(len(orders))], orders).raise_for_errors()


def read(spark: SparkSession, servers: str, stream: str, *, schema: str, batch: int) -> DataFrame:
    """Messages of a stream: their JSON is in `value`, or in `_corrupt_record` if it is malformed."""
    return (
        spark.readStream.format("jetstream")
        .option("servers", servers)
        .option("stream", stream)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", batch)
        .option("payload", "json")
        .option("valueSchema", schema)
        .load()
    )


def write(rows: DataFrame, servers: str, stream: str, *, folder: str) -> StreamingQuery:
    """Store each row once, however late a batch is replayed: the bucket SINK_STATE records what a query has stored."""
    return (
        rows.writeStream.format("jetstream")
        .option("servers", servers)
        .option("stream", stream)
        .option("exactlyOnce", "state")
        .option("sinkState", "SINK_STATE")
        .option("checkpointLocation", f"{folder}/checkpoints/{stream}")
        # Ends at the last message. Without this trigger the query continues with new messages.
        .trigger(availableNow=True)
        .start()
    )


def totals_of(orders: DataFrame) -> DataFrame:
    """One message for each shop and window, when the watermark has passed the window's end."""
    totals = (
        orders.where("_corrupt_record is null")
        .select("value.*")
        .withWatermark("time", "10 minutes")
        .groupBy("shop", f.window("time", "5 minutes"))
        .agg(f.count("*").alias("orders"), f.sum("cents").alias("cents"))
    )
    total = "to_json(struct(shop, window.start as start, orders, cents)) as data"
    return totals.selectExpr("concat('totals.', shop) as subject", total)


def dead_letters_of(orders: DataFrame) -> DataFrame:
    """The malformed orders as they were, with their place in the stream."""
    headers = "map('Origin', concat(stream, ':', seq)) as headers"
    return orders.where("_corrupt_record is not null").selectExpr(
        "concat('dead.', subject) as subject", "_corrupt_record as data", headers
    )


def archive(totals: DataFrame, folder: str) -> StreamingQuery:
    """Append to the Delta table: a batch and its number are one transaction, so a replayed batch is recognised."""
    table, application = f"{folder}/totals", "totals"

    def append(batch: DataFrame, number: int) -> None:
        if DeltaTable.is_deltatable(table):
            last = DeltaTable(table).transaction_version(application)
            if last is not None and number <= last:
                return
        properties = CommitProperties(app_transactions=[Transaction(application, number)])
        write_deltalake(table, batch.toArrow(), mode="append", commit_properties=properties)

    query = totals.select("value.*").writeStream.foreachBatch(append)
    return query.option("checkpointLocation", f"{folder}/checkpoints/delta").trigger(availableNow=True).start()


def main(servers: str, folder: str) -> None:
    # Run the workers with this Python: Spark discovers the format in a Python that has jetarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName("orders").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    with jetarrow.sync.connect(servers) as nc:
        js = nc.jetstream()
        for name, subjects in STREAMS.items():
            js.get_or_create_stream(name=name, subjects=[subjects])
        if js.stream_info("ORDERS").state.messages == 0:
            publish_orders(js)
        orders = read(spark, servers, "ORDERS", schema=ORDER, batch=800)
        queries = [
            write(totals_of(orders), servers, "TOTALS", folder=folder),
            write(dead_letters_of(orders), servers, "DEAD_LETTERS", folder=folder),
        ]
        for query in queries:
            query.awaitTermination()
        totals = read(spark, servers, "TOTALS", schema=TOTAL, batch=40)
        archive(totals, folder).awaitTermination()
        found = {name: js.stream_info(name).state.messages for name in STREAMS}
    rows = DeltaTable(f"{folder}/totals").count()
    print(f"{found['TOTALS']} totals, {found['DEAD_LETTERS']} dead letters, {rows} rows in the Delta table")


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        main(
            sys.argv[1] if len(sys.argv) > 1 else stack.enter_context(NatsServer()).url,
            sys.argv[2] if len(sys.argv) > 2 else stack.enter_context(tempfile.TemporaryDirectory()),
        )
