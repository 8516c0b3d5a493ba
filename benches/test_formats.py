"""Decoding of 300,000 rows of seven fields from JSON, Avro and Protobuf into the same columns."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
import wire
from harness import Group, Run
from test_read import seven_fields

NATIVE = "jetarrow._jetarrow"
JSON = "jetarrow read, JSON"
FORMATS = Group("read of 7 fields in other formats", "core", peer=JSON, size=0)
AVRO = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "device", "type": "string"},
        {"name": "ok", "type": "boolean"},
        {"name": "temperature", "type": "double"},
        {"name": "count", "type": "int"},
        {"name": "site", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


def protobuf() -> Any:
    """The schema without a generated class: the types of the fields as google.protobuf numbers them."""
    import jetarrow
    from google.protobuf import descriptor_pb2, timestamp_pb2

    made = descriptor_pb2.FileDescriptorProto(name="reading.proto", package="bench", syntax="proto3")
    made.dependency.append("google/protobuf/timestamp.proto")
    message = made.message_type.add(name="Reading")
    kind = descriptor_pb2.FieldDescriptorProto
    types = [kind.TYPE_INT64, kind.TYPE_STRING, kind.TYPE_BOOL, kind.TYPE_DOUBLE, kind.TYPE_INT32, kind.TYPE_STRING]
    names = seven_fields().names
    for number, (name, number_of_type) in enumerate(zip(names, types, strict=False), 1):
        message.field.add(name=name, number=number, type=number_of_type, label=kind.LABEL_OPTIONAL)
    stamp = ".google.protobuf.Timestamp"
    message.field.add(name=names[-1], number=7, type=kind.TYPE_MESSAGE, type_name=stamp, label=kind.LABEL_OPTIONAL)
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(made)
    return jetarrow.ProtobufSchema(descriptor_set=files.SerializeToString(), message="bench.Reading")


def readings(count: int) -> Any:
    """The rows that test_read publishes as JSON."""
    import pyarrow

    numbers = range(count)
    columns = [
        [1_000_000 + number for number in numbers],
        [f"sensor-{number % 1000:04d}" for number in numbers],
        [number % 7 != 0 for number in numbers],
        [round(20 + number % 1000 / 100, 2) for number in numbers],
        [number % 997 for number in numbers],
        ["north"] * count,
        [1_763_726_400_000_000 + number * 1_000_000 for number in numbers],
    ]
    fields = seven_fields()
    return pyarrow.table(
        [pyarrow.array(values, field.type) for values, field in zip(columns, fields, strict=True)], schema=fields
    )


async def read(run: Run, **form: Any) -> int:
    import jetarrow

    name = f"F{uuid.uuid4().hex[:8]}"
    writing = {} if form.get("format") is None else form
    async with await jetarrow.connect(run.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name=name, subjects=[f"{name}.>"])
        try:
            (await js.publish_table(readings(run.count), f"{name}.a", **writing)).raise_for_errors()
            with run.clock():
                table = await js.read(name, **form).read_all()
        finally:
            await js.delete_stream(name)
    value = table["value"].combine_chunks()
    if any(value.field(field).null_count for field in seven_fields().names):
        raise wire.WireError("a row was not decoded")
    return int(table.num_rows)


@FORMATS.row(JSON, needs=NATIVE)
async def read_json(run: Run) -> int:
    return await read(run, schema=seven_fields())


@FORMATS.row("jetarrow read, Avro", needs=NATIVE)
async def read_avro(run: Run) -> int:
    return await read(run, format="avro", schema=AVRO)


@FORMATS.row("jetarrow read, Protobuf", needs=NATIVE)
async def read_protobuf(run: Run) -> int:
    return await read(run, format="protobuf", schema=protobuf())


@pytest.mark.parametrize("name", FORMATS.rows)
def test_formats(name: str, record: Callable[[Group, str], None]) -> None:
    record(FORMATS, name)
