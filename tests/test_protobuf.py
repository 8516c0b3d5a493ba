"""Protobuf payloads: `format="protobuf"` of reads, archives and `publish_table`, compared with the package protobuf."""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path
from typing import Any

import jetarrow
import jetarrow.polars
import jetarrow.sync
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from hypothesis import given, note
from hypothesis import strategies as st
from jetarrow import ProtobufSchema
from jetarrow.js.client import JetStreamContext

from .protobuf_tools import IMPORTS, Type, generated, new_file, numbers, order_file
from .strategies import TEXTS, bounded, whole

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "double": st.floats(),
    "float": st.floats(width=32),
    **{name: whole(32) for name in ("int32", "sint32", "sfixed32")},
    **{name: whole(64) for name in ("int64", "sint64", "sfixed64")},
    **{name: whole(32, signed=False) for name in ("uint32", "fixed32")},
    **{name: whole(64, signed=False) for name in ("uint64", "fixed64")},
    "bool": st.booleans(),
    "string": TEXTS,
    "bytes": st.binary(max_size=5),
}
KEYS = ["int32", "sint64", "uint32", "fixed64", "bool", "string"]
WELL_KNOWN = ["Timestamp", "Duration", "Int64Value", "StringValue", "BoolValue", "DoubleValue"]


@st.composite
def messages(draw: st.DrawFn, file: Any, within: Any, depth: int = 0) -> Any:
    """Adds a message with fields of any types; returns its full name."""
    name = f"M{next(numbers)}"
    made = within.message_type.add(name=name) if depth == 0 else within.nested_type.add(name=name)
    full = f".{file.package}.{name}" if depth == 0 else f"{within.full}.{name}"
    proto2 = file.syntax == "proto2"
    oneof = None
    for place in range(draw(st.integers(1, 5))):
        field = made.field.add(name=f"f{place}", number=draw(st.sampled_from([place + 1, 100 + place, 70_000 + place])))
        form = draw(st.sampled_from(["plain", "plain", "optional", "repeated", "unpacked", "oneof", "map"]))
        field.label = Type.LABEL_REPEATED if form in ("repeated", "unpacked", "map") else Type.LABEL_OPTIONAL
        if form == "map":
            entry = made.nested_type.add(name=f"F{place}Entry")
            entry.options.map_entry = True
            key = entry.field.add(name="key", number=1, label=Type.LABEL_OPTIONAL)
            key.type = getattr(Type, f"TYPE_{draw(st.sampled_from(KEYS)).upper()}")
            value = entry.field.add(name="value", number=2, label=Type.LABEL_OPTIONAL)
            draw(typed(value, file, made, full, depth))
            field.type, field.type_name = Type.TYPE_MESSAGE, f"{full}.F{place}Entry"
            continue
        draw(typed(field, file, made, full, depth))
        if form == "oneof":
            if oneof is None:
                oneof = len(made.oneof_decl)
                made.oneof_decl.add(name="choice")
            field.oneof_index = oneof
        elif form == "unpacked" and field.type not in (Type.TYPE_STRING, Type.TYPE_BYTES, Type.TYPE_MESSAGE):
            field.options.packed = proto2
        elif form == "optional" and proto2 and draw(st.booleans()):
            field.label = Type.LABEL_REQUIRED
    if not proto2:
        # Each optional field has a oneof of its own, after the others.
        for place, field in enumerate(made.field):
            if field.label == Type.LABEL_OPTIONAL and not field.HasField("oneof_index") and draw(st.booleans()):
                field.proto3_optional, field.oneof_index = True, len(made.oneof_decl)
                made.oneof_decl.add(name=f"_f{place}")
    return full[1:]


class _Nested:
    """A message with its full name, as the place of nested ones."""

    def __init__(self, made: Any, full: str) -> None:
        self.nested_type, self.full = made.nested_type, full


@st.composite
def typed(draw: st.DrawFn, field: Any, file: Any, made: Any, full: str, depth: int) -> None:
    """Gives a field a type."""
    choices = [*SCALARS, "enum", *WELL_KNOWN] + (["message"] * 4 if depth < 2 else [])
    kind = draw(st.sampled_from(choices))
    if kind in SCALARS:
        field.type = getattr(Type, f"TYPE_{kind.upper()}")
    elif kind == "enum":
        field.type, field.type_name = Type.TYPE_ENUM, f".{file.package}.E"
    elif kind in WELL_KNOWN:
        field.type, field.type_name = Type.TYPE_MESSAGE, f".google.protobuf.{kind}"
    else:
        inner = draw(messages(file, _Nested(made, full), depth + 1))
        field.type, field.type_name = Type.TYPE_MESSAGE, f".{inner}"


SCALAR_OF = {getattr(Type, f"TYPE_{name.upper()}"): values for name, values in SCALARS.items()}


def fill(data: st.DataObject, message: Any) -> Any:
    """Sets fields of a message at random; required ones always."""
    for field in message.DESCRIPTOR.fields:
        if not field.is_required and data.draw(st.integers(0, 3)) == 0:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            for _ in range(data.draw(st.integers(0, 3))):
                place = data.draw(SCALAR_OF[key.type])
                if value.message_type is not None:
                    set_message(data, getattr(message, field.name)[place], value.message_type)
                else:
                    getattr(message, field.name)[place] = scalar(data, value)
        elif field.is_repeated:
            for _ in range(data.draw(st.integers(0, 3))):
                if field.message_type is not None:
                    set_message(data, getattr(message, field.name).add(), field.message_type)
                else:
                    getattr(message, field.name).append(scalar(data, field))
        elif field.message_type is not None:
            inner = getattr(message, field.name)
            inner.SetInParent()
            set_message(data, inner, field.message_type)
        else:
            setattr(message, field.name, scalar(data, field))
    return message


def set_message(data: st.DataObject, message: Any, kind: Any) -> None:
    if kind.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        message.FromNanoseconds(data.draw(st.integers(-(10**18), 10**18)))
    else:
        fill(data, message)


def scalar(data: st.DataObject, field: Any) -> Any:
    return data.draw(st.sampled_from([0, 1, -5, 70_000]) if field.enum_type is not None else SCALAR_OF[field.type])


def plain(message: Any) -> Any:
    """A message of the package protobuf in the form of a row."""
    full = message.DESCRIPTOR.full_name
    if full in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        # Raises ValueError for an invalid one: a merge of two durations can have parts of different signs.
        message.ToJsonString()
        return message.ToNanoseconds()
    if full.startswith("google.protobuf."):
        return comparable(message.value)
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)

        def of(value: Any, field: Any = field) -> Any:
            if field.enum_type is not None:
                return field.enum_type.values_by_number[value].name
            return plain(value) if field.message_type is not None else comparable(value)

        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            row[field.name] = {comparable(key): of(value[key], inner) for key in value}
        elif field.is_repeated:
            row[field.name] = [of(item) for item in value]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = of(value)
    return row


def comparable(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack("d", value) if math.isfinite(value) else str(value)
    return value


def of_arrow(value: Any, kind: pa.DataType) -> Any:
    """A value of Arrow in the same form."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: of_arrow(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return {comparable(key): of_arrow(inner, kind.item_type) for key, inner in value}
    if pa.types.is_list(kind):
        return [of_arrow(item, kind.value_type) for item in value]
    return value.value if pa.types.is_temporal(kind) else comparable(value)


@st.composite
def classes(draw: st.DrawFn) -> Any:
    file = new_file(draw(st.sampled_from(["proto2", "proto3"])))
    name = draw(messages(file, file))
    note(str(file))
    return generated(file, name)


def test_random_messages_are_read_and_written(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    @bounded(250)
    @given(st.data(), classes())
    def both_ways(data: st.DataObject, kind: Any) -> None:
        filled = [fill(data, kind()) for _ in range(data.draw(st.integers(1, 4)))]
        payloads = [message.SerializeToString() for message in filled]
        wanted = [plain(kind.FromString(payload)) for payload in payloads]
        # Two messages one behind the other are one, merged.
        merged = payloads[0] + payloads[-1]
        try:
            wanted.append(plain(kind.FromString(merged)))
            payloads.append(merged)
        except ValueError as invalid:
            assert "Sign mismatch" in str(invalid)  # noqa: PT017
        subject = f"{stream}.{next(numbers)}"
        sync_js.publish_batch(subject, payloads).raise_for_errors()
        options: Any = {"format": "protobuf", "schema": kind, "mode": "FAILFAST", "columns": ["value"]}
        table = sync_js.read(stream, subjects=subject, **options).read_all()
        assert [of_arrow(row, table.schema[0].type) for row in table["value"].to_pylist()] == wanted
        flat = pa.Table.from_arrays(table["value"].combine_chunks().flatten(), schema=pa.schema(table.schema[0].type))
        sync_js.publish_table(flat, f"{subject}.t", format="protobuf", schema=kind).raise_for_errors()
        written = sync_js.read(stream, subjects=f"{subject}.t", columns=["data"]).read_all()["data"].to_pylist()
        assert [plain(kind.FromString(payload)) for payload in written] == wanted

    both_ways()


def has_maps(kind: Any) -> bool:
    inner = [field.message_type for field in kind.fields if field.message_type is not None]
    return any(message.GetOptions().map_entry or has_maps(message) for message in inner)


def test_malformed_messages_never_change_other_rows(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    """A message that the package refuses is malformed; others are equal, or malformed for a reason of their own."""

    @bounded(200)
    @given(st.data(), classes(), st.randoms(use_true_random=False))
    def stay(data: st.DataObject, kind: Any, chance: random.Random) -> None:
        good = [fill(data, kind()).SerializeToString() for _ in range(2)]
        payloads = []
        for payload in good:
            broken = bytearray(payload or b"x")
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
            payloads += [payload, payload[: chance.randrange(len(payload) + 1)], bytes(broken), chance.randbytes(8)]
        subject = f"{stream}.{next(numbers)}"
        sync_js.publish_batch(subject, payloads).raise_for_errors()
        table = sync_js.read(stream, subjects=subject, format="protobuf", schema=kind).read_all()
        value = table["value"]
        rows = [of_arrow(row, table.schema.field("value").type) for row in value.to_pylist()]
        errors = table["_error"].to_pylist()
        # The package's parser drops map entries with unknown fields; others, and we, skip these fields.
        has_map = has_maps(kind.DESCRIPTOR)
        for payload, row, error in zip(payloads, rows, errors, strict=True):
            try:
                read = kind.FromString(payload)
                wanted = plain(read) if read.IsInitialized() else None
            except (DecodeError, KeyError, ValueError):
                wanted = None
            assert (row is None) == (error is not None)
            known = any(text in error for text in ("no value of the enum", "beyond Arrow", "UTF-8")) if error else False
            assert row == wanted or known or has_map, (payload, error, wanted)
        assert errors[::4] == [None, None]

    stay()


@pytest.fixture
def order() -> Any:
    return generated(order_file(), "shop.Order")


async def test_schemas_are_a_class_or_a_descriptor_set(
    js: JetStreamContext, stream: str, order: Any, tmp_path: Path
) -> None:
    file = tmp_path / "shop.pb"
    found = descriptor_pb2.FileDescriptorSet(file=[order_file()])
    for module in IMPORTS:
        found.file.add().ParseFromString(module.DESCRIPTOR.serialized_pb)
    file.write_bytes(found.SerializeToString())
    await js.publish_batch(f"{stream}.a", [order(id=7, region="eu").SerializeToString()])
    schemas: list[Any] = [
        order,
        ProtobufSchema.of(order),
        ProtobufSchema(descriptor_set=file, message="shop.Order"),
        ProtobufSchema(descriptor_set=file.read_bytes(), message="shop.Order"),
    ]
    for schema in schemas:
        table = await js.read(stream, format="protobuf", schema=schema, flatten=True).read_all()
        assert table.select(["id", "region", "kind"]).to_pylist() == [{"id": 7, "region": "eu", "kind": "V0"}]
    batch = await (await js.pull_subscribe(f"{stream}.a", "d")).fetch_batch(1, timeout=5)
    assert batch.decode(order, "FAILFAST", format="protobuf").to_pyarrow()["value"].to_pylist()[0]["id"] == 7
    assert repr(schemas[2]) == "ProtobufSchema(message='shop.Order')"


async def test_a_duration_with_parts_of_different_signs_is_malformed(js: JetStreamContext, stream: str) -> None:
    file = new_file("proto3")
    field = file.message_type.add(name="M").field.add(name="took", number=1, label=Type.LABEL_OPTIONAL)
    field.type, field.type_name = Type.TYPE_MESSAGE, ".google.protobuf.Duration"
    kind = generated(file, f"{file.package}.M")
    first, second = kind(), kind()
    first.took.seconds, second.took.nanos = 1, -1
    merged = first.SerializeToString() + second.SerializeToString()
    await js.publish_batch(f"{stream}.a", [first.SerializeToString(), merged])
    table = await js.read(stream, format="protobuf", schema=kind).read_all()
    assert [row and row["took"].value for row in table["value"].to_pylist()] == [1_000_000_000, None]
    assert "different signs: 1 s and -1 ns" in table["_error"].to_pylist()[1]


async def test_every_reason_names_its_column(js: JetStreamContext, stream: str, order: Any) -> None:
    wrong = {
        b"\x08": "not a shop.Order: the message is cut off",
        b"\x12\x05ab": "not a shop.Order: a length exceeds the message",
        b"\x12\x01\xff": "region: not a shop.Order: a string is not UTF-8",
        b"\x18\x63": "kind: not a shop.Order: 99 is no value of the enum",
        b"\x22\x02\x10\x7f\x22\x06\x08\xff\xff\xff\xff\x7f": "at: not a shop.Order: ",
        b"\x0f": "not a shop.Order: a field has an invalid wire type",
        b"\x00": "not a shop.Order: a field has an invalid number",
        b"\x0c": "not a shop.Order: a group ends that has not begun",
    }
    good = order(id=1).SerializeToString()
    # Unknown fields, a group among them, and a known one of another wire type are skipped.
    skipped = good + b"\x9a\x06\x01x" + b"\xa3\x06\x08\x01\xa4\x06" + b"\x0d\x01\x02\x03\x04"
    await js.publish_batch(f"{stream}.a", [good, *wrong, skipped])
    table = await js.read(stream, format="protobuf", schema=order, flatten=True).read_all()
    assert table["id"].to_pylist() == [1, *[None] * len(wrong), 1]
    for error, reason in zip(table["_error"].to_pylist()[1:-1], wrong.values(), strict=True):
        assert reason in error


def test_tables_that_do_not_fit_are_refused_with_column_and_type(
    sync_js: jetarrow.sync.JetStream, stream: str, order: Any
) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"id": ["x"]}, 'column "id" is Utf8, which its field cannot hold'),
        ({"id": [1], "x": [1]}, 'column "x" is no field of shop.Order: leave it out with columns='),
        ({"id": [[1]]}, 'column "id" is List'),
        ({"kind": [1]}, 'column "kind" is Int64'),
        ({"at": pa.array([1], pa.timestamp("us"))}, 'column "at" is Timestamp'),
    ]
    for columns, reason in wrong:
        with pytest.raises(TypeError, match=reason):
            sync_js.publish_table(pa.table(columns), f"{stream}.a", format="protobuf", schema=order)
    table = pa.table(
        {"id": [1, None, 2], "kind": ["V1", "V1", "V9"], "at": pa.array([1, 2, 3], pa.timestamp("s", "UTC"))}
    )
    result = sync_js.publish_table(table, f"{stream}.a", format="protobuf", schema=order)
    texts = [(error.row, str(error.error)) for error in result.errors]
    assert ([row for row, _ in texts], "no presence" in texts[0][1], '"V9"' in texts[1][1]) == ([1, 2], True, True)
    with pytest.raises(TypeError, match="needs schema="):
        sync_js.publish_table(table, f"{stream}.a", format="protobuf", schema="Order")


def test_schemas_that_cannot_be_read_are_refused() -> None:
    file = new_file("proto3")
    node = file.message_type.add(name="Node")
    node.field.add(name="n", number=1, type=Type.TYPE_MESSAGE, type_name=f".{file.package}.Node", label=1)
    any_file = new_file("proto3")
    holder = any_file.message_type.add(name="Holder")
    holder.field.add(name="a", number=1, type=Type.TYPE_MESSAGE, type_name=".google.protobuf.Any", label=1)
    edition = new_file("editions")
    edition.message_type.add(name="New")
    for wrong, name, reason in [
        (file, "Node", "Node contains itself"),
        (any_file, "Holder", "Holder.a is a google.protobuf.Any"),
        (edition, "New", "of a file with editions"),
        (file, "Other", "has no message"),
    ]:
        found = descriptor_pb2.FileDescriptorSet(file=[wrong]).SerializeToString()
        with pytest.raises(ValueError, match=reason):
            ProtobufSchema(found, f"{wrong.package}.{name}")
    with pytest.raises(ValueError, match="not a descriptor set"):
        ProtobufSchema(b"\xff", "A")
    with pytest.raises(TypeError, match="not a generated message class"):
        ProtobufSchema.of(int)
