"""payload=arrow: messages that are tables, as the rows that they hold."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import jetarrow.sync
import polars as pl
import pyarrow as pa
import pytest
from jetarrow.js.errors import DecodeError
from jetarrow.spark.schema import SCHEMA
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

if TYPE_CHECKING:
    from .tools import Here, Streams

    Load = Callable[..., DataFrame]

ITEM = StructType([StructField("id", LongType()), StructField("name", StringType())])
OPTIONS = {"payload": "arrow", "valueSchema": ITEM.json()}
NAMES = pa.schema({"id": pa.int64(), "name": pa.string()})


def publish(streams: Streams, name: str, ids: range, **options: Any) -> None:
    """Two rows a message, to one of the stream's subjects."""
    table = pa.table({"id": list(ids), "name": [f"n{i}" if i % 4 else None for i in ids]}, NAMES)
    with jetarrow.sync.connect(streams.url) as nc:
        given = {"rows_per_message": 2, **options}
        nc.jetstream().publish_table(table, f"{name}.a", format="arrow", **given).raise_for_errors()


def packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def expected(ids: range) -> list[dict[str, object]]:
    return [{"id": i, "name": f"n{i}" if i % 4 else None} for i in ids]


def test_the_rows_of_each_message(here: Here, streams: Streams) -> None:
    name = streams.new()
    publish(streams, name, range(7))
    table = here.read(name, **OPTIONS)
    assert table.column_names == ["stream", "seq", "subject", "timestamp", "headers", "value", "_corrupt_record"]
    assert table["value"].to_pylist() == expected(range(7))
    assert table["seq"].to_pylist() == [1, 1, 2, 2, 3, 3, 4]
    assert set(table["subject"].to_pylist()) == {f"{name}.a"}
    assert table["_corrupt_record"].null_count == 7
    assert dict(table["headers"].to_pylist()[6]) == {"Content-Type": ["application/vnd.apache.arrow.stream"]}
    parts = here.read(name, **OPTIONS, mode="FAILFAST", minPartitions=3, includeTimeNs="true")
    assert parts["value"].to_pylist() == expected(range(7))
    assert parts["time_ns"].null_count == 0
    some = StructType([StructField("value", StructType([ITEM["name"]])), SCHEMA["seq"]])
    chosen = here.read(name, some, payload="arrow")
    assert chosen["value"].to_pylist() == [{"name": row["name"]} for row in expected(range(7))]
    # Without `value` nothing is unpacked.
    assert here.read(name, StructType([SCHEMA["seq"]]), payload="arrow")["seq"].to_pylist() == [1, 2, 3, 4]
    assert here.read(streams.new(), **OPTIONS).num_rows == 0


def test_malformed_messages_by_mode(here: Here, streams: Streams) -> None:
    name = streams.new()
    good = packed(pa.table({"id": [1, 2], "name": ["a", None]}, NAMES))
    lacking, other = packed(pa.table({"id": [3]})), packed(pa.table({"id": ["x"], "name": ["y"]}))
    streams.publish(name, [b"{}", good, good[:-20], b"", lacking, other, good])
    rows = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    table = here.read(name, **OPTIONS, columnNameOfCorruptRecord="bad")
    assert table["seq"].to_pylist() == [1, 2, 2, 3, 4, 5, 6, 7, 7]
    assert table["value"].to_pylist() == [None, *rows, None, None, None, None, *rows]
    texts = table["bad"].to_pylist()
    assert texts[:4] == ["{}", None, None, base64.b64encode(good[:-20]).decode()]
    assert [text is None for text in texts] == [value is not None for value in table["value"].to_pylist()]
    dropped = here.read(name, **OPTIONS, mode="DROPMALFORMED")
    assert "_corrupt_record" not in dropped.column_names
    assert dropped["seq"].to_pylist() == [2, 2, 7, 7]
    assert dropped["value"].to_pylist() == rows + rows
    for start, seq, said in (
        (1, 1, "not an Arrow stream"),
        (5, 5, 'no column "name"'),
        (6, 6, "of type Utf8, not Int64"),
    ):
        at = {"startingOffsets": f'{{"{name}": {start}}}'}
        with pytest.raises(DecodeError, match=said) as error:
            here.read(name, **OPTIONS, mode="FAILFAST", **at)
        assert error.value.seq == seq


def test_what_does_not_match_cannot_fail(here: Here, streams: Streams) -> None:
    """A work queue is read by direct gets, which take one filter: here the rows are dropped by us."""
    name = streams.new(retention="workqueue", allow_direct=True)
    good = packed(pa.table({"id": [1, 2], "name": ["a", None]}, NAMES))
    streams.publish(name, [good, b"bad", good] * 2)
    given: dict[str, Any] = {**OPTIONS, "mode": "FAILFAST"}
    table = here.read(name, **given, subjects=f"{name}.0,{name}.2")
    assert table["seq"].to_pylist() == [1, 1, 3, 3, 4, 4, 6, 6]
    assert table["value"].null_count == 0
    with pytest.raises(DecodeError, match="not an Arrow stream") as error:
        here.read(name, **given, subjects=f"{name}.0,{name}.1")
    assert error.value.seq == 2


UTC = datetime.UTC
WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
NANOS = 1_767_323_045_678_901_999  # WHEN, and what Spark's timestamps do not hold
# A type of a message, a value, the type in Spark, and the value there.
KINDS: list[tuple[pa.DataType, Any, str, Any]] = [
    (pa.int8(), -128, "bigint", -128),
    (pa.uint8(), 255, "smallint", 255),
    (pa.uint32(), 2**32 - 1, "bigint", 2**32 - 1),
    (pa.uint64(), 2**64 - 1, "decimal(20,0)", Decimal(2**64 - 1)),
    (pa.float16(), 1.5, "float", 1.5),
    (pa.float32(), 0.25, "double", 0.25),
    (pa.decimal128(5, 2), Decimal("123.45"), "decimal(10,4)", Decimal("123.4500")),
    (pa.large_string(), "é", "string", "é"),
    (pa.string_view(), "a longer text than a view holds", "string", "a longer text than a view holds"),
    (pa.dictionary(pa.int8(), pa.large_string()), "d", "string", "d"),
    (pa.large_binary(), b"\xff", "binary", b"\xff"),
    (pa.binary(2), b"ab", "binary", b"ab"),
    (pa.timestamp("ns", "Europe/Berlin"), NANOS, "timestamp", WHEN),
    (
        pa.timestamp("s"),
        WHEN.replace(microsecond=0, tzinfo=None),
        "timestamp_ntz",
        datetime.datetime(2026, 1, 2, 3, 4, 5),
    ),
    (pa.date64(), datetime.date(2026, 1, 2), "date", datetime.date(2026, 1, 2)),
    (pa.large_list(pa.uint8()), [1, None], "array<int>", [1, None]),
    (pa.list_(pa.large_string(), 1), ["x"], "array<string>", ["x"]),
    (pa.struct({"t": pa.timestamp("ns", "UTC")}), {"t": NANOS}, "struct<t: timestamp>", {"t": WHEN}),
    (pa.map_(pa.int16(), pa.float32()), [(1, 2.0)], "map<bigint,double>", [(1, 2.0)]),
    (pa.bool_(), True, "boolean", True),
    (pa.duration("ms"), datetime.timedelta(seconds=3), "interval day to second", datetime.timedelta(seconds=3)),
]
# Types of a message that some of Spark's do not hold.
UNFIT = [
    (pa.int64(), "int"),
    (pa.uint64(), "bigint"),
    (pa.float64(), "float"),
    (pa.float64(), "bigint"),
    (pa.decimal128(10, 2), "decimal(9,2)"),
    (pa.string(), "binary"),
    (pa.timestamp("us"), "timestamp"),
    (pa.list_(pa.int64()), "array<int>"),
    (pa.struct({"a": pa.int8()}), "struct<b: bigint>"),
    (pa.map_(pa.string(), pa.string()), "map<string,bigint>"),
    (pa.date32(), "timestamp"),
]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_arrow_has_several_types_for_one_of_sparks(spark: SparkSession, here: Here, streams: Streams) -> None:
    """Those that hold less are read as Spark's, and a message of those that hold more or other values is malformed."""
    name = streams.new()
    table = pa.table({f"c{n}": pa.array([value, None], kind) for n, (kind, value, _, _) in enumerate(KINDS)})
    streams.publish(name, [packed(table)])
    ddl = ", ".join(f"c{n} {kind}" for n, (_, _, kind, _) in enumerate(KINDS))
    parsed = spark.createDataFrame([], f"value struct<{ddl}>").schema
    found = here.read(name, parsed, payload="arrow", mode="FAILFAST")["value"].to_pylist()
    assert found[0] == {f"c{n}": value for n, (_, _, _, value) in enumerate(KINDS)}
    assert set(found[1].values()) == {None}
    name = streams.new()
    table = pa.table({f"c{n}": pa.nulls(1, kind) for n, (kind, _) in enumerate(UNFIT)})
    streams.publish(name, [packed(table)])
    for n, (_, kind) in enumerate(UNFIT):
        one = spark.createDataFrame([], f"value struct<c{n}: {kind}>").schema
        with pytest.raises(DecodeError, match=f'column "c{n}" is of type .*, not'):
            here.read(name, one, payload="arrow", mode="FAILFAST")


def test_a_time_beyond_what_spark_holds(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [packed(pa.table({"t": pa.array([2**60], pa.timestamp("s", "UTC"))}))])
    schema = '{"type":"struct","fields":[{"name":"t","type":"timestamp","nullable":true,"metadata":{}}]}'
    with pytest.raises(DecodeError, match="messages 1 to 1 has a value that Spark cannot represent"):
        here.read(name, payload="arrow", valueSchema=schema)


def test_the_types_are_those_of_the_first_message_that_is_a_table(here: Here, streams: Streams) -> None:
    name = streams.new()
    frame = pl.DataFrame({"id": pl.Series([1, 2], dtype=pl.UInt8), "name": ["a", None]})
    with jetarrow.sync.connect(streams.url) as nc:
        js = nc.jetstream()
        js.publish(f"{name}.a", b"no table")
        js.publish_table(frame, f"{name}.b", format="arrow").raise_for_errors()
        js.publish(f"{name}.c", b"")
    table = here.read(name, **OPTIONS)
    assert table["value"].to_pylist() == [None, {"id": 1, "name": "a"}, {"id": 2, "name": None}, None]
    table = here.read(name, **OPTIONS, subjects=f"{name}.b,{name}.c", mode="DROPMALFORMED")
    assert table["value"].to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


def test_micro_batches(here: Here, streams: Streams) -> None:
    name = streams.new()
    publish(streams, name, range(10))
    reader = here.stream(name, **OPTIONS, startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    publish(streams, name, range(10, 14))
    later = reader.latestOffset(end, None)
    for again in (reader, here.stream(name, **OPTIONS, startingOffsets="earliest")):
        assert here.batch(again, start, end)["value"].to_pylist() == expected(range(10))
        assert here.batch(again, end, later)["value"].to_pylist() == expected(range(10, 14))


def test_the_last_message_of_each_subject(here: Here, streams: Streams) -> None:
    """All rows of it; its types are those of the last message, whatever the first ones were."""
    name = streams.new()
    with jetarrow.sync.connect(streams.url) as nc:
        js = nc.jetstream()
        js.publish(f"{name}.a", packed(pa.table({"id": ["another"]})))
        for rows in (3, 2):
            table = pa.table({"id": pa.array(range(rows), pa.int32()), "name": ["x"] * rows})
            js.publish(f"{name}.a", packed(table))
            js.publish(f"{name}.b", packed(table))
    found = here.read(name, **OPTIONS, readMode="latest", mode="FAILFAST")
    assert found["seq"].to_pylist() == [4, 4, 5, 5]
    assert found["value"].to_pylist() == [{"id": i, "name": "x"} for i in (0, 1)] * 2
    one = here.read(name, **OPTIONS, readMode="latest", subjects=f"{name}.b")
    assert one["seq"].to_pylist() == [5, 5]


def item(*fields: StructField) -> dict[str, str]:
    return {"payload": "arrow", "valueSchema": StructType(list(fields)).json()}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"payload": "arrow"}, "'valueSchema': is required with payload=arrow"),
        ({"payload": "string", "valueSchema": ITEM.json()}, "'valueSchema': needs payload=json or arrow"),
        ({**OPTIONS, "compression": "zstd"}, "'compression': does not go with payload=arrow"),
        (item(StructField("subject", LongType())), "is read: subject; leave one of them out"),
        (item(StructField("timestamp", LongType()), StructField("_error", LongType())), "_error, timestamp; leave"),
        (item(ITEM["id"], ITEM["id"]), "each with a name of its own"),
        (item(), "value has fields"),
        (item(StructField("id", LongType(), nullable=False)), "value.id is NOT NULL"),
        (item(StructField("l", StructType([StructField("n", LongType(), False)]))), "value.l.n is NOT NULL"),
    ],
)
def test_what_cannot_be_read_is_refused_before_it_is(here: Here, given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match="jetstream") as error:
        here.plan("S", **given)
    assert said in str(error.value)


def test_a_field_with_the_name_of_a_column_that_is_left_out(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [packed(pa.table({"subject": ["mine"], "timestamp": [1]}))])
    fields = [StructField("subject", StringType()), StructField("timestamp", LongType())]
    schema = StructType([SCHEMA["seq"], StructField("value", StructType(fields))])
    found = here.read(name, schema, payload="arrow", subjects=f"{name}.0")
    assert found.to_pylist() == [{"seq": 1, "value": {"subject": "mine", "timestamp": 1}}]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_through_spark(load: Load, streams: Streams) -> None:
    name = streams.new()
    publish(streams, name, range(100))
    given = {"payload": "arrow", "valueSchema": "id bigint, name string"}
    frame = load(name, **given, minPartitions=2).select("seq", "value.*")
    assert frame.agg({"id": "sum", "seq": "max", "name": "count"}).first().asDict() == {  # type: ignore[union-attr]
        "sum(id)": 4950,
        "max(seq)": 50,
        "count(name)": 75,
    }
    assert frame.where("id = 5").collect() == [(3, 5, "n5")]
