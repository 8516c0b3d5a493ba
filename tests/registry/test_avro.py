"""Avro with a schema registry; the other side is Confluent's serializer and deserializer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import DecodeError, SchemaRegistryError

from .server import RegistryServer

CONTEXT = SerializationContext("orders", MessageField.VALUE)
OLD = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "int"}]}
NEW: dict[str, Any] = {
    **OLD,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "region", "type": ["null", "string"], "default": None},
    ],
}


def serialized(client: SchemaRegistryClient, schema: Any, *rows: dict[str, Any]) -> list[bytes]:
    """The payloads of Confluent's serializer."""
    serialize = AvroSerializer(client, json.dumps(schema))
    return [bytes(serialize(row, CONTEXT)) for row in rows]


async def test_what_confluent_writes_is_read(
    js: JetStreamContext, stream: str, registry: RegistryServer, confluent: SchemaRegistryClient
) -> None:
    payloads = serialized(confluent, NEW, {"id": 1, "region": "eu"}, {"id": 2, "region": None})
    await js.publish_batch(f"{stream}.a", payloads)
    table = await js.read(stream, format="avro", registry=registry.url, flatten=True, columns=["value"]).read_all()
    assert pa.table(table).select(["id", "region"]).to_pylist() == [
        {"id": 1, "region": "eu"},
        {"id": 2, "region": None},
    ]


async def test_what_we_write_confluent_reads(
    js: JetStreamContext, stream: str, registry: RegistryServer, confluent: SchemaRegistryClient
) -> None:
    table = pa.table({"id": [1, 2, 3], "region": ["eu", None, "us"]})
    result = await js.publish_table(table, f"{stream}.a", format="avro", schema=NEW, registry=registry.url)
    result.raise_for_errors()
    deserialize = AvroDeserializer(confluent)
    rows = [deserialize((await js.get_msg(stream, seq)).data, CONTEXT) for seq in (1, 2, 3)]
    assert rows == table.to_pylist()
    assert confluent.get_latest_version("shop.Order").schema_id == 1
    again = await js.publish_table(table, f"{stream}.a", format="avro", schema=NEW, registry=registry.url)
    again.raise_for_errors()
    assert registry.requests["POST /subjects/shop.Order/versions"] == 1


async def test_each_writer_schema_is_fetched_once_and_resolved(
    js: JetStreamContext, stream: str, registry: RegistryServer, confluent: SchemaRegistryClient
) -> None:
    old, new = serialized(confluent, OLD, {"id": 1})[0], serialized(confluent, NEW, {"id": 2, "region": "eu"})[0]
    registry.requests.clear()
    await js.publish_batch(f"{stream}.a", [old, new] * 500)
    reads = [js.read(stream, format="avro", schema=NEW, registry=registry.url, batch_rows=100) for _ in range(3)]
    tables = await asyncio.gather(*(read.read_all() for read in reads))
    rows = [{"id": 1, "region": None}, {"id": 2, "region": "eu"}] * 500
    assert all(pa.table(table)["value"].to_pylist() == rows for table in tables)
    assert registry.requests == {"GET /schemas/ids/1": 1, "GET /schemas/ids/2": 1}


async def test_without_a_schema_the_first_message_decides(
    js: JetStreamContext, stream: str, registry: RegistryServer, confluent: SchemaRegistryClient
) -> None:
    await js.publish(f"{stream}.a", b"no frame")
    old, new = serialized(confluent, OLD, {"id": 1})[0], serialized(confluent, NEW, {"id": 2, "region": "eu"})[0]
    await js.publish_batch(f"{stream}.a", [old, new])
    async with js.read(stream, format="avro", registry=registry.url) as reader:
        table = pa.table(await reader.read_all())
    assert table["value"].type == pa.struct([pa.field("id", pa.int32(), nullable=False)])
    # A long of the second schema is not an int of the first.
    assert table["value"].to_pylist() == [None, {"id": 1}, None]
    assert table["_error"].to_pylist()[0] == "no schema id: it does not begin with a byte 0 and an id"
    assert "schema 2" in table["_error"].to_pylist()[2]


async def test_latest_and_batches(
    js: JetStreamContext, stream: str, registry: RegistryServer, confluent: SchemaRegistryClient
) -> None:
    rows = [{"id": number, "region": "eu"} for number in range(10)]
    await js.publish_batch(f"{stream}.a", serialized(confluent, NEW, *rows))
    latest = await js.latest(stream, format="avro", registry=registry.url, flatten=True).read_all()
    assert pa.table(latest).select(["id", "region"]).to_pylist() == rows[-1:]
    sub = await js.pull_subscribe(f"{stream}.>", "work")
    batch = (await sub.fetch_batch(10)).decode(format="avro", registry=registry.url)
    assert pa.table(batch)["value"].to_pylist() == rows


def test_blocking_face(
    sync_js: jetarrow.sync.JetStream, stream: str, registry: RegistryServer, confluent: SchemaRegistryClient
) -> None:
    table = pa.table({"id": [1, 2], "region": ["eu", None]})
    place = jetarrow.SchemaRegistry(registry.url, subject="orders-value")
    sync_js.publish_table(table, f"{stream}.a", format="avro", schema=NEW, registry=place).raise_for_errors()
    # Without a schema the latest of the subject.
    sync_js.publish_table(table, f"{stream}.a", format="avro", registry=place).raise_for_errors()
    read = sync_js.read(stream, format="avro", registry=place, flatten=True).read_all()
    assert pa.table(read).select(["id", "region"]).to_pylist() == table.to_pylist() * 2
    sub = sync_js.pull_subscribe(f"{stream}.>", "work")
    batch = sub.fetch_batch(4).decode(NEW, format="avro", registry=place)
    assert pa.table(batch)["value"].to_pylist() == table.to_pylist() * 2
    assert list(registry.subjects) == ["orders-value"]


async def test_references(
    js: JetStreamContext, stream: str, registry: RegistryServer, confluent: SchemaRegistryClient
) -> None:
    zone = {"type": "enum", "name": "Zone", "namespace": "geo", "symbols": ["A", "B"]}
    place = {"type": "record", "name": "geo.Place", "fields": [{"name": "zone", "type": "Zone"}]}
    order = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "to", "type": "geo.Place"}, {"name": "zone", "type": ["null", "geo.Zone"]}],
    }
    confluent.register_schema("zones", Schema(json.dumps(zone), "AVRO"))
    of_zone = SchemaReference("geo.Zone", "zones", 1)
    confluent.register_schema("places", Schema(json.dumps(place), "AVRO", [of_zone]))
    of_place = SchemaReference("geo.Place", "places", 1)
    schema = Schema(json.dumps(order), "AVRO", [of_place, of_zone])
    row = {"to": {"zone": "B"}, "zone": "A"}
    await js.publish(f"{stream}.a", AvroSerializer(confluent, schema)(row, CONTEXT))
    table = await js.read(stream, format="avro", registry=registry.url, flatten=True).read_all()
    assert pa.table(table).select(["to", "zone"]).to_pylist() == [row]


async def test_an_unknown_id_is_a_malformed_row(
    js: JetStreamContext, stream: str, registry: RegistryServer, confluent: SchemaRegistryClient
) -> None:
    good = serialized(confluent, NEW, {"id": 1, "region": None})[0]
    await js.publish_batch(f"{stream}.a", [b"\0\0\0\0\x4dxyz", good, b"\0\0\0", b""])
    table = pa.table(await js.read(stream, format="avro", schema=NEW, registry=registry.url).read_all())
    assert table["value"].to_pylist() == [None, {"id": 1, "region": None}, None, None]
    assert table["_error"].to_pylist()[0] == "schema 77: the registry does not have it"
    with pytest.raises(DecodeError, match="schema 77"):
        await js.read(stream, format="avro", schema=NEW, registry=registry.url, mode="FAILFAST").read_all()


async def test_a_schema_of_another_format_is_malformed(
    js: JetStreamContext, stream: str, registry: RegistryServer
) -> None:
    registry.register("other", {"schema": "{}", "schemaType": "JSON"})
    await js.publish(f"{stream}.a", b"\0\0\0\0\x01{}")
    table = pa.table(await js.read(stream, format="avro", schema=NEW, registry=registry.url).read_all())
    assert table["_error"].to_pylist() == ["schema 1: it is of the format JSON, not AVRO"]
    with pytest.raises(SchemaRegistryError, match="give schema="):
        await js.read(stream, format="avro", registry=registry.url).read_all()


async def test_registry_needs_a_binary_format(js: JetStreamContext, stream: str, registry: RegistryServer) -> None:
    with pytest.raises(ValueError, match="registry= is for format"):
        js.read(stream, registry=registry.url)
    with pytest.raises(ValueError, match="registry= is for format"):
        await js.publish_table(pa.table({"a": [1]}), f"{stream}.a", registry=registry.url)
    with pytest.raises(ValueError, match="subject="):
        await js.publish_table(pa.table({"a": [1]}), f"{stream}.a", format="avro", registry=registry.url)
