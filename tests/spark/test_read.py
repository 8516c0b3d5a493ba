"""`spark.read.format("jetstream")` against a real server: the rows of a read."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import jetarrow.sync
import pytest
from jetarrow.server import NatsServer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from .tools import Streams, wait_until

if TYPE_CHECKING:
    Load = Callable[..., DataFrame]

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def rows(frame: DataFrame) -> list[tuple[int, str, bytes]]:
    return sorted((r.seq, r.subject, bytes(r.data)) for r in frame.select("seq", "subject", "data").collect())


def seqs(frame: DataFrame) -> list[int]:
    return sorted(row.seq for row in frame.select("seq").collect())


def payloads(count: int) -> list[bytes]:
    return [b"%d" % i for i in range(count)]


def test_format_is_found_and_has_the_schema(load: Load, streams: Streams) -> None:
    name = streams.new()
    before = datetime.now(UTC)
    streams.publish(name, [b"one", b"\x00\xff"])
    after = datetime.now(UTC)
    frame = load(name)
    assert frame.schema == StructType(
        [
            StructField("stream", StringType(), nullable=False),
            StructField("seq", LongType(), nullable=False),
            StructField("subject", StringType(), nullable=False),
            StructField("timestamp", TimestampType(), nullable=False),
            StructField("headers", MapType(StringType(), ArrayType(StringType())), nullable=True),
            StructField("data", BinaryType(), nullable=False),
        ]
    )
    table = frame.orderBy("seq").toArrow()
    times = table.column("timestamp").to_pylist()
    assert table.drop_columns("timestamp").to_pylist() == [
        {"stream": name, "seq": 1, "subject": f"{name}.0", "headers": None, "data": b"one"},
        {"stream": name, "seq": 2, "subject": f"{name}.1", "headers": None, "data": b"\x00\xff"},
    ]
    # The server's clock is ours; the column is cut to microseconds.
    assert before - timedelta(microseconds=1) <= times[0] <= times[1] <= after


def test_random_ranges_and_partition_counts(load: Load, streams: Streams) -> None:
    chance = random.Random(11)
    name, count = streams.new(), 600
    streams.publish(name, payloads(count))
    gone = set(chance.sample(range(2, count), 150))
    streams.delete_messages(name, sorted(gone))
    expected = [(i + 1, f"{name}.{i % 3}", b"%d" % i) for i in range(count) if i + 1 not in gone]
    # Runs of deleted messages at both ends of a partition are the difficult case of a reader.
    for _ in range(10):
        start, end = sorted(chance.sample(range(1, count + 2), 2))
        parts = chance.choice([1, 2, 3, 7, 16])
        frame = load(
            name,
            startingOffsets=json.dumps({name: start}),
            endingOffsets=json.dumps({name: end}),
            minPartitions=parts,
        )
        assert rows(frame) == [row for row in expected if start <= row[0] < end], (start, end, parts)
        assert frame.rdd.getNumPartitions() == min(parts, end - start)


def test_ranges_that_hold_nothing_but_deleted_messages(load: Load, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, payloads(40))
    streams.delete_messages(name, [*range(11, 31), 40])
    assert seqs(load(name, minPartitions=40)) == [*range(1, 11), *range(31, 40)]
    only_deleted = load(name, startingOffsets=f'{{"{name}": 11}}', endingOffsets=f'{{"{name}": 31}}')
    assert only_deleted.count() == 0


def test_empty_stream_and_empty_range(load: Load, streams: Streams) -> None:
    name = streams.new()
    empty = load(name, minPartitions=3)
    assert (empty.count(), empty.collect()) == (0, [])
    streams.publish(name, payloads(5))
    assert load(name, startingOffsets=f'{{"{name}": 4}}', endingOffsets=f'{{"{name}": 4}}').collect() == []
    assert load(name, startingOffsets=f'{{"{name}": 6}}').collect() == []
    streams.purge(name, before=6)
    assert load(name).collect() == []


def test_offsets_of_several_streams(load: Load, streams: Streams) -> None:
    a, b, c = streams.new(), streams.new(), streams.new()
    for name in (a, b, c):
        streams.publish(name, payloads(10))
    frame = load(
        f"{a}, {b},{c}",
        startingOffsets=json.dumps({a: -2, b: 4}),
        endingOffsets=json.dumps({a: 3, b: -1, c: 99}),
    )
    found = sorted((r.stream, r.seq) for r in frame.select("stream", "seq").collect())
    wanted = {a: range(1, 3), b: range(4, 11), c: range(1, 11)}
    assert found == sorted((name, seq) for name, part in wanted.items() for seq in part)


@pytest.mark.needs_spark("4.1", "one range per DataFrame")
def test_plan_is_frozen_with_its_frame(load: Load, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, payloads(20))
    frame = load(name, minPartitions=3)
    assert frame.count() == 20
    streams.publish(name, payloads(30))
    assert frame.count() == 20
    assert seqs(frame) == list(range(1, 21))
    assert load(name).count() == 50


def test_max_offsets_per_partition(load: Load, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, payloads(25))
    frame = load(name, maxOffsetsPerPartition=10)
    assert frame.rdd.getNumPartitions() == 3
    assert seqs(frame) == list(range(1, 26))


def test_headers(load: Load, streams: Streams) -> None:
    name = streams.new()
    with jetarrow.sync.connect(streams.url) as client:
        js = client.jetstream()
        js.publish(f"{name}.a", b"1")
        js.publish(f"{name}.a", b"2", headers={"k": "v"})
        js.publish(f"{name}.a", b"3", headers={"many": ["x", "y", "x"], "empty": "", "text": "ü"})
    found = {row.seq: row.headers for row in load(name, minPartitions=2).select("seq", "headers").collect()}
    assert found == {
        1: None,
        2: {"k": ["v"]},
        3: {"many": ["x", "y", "x"], "empty": [""], "text": ["ü"]},
    }


def test_user_schema_selects_columns(load: Load, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, payloads(3))
    frame = load(name, schema="data binary, seq bigint, headers map<string,array<string>>")
    assert frame.columns == ["data", "seq", "headers"]
    found = sorted((row.seq, bytes(row.data), row.headers) for row in frame.collect())
    assert found == [(1, b"0", None), (2, b"1", None), (3, b"2", None)]


def test_json_and_optional_columns(load: Load, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b'{"id": 1, "tags": ["a", null]}', b"[]", b'{"id": 3}'])
    options = {"payload": "json", "includeTimeNs": True, "includeReply": True, "includeHeaders": False}
    frame = load(name, **options, valueSchema="id bigint, tags array<string>")
    assert frame.columns == ["stream", "seq", "subject", "timestamp", "value", "_corrupt_record", "time_ns", "reply"]
    assert frame.where("time_ns div 1000 = unix_micros(timestamp)").count() == 3
    found = [tuple(row) for row in frame.select("value.*", "_corrupt_record").orderBy("seq").collect()]
    assert found == [(1, ["a", None], None), (None, None, "[]"), (3, None, None)]
    typed = load(
        name, schema="value struct<id: int>, seq bigint", payload="json", mode="DROPMALFORMED", subjects=f"{name}.*"
    )
    assert [(row.value.id, row.seq) for row in typed.orderBy("seq").collect()] == [(1, 1), (3, 3)]
    text = load(name, payload="string", subjects=f"{name}.1")
    assert [row.data for row in text.collect()] == ["[]"]


def test_aggregation_in_spark(load: Load, streams: Streams, spark: SparkSession) -> None:
    name = streams.new()
    streams.publish(name, payloads(3000))
    load(name, minPartitions=4).createOrReplaceTempView(name)
    query = f"select subject, count(*), sum(cast(cast(data as string) as int)) from {name} group by subject"
    found = {row[0]: (row[1], row[2]) for row in spark.sql(query).collect()}
    assert found == {f"{name}.{i}": (1000, sum(range(i, 3000, 3))) for i in range(3)}


def test_a_join_of_a_stream_with_itself(load: Load, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, payloads(50))
    frame = load(name, minPartitions=2)
    assert frame.alias("a").join(frame.alias("b"), "seq").count() == 50


def test_workers_keep_their_connection(spark: SparkSession) -> None:
    with NatsServer(config="debug: true") as server:
        streams = Streams(server.url)
        name = streams.new()
        streams.publish(name, payloads(40))
        frame = spark.read.format("jetstream").options(servers=server.url, stream=name, minPartitions="4")
        assert frame.load().count() == 40

        def connections() -> int:
            """The number of connections that the server has ever accepted."""
            return server.log.count("Client connection created")

        before = connections()
        for _ in range(4):
            assert frame.load().count() == 40
        # One for each plan; the sixteen tasks need none, unless Spark makes another worker.
        assert 4 <= connections() - before <= 4 + 2


def test_limit_deletes_the_consumers(load: Load, streams: Streams) -> None:
    name = streams.new()
    # Far more than js.read prefetches and the sockets to the JVM buffer, so that the task is cut off.
    for _ in range(4):
        streams.publish(name, [bytes(256 * 1024)] * 100)
    assert len(load(name, schema="seq bigint, data binary").limit(3).collect()) == 3
    # An abandoned consumer stays for its inactive threshold, 30 s.
    wait_until(lambda: not streams.consumers(name), patience=10)
