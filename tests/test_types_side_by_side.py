"""The table of types in docs/formats.md: Arrow, JSON, Avro, Protobuf and Spark. JETARROW_WRITE_DOCS=1 writes it."""

from __future__ import annotations

import datetime
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from jetarrow import ProtobufSchema
from jetarrow._jetarrow import TableMessages
from jetarrow.jetstream.binary_schema import BinaryColumns
from jetarrow.spark.payload_types import plain_type
from pyspark.sql.pandas.types import from_arrow_schema

from .avro_tools import logical
from .protobuf_tools import Type, generated, new_file

PAGE = Path(__file__).parents[1] / "docs" / "formats.md"
BEGIN, END = "<!-- written by tests/test_types_side_by_side.py -->\n", "<!-- end of the types -->\n"
HEAD = "| Arrow | JSON | Avro | Protobuf | Spark |\n|---|---|---|---|---|\n"
NONE = "-"
# The text before the value in the JSON of a row.
BEFORE = '{"a":'

MOMENT = datetime.datetime(2024, 3, 10, 1, 10, 0, 500000)
ZONED = MOMENT.replace(tzinfo=datetime.UTC)
# A value of each type.
SAMPLES: list[tuple[pa.DataType, Any]] = [
    (pa.null(), None),
    (pa.bool_(), True),
    (pa.int8(), -1),
    (pa.int16(), -1),
    (pa.int32(), -1),
    (pa.int64(), -1),
    (pa.uint8(), 1),
    (pa.uint16(), 1),
    (pa.uint32(), 1),
    (pa.uint64(), 2**64 - 1),
    (pa.float16(), 1.5),
    (pa.float32(), 1.5),
    (pa.float64(), 1.5),
    (pa.decimal128(10, 2), Decimal("12.50")),
    (pa.decimal256(40, 2), Decimal("12.50")),
    (pa.string(), "a"),
    (pa.binary(), b"ab"),
    (pa.binary(2), b"ab"),
    (pa.dictionary(pa.int32(), pa.string()), "A"),
    (pa.date32(), MOMENT.date()),
    (pa.time32("ms"), MOMENT.time()),
    (pa.time64("us"), MOMENT.time()),
    (pa.timestamp("ms", "UTC"), ZONED),
    (pa.timestamp("us", "UTC"), ZONED),
    (pa.timestamp("ns", "UTC"), ZONED),
    (pa.timestamp("us"), MOMENT),
    (pa.duration("ns"), datetime.timedelta(seconds=1)),
    (pa.month_day_nano_interval(), (1, 2, 3)),
    (pa.list_(pa.int32()), [1]),
    (pa.struct([pa.field("x", pa.int32())]), {"x": 1}),
    (pa.map_(pa.string(), pa.int32()), [("k", 1)]),
]
AVRO: dict[str, Any] = {
    **{name: name for name in ("null", "boolean", "int", "long", "float", "double", "bytes", "string")},
    "fixed": {"type": "fixed", "name": "F", "size": 2},
    "enum": {"type": "enum", "name": "E", "symbols": ["A"]},
    "decimal(10, 2)": logical("bytes", "decimal", precision=10, scale=2),
    "decimal(40, 2)": logical("bytes", "decimal", precision=40, scale=2),
    "date": logical("int", "date"),
    "time-millis": logical("int", "time-millis"),
    **{name: logical("long", name) for name in ("time-micros", "timestamp-millis", "timestamp-micros")},
    **{name: logical("long", name) for name in ("timestamp-nanos", "local-timestamp-micros")},
    "duration": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
    "array": {"type": "array", "items": ["null", "int"]},
    "record": {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", "int"]}]},
    "map": {"type": "map", "values": ["null", "int"]},
}
PROTOBUF: dict[str, dict[str, Any]] = {
    **{name: {"type": Type.Type.Value(f"TYPE_{name.upper()}")} for name in ("double", "float", "int32", "int64")},
    **{name: {"type": Type.Type.Value(f"TYPE_{name.upper()}")} for name in ("uint32", "uint64", "bool", "string")},
    "bytes": {"type": Type.TYPE_BYTES},
    "enum": {"type": Type.TYPE_ENUM, "type_name": ".{package}.E"},
    "Timestamp": {"type": Type.TYPE_MESSAGE, "type_name": ".google.protobuf.Timestamp"},
    "Duration": {"type": Type.TYPE_MESSAGE, "type_name": ".google.protobuf.Duration"},
    "repeated": {"type": Type.TYPE_INT32, "label": Type.LABEL_REPEATED},
}


def kind_of(found: pa.DataType) -> str:
    """A type without its flags of nullability, and without names of items."""
    text = str(found).replace(" not null", "").replace("element: ", "").replace("item: ", "")
    return text.replace("values=string, indices=int32, ordered=0", "string")


def json_of(kind: pa.DataType, value: Any) -> str:
    table = pa.table({"a": pa.array([value], kind)})
    try:
        rows = TableMessages(table, columns=None, subject="s", msg_id=None, nulls=True)
    except TypeError:
        return NONE
    text = pa.RecordBatchReader.from_stream(rows).read_all().column(0)[0].as_py().decode()
    return f"`{text[len(BEFORE) : -1]}`"


def avro_of() -> dict[str, str]:
    found: dict[str, str] = {}
    for name, kind in AVRO.items():
        schema = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": kind}]}
        (field,) = pa.schema(BinaryColumns(json.dumps(schema)))
        found.setdefault(kind_of(field.type), f"`{name}`")
    return found


def protobuf_of() -> dict[str, str]:
    found: dict[str, str] = {}
    for name, options in PROTOBUF.items():
        file = new_file("proto3")
        given = {
            key: value.format(package=file.package) if key == "type_name" else value for key, value in options.items()
        }
        file.message_type.add(name="M").field.add(
            name="a", number=1, **{"label": FieldDescriptorProto.LABEL_OPTIONAL, **given}
        )
        (field,) = pa.schema(ProtobufSchema.of(generated(file, f"{file.package}.M")))
        found.setdefault(kind_of(field.type), f"`{name}`")
    found["struct<x: int32>"], found["map<string, int32>"] = "message", "map"
    return found


def spark_of(kind: pa.DataType) -> str:
    try:
        plain = plain_type(kind, "a")
    except ValueError:
        return NONE
    schema = from_arrow_schema(pa.schema([pa.field("a", plain)]), prefer_timestamp_ntz=True)
    return f"`{schema['a'].dataType.simpleString()}`"


def test_the_table_is_that_of_the_code() -> None:
    avro, protobuf = avro_of(), protobuf_of()
    lines = []
    for kind, value in SAMPLES:
        name = kind_of(kind)
        cells = [f"`{name}`", json_of(kind, value), avro.get(name, NONE), protobuf.get(name, NONE), spark_of(kind)]
        lines.append("| " + " | ".join(cells) + " |\n")
    names = {kind_of(kind) for kind, _ in SAMPLES}
    assert set(avro) | set(protobuf) <= names
    table = BEGIN + HEAD + "".join(lines) + END
    page = PAGE.read_text("utf-8")
    if os.environ.get("JETARROW_WRITE_DOCS"):
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(before + table + rest.partition(END)[2], "utf-8")
        return
    assert table in page
