"""Protobuf with a schema registry; the other side is Confluent's serializer and deserializer."""

from __future__ import annotations

import datetime
from typing import Any

import jetarrow
import pyarrow as pa
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from jetarrow.js.client import JetStreamContext

from .server import RegistryServer

CONTEXT = SerializationContext("orders", MessageField.VALUE)
Type = descriptor_pb2.FieldDescriptorProto
MOMENT = datetime.datetime(2024, 3, 10, 1, 10, tzinfo=datetime.UTC)


def classes() -> dict[str, Any]:
    """Messages of two files, one of which imports the other and a file of Google."""
    geo = descriptor_pb2.FileDescriptorProto(name="geo/place.proto", package="geo", syntax="proto3")
    geo.message_type.add(name="Place").field.add(
        name="city", number=1, type=Type.TYPE_STRING, label=Type.LABEL_OPTIONAL
    )
    shop = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    shop.dependency.extend(["geo/place.proto", timestamp_pb2.DESCRIPTOR.name])
    order = shop.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=Type.TYPE_INT64, label=Type.LABEL_OPTIONAL)
    for number, (name, kind) in enumerate({"to": ".geo.Place", "at": ".google.protobuf.Timestamp"}.items(), 2):
        order.field.add(name=name, number=number, type=Type.TYPE_MESSAGE, type_name=kind, label=Type.LABEL_OPTIONAL)
    other = shop.message_type.add(name="Other")
    inner = other.nested_type.add(name="Inner")
    inner.field.add(name="text", number=1, type=Type.TYPE_STRING, label=Type.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file in (geo, shop):
        pool.AddSerializedFile(file.SerializeToString())
    names = ("geo.Place", "shop.Order", "shop.Other", "shop.Other.Inner")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names}


def order(number: int) -> Any:
    found = classes()["shop.Order"](id=number, to={"city": "Rome"})
    found.at.FromDatetime(MOMENT)
    return found


ROW = {"to": {"city": "Rome"}, "at": MOMENT}


def serialized(client: SchemaRegistryClient, *messages: Any) -> list[bytes]:
    return [bytes(ProtobufSerializer(type(message), client)(message, CONTEXT)) for message in messages]


def rows(table: Any, *names: str) -> list[dict[str, Any]]:
    return pa.table(table).select(list(names)).to_pylist()


async def test_what_confluent_writes_is_read(
    js: JetStreamContext, stream: str, registry: RegistryServer, confluent: SchemaRegistryClient
) -> None:
    await js.publish_batch(f"{stream}.a", serialized(confluent, order(1), order(2)))
    table = await js.read(stream, format="protobuf", registry=registry.url, flatten=True).read_all()
    assert rows(table, "id", "to", "at") == [{"id": 1, **ROW}, {"id": 2, **ROW}]
    known = jetarrow.ProtobufSchema.of(classes()["shop.Order"])
    table = await js.read(stream, format="protobuf", schema=known, registry=registry.url, flatten=True).read_all()
    assert rows(table, "id", "to", "at") == [{"id": 1, **ROW}, {"id": 2, **ROW}]


async def test_what_we_write_confluent_reads(
    js: JetStreamContext, stream: str, registry: RegistryServer, confluent: SchemaRegistryClient
) -> None:
    table = pa.table({"id": [1, 2], "to": [ROW["to"]] * 2, "at": pa.array([MOMENT] * 2, pa.timestamp("ns", "UTC"))})
    kind = classes()["shop.Order"]
    result = await js.publish_table(table, f"{stream}.a", format="protobuf", schema=kind, registry=registry.url)
    result.raise_for_errors()
    deserialize = ProtobufDeserializer(kind, schema_registry_client=confluent)
    messages = [deserialize((await js.get_msg(stream, seq)).data, CONTEXT) for seq in (1, 2)]
    assert [message.SerializeToString() for message in messages] == [order(n).SerializeToString() for n in (1, 2)]
    # The imported file is a subject of its own; Google's is not.
    assert list(registry.subjects) == ["geo/place.proto", "shop.Order"]


async def test_a_nested_message(
    js: JetStreamContext, stream: str, registry: RegistryServer, confluent: SchemaRegistryClient
) -> None:
    kind = classes()["shop.Other.Inner"]
    await js.publish_batch(f"{stream}.a", serialized(confluent, kind(text="x")))
    table = pa.table({"text": ["y"]})
    result = await js.publish_table(table, f"{stream}.a", format="protobuf", schema=kind, registry=registry.url)
    result.raise_for_errors()
    read = await js.read(stream, format="protobuf", registry=registry.url, flatten=True).read_all()
    assert rows(read, "text") == [{"text": "x"}, {"text": "y"}]
    framed = (await js.get_msg(stream, 2)).data
    assert ProtobufDeserializer(kind, schema_registry_client=confluent)(framed, CONTEXT) == kind(text="y")


async def test_another_message_of_the_file_is_malformed(
    js: JetStreamContext, stream: str, registry: RegistryServer, confluent: SchemaRegistryClient
) -> None:
    await js.publish_batch(f"{stream}.a", serialized(confluent, order(1), classes()["shop.Other"]()))
    await js.publish_batch(f"{stream}.a", [b"\0\0\0\0\x02\x02\x08", b"\0\0\0\0\x02\xff"])
    table = pa.table(await js.read(stream, format="protobuf", registry=registry.url).read_all())
    assert table["value"].to_pylist() == [{"id": 1, **ROW}, None, None, None]
    assert table["_error"].to_pylist()[1:] == [
        "a shop.Other, not a shop.Order",
        "schema 2 has no message at [4]",
        "the indexes of the message are malformed",
    ]
