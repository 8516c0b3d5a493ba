"""payload=avro and payload=protobuf, with and without a schema registry."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from jetarrow.jetstream.errors import DecodeError, SchemaRegistryError
from jetarrow.spark.options.read import read_options
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DecimalType, IntegerType, LongType, StructField, StructType

from ..avro_tools import datum, logical
from ..protobuf_tools import Type
from ..registry.server import RegistryServer, running

if TYPE_CHECKING:
    from .tools import Here, Streams

    Load = Callable[..., DataFrame]

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

UTC = datetime.UTC
MOMENT = datetime.datetime(2024, 3, 10, 1, 10, 0, 123456, tzinfo=UTC)
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "region", "type": ["null", "string"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "at", "type": logical("long", "timestamp-millis")},
        {"name": "local", "type": logical("long", "local-timestamp-micros")},
        {"name": "price", "type": logical("bytes", "decimal", precision=10, scale=2)},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "kind", "type": "Kind"},
                        {"name": "n", "type": {"type": "map", "values": "int"}},
                    ],
                },
            },
        },
    ],
}
TYPES = (
    "struct<id:bigint,region:string,kind:string,hash:binary,at:timestamp,local:timestamp_ntz,price:decimal(10,2),"
    "lines:array<struct<kind:string,n:map<string,int>>>>"
)
OPTIONS = {"payload": "avro", "payloadSchema": json.dumps(SCHEMA)}


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "region": None if number % 2 else "eu",
        "kind": "OLD",
        "hash": b"ab",
        "at": MOMENT.replace(microsecond=123000),
        "local": MOMENT.replace(tzinfo=None),
        "price": Decimal("12.50"),
        "lines": [{"kind": "NEW", "n": {"a": number}}],
    }


def in_spark(number: int) -> dict[str, Any]:
    found = row(number)
    return {**found, "lines": [{"kind": "NEW", "n": [("a", number)]}]}


def protobuf_options() -> dict[str, str]:
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate({"id": Type.TYPE_UINT64, "small": Type.TYPE_UINT32}.items(), 1):
        order.field.add(name=name, number=number, type=kind, label=Type.LABEL_OPTIONAL)
    descriptors = FileDescriptorSet(file=[file]).SerializeToString()
    return {
        "payload": "protobuf",
        "payloadSchema": base64.b64encode(descriptors).decode(),
        "payloadMessage": "shop.Order",
    }


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with running(RegistryServer()) as server:
        yield server


def publish(streams: Streams, name: str, table: pa.Table, **options: Any) -> None:
    with jetarrow.sync.connect(streams.url) as nc:
        nc.jetstream().publish_table(table, f"{name}.a", **options).raise_for_errors()


def test_avro_types(here: Here, streams: Streams, load: Load) -> None:
    name = streams.new()
    streams.publish(name, [datum(SCHEMA, row(number)) for number in range(5)])
    table = here.read(name, **OPTIONS)
    assert table["value"].to_pylist() == [in_spark(number) for number in range(5)]
    assert table["_corrupt_record"].null_count == 5
    frame = load(name, **OPTIONS)
    assert frame.schema["value"].dataType.simpleString() == TYPES
    assert [found.value.price for found in frame.collect()] == [Decimal("12.50")] * 5
    assert frame.where("value.kind = 'OLD' and value.lines[0].n['a'] > 2").count() == 2


def test_chosen_fields_and_subjects(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [datum(SCHEMA, row(number)) for number in range(6)])
    fields = [StructField("price", DecimalType(10, 2)), StructField("id", LongType())]
    chosen = StructType([StructField("seq", LongType()), StructField("value", StructType(fields))])
    table = here.read(name, chosen, **OPTIONS)
    assert table["value"].to_pylist() == [{"price": Decimal("12.50"), "id": number} for number in range(6)]
    parts = here.read(name, **OPTIONS, subjects=f"{name}.0,{name}.1", minPartitions=3)
    assert sorted(value["id"] for value in parts["value"].to_pylist()) == [0, 1, 3, 4]
    assert here.read(name, **OPTIONS, readMode="latest")["value"].to_pylist() == [in_spark(n) for n in (3, 4, 5)]


@pytest.mark.parametrize("field", [StructField("id", IntegerType()), StructField("no", LongType())], ids=["id", "no"])
def test_a_field_that_the_payloads_do_not_have(here: Here, streams: Streams, field: StructField) -> None:
    chosen = StructType([StructField("value", StructType([field]))])
    with pytest.raises(ValueError, match=r"and the payloads have id bigint, region string"):
        here.read(streams.new(), chosen, **OPTIONS)


def test_malformed_by_mode(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [datum(SCHEMA, row(1)), b"\xff", datum(SCHEMA, row(2))[:-3]])
    table = here.read(name, **OPTIONS)
    assert [value is None for value in table["value"].to_pylist()] == [False, True, True]
    assert table["_corrupt_record"].to_pylist()[1] == "/w=="
    assert here.read(name, **OPTIONS, mode="DROPMALFORMED")["seq"].to_pylist() == [1]
    with pytest.raises(DecodeError, match="message 2"):
        here.read(name, **OPTIONS, mode="FAILFAST")


def test_types_that_spark_lacks(here: Here, streams: Streams) -> None:
    for kind, text in (
        (logical("int", "time-millis"), "field x is a time"),
        (logical("bytes", "decimal", precision=40, scale=2), "a decimal of 40 digits"),
    ):
        schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}
        with pytest.raises(ValueError, match=f"of the payloads|{text}"):
            here.read(streams.new(), payload="avro", payloadSchema=json.dumps(schema))


def test_protobuf(here: Here, streams: Streams, load: Load) -> None:
    name, options = streams.new(), protobuf_options()
    schema = jetarrow.ProtobufSchema(base64.b64decode(options["payloadSchema"]), "shop.Order")
    numbers = pa.table({"id": pa.array([2**64 - 1, 0], pa.uint64()), "small": pa.array([2**32 - 1, 1], pa.uint32())})
    publish(streams, name, numbers, format="protobuf", schema=schema)
    rows = [{"id": Decimal(2**64 - 1), "small": 2**32 - 1}, {"id": Decimal(0), "small": 1}]
    assert here.read(name, **options)["value"].to_pylist() == rows
    frame = load(name, **options)
    assert frame.schema["value"].dataType.simpleString() == "struct<id:decimal(20,0),small:bigint>"
    assert [found.value.asDict() for found in frame.orderBy("seq").collect()] == rows


def test_registry(here: Here, streams: Streams, load: Load, registry: RegistryServer) -> None:
    name = streams.new()
    table = pa.table({"id": [1, 2], "note": ["a", "b"]})
    old = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    new = {**old, "fields": [*old["fields"], {"name": "note", "type": "string", "default": ""}]}
    place = jetarrow.SchemaRegistry(registry.url, subject="orders-value")
    publish(streams, name, table.select(["id"]), format="avro", schema=old, registry=place)
    publish(streams, name, table, format="avro", schema=new, registry=place)
    options = {"payload": "avro", "registry": registry.url, "registrySubject": "orders-value"}
    rows = [{"id": 1, "note": ""}, {"id": 2, "note": ""}, {"id": 1, "note": "a"}, {"id": 2, "note": "b"}]
    assert here.read(name, **options)["value"].to_pylist() == rows
    assert [found.value.asDict() for found in load(name, **options).orderBy("seq").collect()] == rows
    # With a given schema the registry has those of the payloads only.
    given = {"payload": "avro", "registry": registry.url, "payloadSchema": json.dumps(old)}
    assert here.read(name, **given)["value"].to_pylist() == [{"id": found["id"]} for found in rows]


def test_registry_with_secrets_by_reference(
    spark: SparkSession, streams: Streams, nats_url: str, registry: RegistryServer, password: str
) -> None:
    name = streams.new()
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    publish(streams, name, pa.table({"id": [1, 2]}), format="avro", schema=schema, registry=registry.url)
    registry.authorization = f"Bearer {password}"
    options = {"servers": nats_url, "stream": name, "payload": "avro", "registry": registry.url}
    options |= {"registrySubject": "R", "registryToken": "env:JETARROW_TEST_PASSWORD", "startingOffsets": "earliest"}
    frame = spark.readStream.format("jetstream").options(**options).load()
    query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    assert [found.value.id for found in spark.table(name).orderBy("seq").collect()] == [1, 2]
    registry.authorization = "Bearer other"
    with pytest.raises(Exception, match="status 401"):
        spark.read.format("jetstream").options(**options).load().collect()


@pytest.mark.slow
def test_a_registry_that_is_away(here: Here, streams: Streams, closed_port: int) -> None:
    options = {"payload": "avro", "registry": f"http://127.0.0.1:{closed_port}", "registrySubject": "R"}
    with pytest.raises((SchemaRegistryError, ValueError), match="schema registry"):
        here.read(streams.new(), **options)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"payload": "avro"}, "'payloadSchema': is required"),
        ({"payload": "avro", "registry": "http://r"}, "'payloadSchema': is required"),
        ({"payload": "json", "payloadSchema": "{}"}, "needs payload=avro or protobuf"),
        ({"payload": "avro", "payloadSchema": "{}", "payloadMessage": "a.B"}, "'payloadMessage'"),
        ({"payload": "protobuf", "payloadSchema": "AAAA"}, "'payloadMessage'"),
        ({"payload": "protobuf", "payloadSchema": "?", "payloadMessage": "a.B"}, "is not base64"),
        ({"payload": "avro", "payloadSchema": "{}", "registrySubject": "s"}, "registrySubject"),
        ({"payload": "avro", "payloadSchema": "{}", "valueSchema": "a int"}, "valueSchema"),
        ({"payload": "avro", "payloadSchema": "{}", "registry": "http://u:secret@r"}, "contains credentials"),
        ({"payload": "avro", "payloadSchema": "{}", "registry": "http://r", "registryUser": "u"}, "go together"),
        ({"payload": "avro", "payloadSchema": "{}", "registryToken": "t"}, "needs 'registry'"),
    ],
)
def test_invalid_options(given: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text.replace("(", r"\(")) as caught:
        read_options({"servers": "nats://127.0.0.1", "stream": "S", **given})
    assert "secret" not in str(caught.value).replace("secrets", "")
