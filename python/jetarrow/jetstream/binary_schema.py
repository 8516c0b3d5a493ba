"""The `schema=` option of Avro and Protobuf payloads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, cast

from jetarrow import _jetarrow
from jetarrow.jetstream.literals import PayloadFormat

NativeSchema: TypeAlias = "str | tuple[bytes, str]"
"""The JSON text of an Avro schema, or a descriptor set and the name of a message."""


class ProtobufSchema:
    """A message type of Protobuf, as the `schema=` of `format="protobuf"`.

    Args:
        descriptor_set: A serialized `FileDescriptorSet` with the file of the message and those it imports, or the path
            of one: `protoc --include_imports --descriptor_set_out=shop.pb shop.proto`.
        message: The full name of the message, such as "shop.Order".

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no descriptor set, it has no such message, or a field has a type without columns.
    """

    def __init__(self, descriptor_set: bytes | str | PathLike[str], message: str) -> None:
        given = descriptor_set
        self._set = given if isinstance(given, bytes) else Path(given).read_bytes()
        self._message = message
        # Reports an invalid schema at once.
        self.__arrow_c_schema__()

    @classmethod
    def of(cls, message: Any) -> ProtobufSchema:
        """Returns the schema of a generated message class.

        Args:
            message: The class, of the package `protobuf`.

        Raises:
            TypeError: It is not a generated message class.
            ValueError: A field has a type without columns.
        """
        descriptor = getattr(message, "DESCRIPTOR", None)
        if descriptor is None or not hasattr(descriptor, "full_name"):
            raise TypeError(f"not a generated message class of protobuf: {message!r}")
        files: dict[str, bytes] = {}

        def add(file: Any) -> None:
            if file.name not in files:
                files[file.name] = file.serialized_pb
                for other in file.dependencies:
                    add(other)

        add(descriptor.file)
        # A FileDescriptorSet: each file is field 1, with its length.
        return cls(b"".join(b"\x0a" + _varint(len(file)) + file for file in files.values()), descriptor.full_name)

    @property
    def message(self) -> str:
        """The full name of the message."""
        return self._message

    def __arrow_c_schema__(self) -> object:
        return _jetarrow.columns_of_schema(self._native())

    def _native(self) -> NativeSchema:
        return (self._set, self._message)

    def __repr__(self) -> str:
        return f"ProtobufSchema(message={self._message!r})"


class BinaryColumns:
    """The columns of payloads, as an object with an Arrow schema.

    Args:
        schema: As `binary_schema` returns it, or with a registry.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def __arrow_c_schema__(self) -> object:
        return _jetarrow.columns_of_schema(self._schema)


def binary_schema(format: PayloadFormat, schema: object) -> NativeSchema:
    """Returns the schema as the native core takes it.

    Args:
        format: "avro" or "protobuf".
        schema: For Avro the JSON text, the same as a dict, or the path of a file that has it; for Protobuf a
            `ProtobufSchema` or a generated message class.

    Raises:
        TypeError: It is none of these.
        OSError: The file cannot be read.
    """
    if isinstance(schema, tuple):
        # It is in the native form already.
        return cast("tuple[bytes, str]", schema)
    if format == "protobuf":
        if isinstance(schema, ProtobufSchema):
            return schema._native()
        if hasattr(schema, "DESCRIPTOR"):
            return ProtobufSchema.of(schema)._native()
        raise TypeError(
            'format="protobuf" needs schema=: a jetarrow.ProtobufSchema or a generated message class, '
            f"not {type(schema).__name__}"
        )
    if isinstance(schema, str):
        return schema
    if isinstance(schema, Mapping):
        return json.dumps(schema)
    if isinstance(schema, PathLike):
        return Path(schema).read_text("utf-8")
    raise TypeError(
        'format="avro" needs schema=: an Avro schema as JSON text, as a dict, or as the path of a file, '
        f"not {type(schema).__name__}"
    )


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
