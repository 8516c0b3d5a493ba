"""Descriptors and classes of the package protobuf."""

from __future__ import annotations

import itertools
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2, wrappers_pb2

Type = descriptor_pb2.FieldDescriptorProto
IMPORTS = (timestamp_pb2, duration_pb2, wrappers_pb2)
numbers = itertools.count()


def generated(file: descriptor_pb2.FileDescriptorProto, name: str) -> Any:
    """The class of a message."""
    pool = descriptor_pool.DescriptorPool()
    for module in IMPORTS:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def new_file(syntax: str) -> descriptor_pb2.FileDescriptorProto:
    number = next(numbers)
    file = descriptor_pb2.FileDescriptorProto(name=f"f{number}.proto", package=f"p{number}", syntax=syntax)
    file.dependency.extend(module.DESCRIPTOR.name for module in IMPORTS)
    kind = file.enum_type.add(name="E")
    for place, value in enumerate((0, 1, -5, 70_000)):
        kind.value.add(name=f"V{place}", number=value)
    return file


def order_file() -> Any:
    file = new_file("proto3")
    file.package, file.name = "shop", "shop.proto"
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=Type.TYPE_INT64, label=Type.LABEL_OPTIONAL)
    order.field.add(name="region", number=2, type=Type.TYPE_STRING, label=Type.LABEL_OPTIONAL)
    order.field.add(name="kind", number=3, type=Type.TYPE_ENUM, type_name=".shop.E", label=Type.LABEL_OPTIONAL)
    stamp = ".google.protobuf.Timestamp"
    order.field.add(name="at", number=4, type=Type.TYPE_MESSAGE, type_name=stamp, label=Type.LABEL_OPTIONAL)
    return file
