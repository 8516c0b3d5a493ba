"""Avro payloads: `format="avro"` of reads, `batch.decode` and `publish_table`, compared with fastavro."""

from __future__ import annotations

import datetime
import decimal
import io
import itertools
import json
import math
import random
import struct
from pathlib import Path
from typing import Any

import fastavro
import jetarrow.polars
import jetarrow.sync
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import DecodeError

from .avro_tools import ORDER, datum, logical
from .strategies import TEXTS, bounded, whole

UTC = datetime.UTC
names = (f"N{number}" for number in itertools.count())
MOMENTS = st.datetimes(datetime.datetime(1970, 1, 2), datetime.datetime(2200, 1, 1))


@st.composite
def scalars(draw: st.DrawFn) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema of one value, and its values as fastavro takes them."""
    size = draw(st.integers(1, 20))
    symbols = draw(st.lists(st.sampled_from("ABCDEFG"), min_size=1, max_size=5, unique=True))
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    numbers = st.integers(1 - 10**precision, 10**precision - 1)
    decimals = numbers.map(lambda n: decimal.Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))
    millis = MOMENTS.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))
    choices: list[tuple[Any, st.SearchStrategy[Any]]] = [
        ("boolean", st.booleans()),
        ("int", whole(32)),
        ("long", whole(64)),
        ("float", st.floats(width=32)),
        ("double", st.floats()),
        ("bytes", st.binary(max_size=9)),
        ("string", TEXTS),
        ({"type": "fixed", "name": next(names), "size": size}, st.binary(min_size=size, max_size=size)),
        ({"type": "enum", "name": next(names), "symbols": symbols}, st.sampled_from(symbols)),
        (logical("bytes", "decimal", precision=precision, scale=scale), decimals),
        ({**logical("fixed", "decimal", precision=precision, scale=scale), "name": next(names), "size": 17}, decimals),
        (logical("int", "date"), st.dates()),
        (logical("int", "time-millis"), st.integers(0, 86_399_999).map(clock)),
        (logical("long", "time-micros"), st.times()),
        (logical("long", "timestamp-millis"), millis.map(lambda moment: moment.replace(tzinfo=UTC))),
        (logical("long", "timestamp-micros"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
        (logical("long", "local-timestamp-micros"), MOMENTS),
        (logical("string", "uuid"), st.uuids().map(str)),
    ]
    return draw(st.sampled_from(choices))


def clock(millis: int) -> datetime.time:
    return (datetime.datetime.min + datetime.timedelta(milliseconds=millis)).time()


@st.composite
def nested(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> tuple[Any, st.SearchStrategy[Any]]:
    shape = draw(st.sampled_from(["array", "map", "record"]))
    if shape == "record":
        return draw(records(inner))
    schema, values = draw(optional(inner))
    if shape == "array":
        return {"type": "array", "items": schema}, st.lists(values, max_size=3)
    return {"type": "map", "values": schema}, st.dictionaries(TEXTS, values, max_size=3)


@st.composite
def optional(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> tuple[Any, st.SearchStrategy[Any]]:
    schema, values = draw(inner)
    form = draw(st.sampled_from(["plain", "null first", "null last"]))
    if form == "plain":
        return schema, values
    return (["null", schema] if form == "null first" else [schema, "null"]), st.none() | values


@st.composite
def records(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> tuple[Any, st.SearchStrategy[Any]]:
    fields, values = [], {}
    for number in range(draw(st.integers(1, 4))):
        schema, of_field = draw(optional(inner))
        fields.append({"name": f"f{number}", "type": schema})
        values[f"f{number}"] = of_field
    return {"type": "record", "name": next(names), "fields": fields}, st.fixed_dictionaries(values)


RECORDS = records(st.recursive(scalars(), nested, max_leaves=4))


def plain(value: Any) -> Any:
    """A value of fastavro or of Arrow in a form that can be compared."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        if value and all(isinstance(entry, tuple) and len(entry) == 2 for entry in value):
            return {key: plain(inner) for key, inner in value}
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return struct.pack("d", value) if math.isfinite(value) else str(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return str(value) if type(value).__name__ == "UUID" else value


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and not wanted and isinstance(found, list):
        return not found
    if isinstance(wanted, dict) and isinstance(found, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return bool(found == wanted)


def test_random_data_of_fastavro_are_read_and_ours_by_it(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    numbers = itertools.count()

    @bounded(120)
    @given(st.data(), RECORDS)
    def both_ways(data: st.DataObject, drawn: tuple[Any, st.SearchStrategy[Any]]) -> None:
        schema, values = drawn
        note(json.dumps(schema))
        rows = data.draw(st.lists(values, min_size=1, max_size=6))
        subject = f"{stream}.{next(numbers)}"
        payloads = [datum(schema, row) for row in rows]
        sync_js.publish_batch(subject, payloads).raise_for_errors()
        read = sync_js.read(stream, subjects=subject, format="avro", schema=schema, mode="FAILFAST", columns=["value"])
        table = read.read_all()
        parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
        wanted = [plain(fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)) for payload in payloads]
        assert all(map(same, plain(table["value"].to_pylist()), wanted))
        # The table as data again: the same bytes.
        flat = pa.Table.from_arrays(table["value"].combine_chunks().flatten(), schema=pa.schema(table.schema[0].type))
        sync_js.publish_table(flat, f"{subject}.t", format="avro", schema=schema).raise_for_errors()
        written = sync_js.read(stream, subjects=f"{subject}.t", columns=["data"]).read_all()["data"].to_pylist()
        again = [plain(fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)) for payload in written]
        assert all(map(same, again, wanted))

    both_ways()


def test_malformed_data_never_change_other_rows(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    """Data that are cut off, or have other bytes, are rows of their own."""
    numbers = itertools.count()

    @bounded(150)
    @given(st.data(), RECORDS, st.randoms(use_true_random=False))
    def stay(data: st.DataObject, drawn: tuple[Any, st.SearchStrategy[Any]], chance: random.Random) -> None:
        schema, values = drawn
        note(json.dumps(schema))
        good = [datum(schema, row) for row in data.draw(st.lists(values, min_size=2, max_size=4))]
        payloads = []
        for payload in good:
            payloads += [payload, payload[: chance.randrange(len(payload) + 1)] if payload else b"x"]
            broken = bytearray(payload or b"x")
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
            payloads.append(bytes(broken))
        subject = f"{stream}.{next(numbers)}"
        sync_js.publish_batch(subject, payloads).raise_for_errors()
        read = sync_js.read(stream, subjects=subject, format="avro", schema=schema)
        table = read.read_all()
        assert table.num_rows == len(payloads)
        parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
        wanted = [plain(fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)) for payload in good]
        assert all(map(same, plain(table["value"].to_pylist()[::3]), wanted))
        assert [error is None for error in table["_error"].to_pylist()[::3]] == [True] * len(good)
        # A row is null if, and only if, it has an error.
        rows = zip(table["value"].to_pylist(), table["_error"].to_pylist(), strict=True)
        assert all((value is None) == (error is not None) for value, error in rows)

    stay()


async def test_every_mode_names_column_and_reason(js: JetStreamContext, stream: str) -> None:
    good = datum(ORDER, {"id": 1, "region": "eu", "lines": [{"sku": "a", "n": 1}]})
    wrong = {
        good[:-2]: "the datum is cut off",
        good + b"x": "1 bytes follow the datum",
        b"": "id: not Avro of this schema: the datum is cut off",
        b"\x02\x06": "region: not Avro of this schema: branch of a union 3 of 2",
        b"\x02\x02\x80\x80\x80\x80\x10x": "region: not Avro of this schema: a length of 2147483648 bytes, and 1 follow",
        b"\x02\x00\xfe\xff\xff\xff\x0f": "lines: not Avro of this schema: a block of 2147483647 items",
        b"\x02\x00\x02\x02\xff\x02\x00": "lines[].sku: not Avro of this schema: a string is not UTF-8",
        b"\x02\x00\x02\x02a\x80\x80\x80\x80\x20\x00": "lines[].n: not Avro of this schema: 4294967296 is not an int",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00": "id: not Avro of this schema: a number has more",
    }
    await js.publish_batch(f"{stream}.a", [good, *wrong, good])
    options: Any = {"format": "avro", "schema": ORDER}
    table = await js.read(stream, **options, flatten=True, columns=["seq", "value"]).read_all()
    assert table["id"].to_pylist() == [1, *[None] * len(wrong), 1]
    for error, reason in zip(table["_error"].to_pylist()[1:-1], wrong.values(), strict=True):
        assert reason in error
    assert (await js.read(stream, **options, mode="DROPMALFORMED").read_all())["seq"].to_pylist() == [1, len(wrong) + 2]
    with pytest.raises(DecodeError, match="message 2") as caught:
        await js.read(stream, **options, mode="FAILFAST").read_all()
    assert (caught.value.seq, caught.value.column) == (2, "lines[].n")


async def test_schemas_are_given_as_text_dict_or_path(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    table = pa.table({"id": [1, 2], "lines": [[{"sku": "a", "n": 1}], []]})
    schemas: list[Any] = [ORDER, json.dumps(ORDER), file]
    for schema in schemas:
        result = await js.publish_table(table, f"{stream}.{{id}}", format="avro", schema=schema)
        # A field without a column has its default.
        assert (result.stored, result.errors) == (2, [])
        latest = await js.latest(stream, format="avro", schema=schema, flatten=True, columns=["value"]).read_all()
        assert latest.select(["id", "region"]).to_pydict() == {"id": [1, 2], "region": [None, None]}
    batch = await (await js.pull_subscribe(f"{stream}.1", "d")).fetch_batch(1, timeout=5)
    assert batch.decode(ORDER, "FAILFAST", format="avro").to_pyarrow()["value"].to_pylist()[0]["id"] == 1


def test_single_object_encoding(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    """C3 01 and the fingerprint of the schema, which fastavro computes."""
    value = {"id": 7, "region": None, "lines": []}
    print_ = fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(ORDER), "CRC-64-AVRO")
    header = b"\xc3\x01" + bytes.fromhex(print_)
    other = b"\xc3\x01" + bytes(8)
    sync_js.publish_batch(f"{stream}.a", [header + datum(ORDER, value), other + datum(ORDER, value)]).raise_for_errors()
    table = sync_js.read(stream, format="avro", schema=ORDER, flatten=True).read_all()
    assert table["id"].to_pylist() == [7, None]


def test_tables_that_do_not_fit_are_refused_with_column_and_type(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    lines = pa.array([[{"sku": "a", "n": 1}]])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"id": [1.5], "lines": lines}, 'column "id" is Float64, which an Avro long cannot hold'),
        ({"id": [1]}, 'the table has no column "lines"'),
        ({"id": [1], "lines": lines, "x": [1]}, 'column "x" is not in the Avro schema: leave it out with columns='),
        (
            {"id": [1], "lines": [[{"sku": 1, "n": 1}]]},
            'column "lines\\[\\].sku" is Int64, which an Avro string cannot',
        ),
        ({"id": pa.array([1], pa.uint64()), "lines": lines}, 'column "id" is UInt64'),
    ]
    for columns, reason in wrong:
        with pytest.raises(TypeError, match=reason):
            sync_js.publish_table(pa.table(columns), f"{stream}.a", format="avro", schema=ORDER)
    large = pa.table({"id": [1], "lines": [[{"sku": "a", "n": 2**40}]]})
    (error,) = sync_js.publish_table(large, f"{stream}.a", format="avro", schema=ORDER).errors
    assert "1099511627776 is beyond an Avro int" in str(error.error)
    rows = pa.table({"id": [1, None], "lines": pa.chunked_array([pa.concat_arrays([lines, lines])])})
    result = sync_js.publish_table(rows, f"{stream}.a", format="avro", schema=ORDER)
    assert [(error.row, 'column "id": null' in str(error.error)) for error in result.errors] == [(1, True)]
    with pytest.raises(ValueError, match='format "avro"'):
        sync_js.publish_table(rows, f"{stream}.a", schema=ORDER)
    with pytest.raises(TypeError, match="needs schema="):
        sync_js.publish_table(rows, f"{stream}.a", format="avro")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "not JSON"),
        ('"string"', "must be a record, not string"),
        ({"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "A"]}]}, "A contains itself"),
        (
            {"type": "record", "name": "A", "fields": [{"name": "a", "type": ["int", "string"]}]},
            'column "a" is a union',
        ),
        ({"type": "record", "name": "A", "fields": [{"name": "a", "type": "B"}]}, 'no type "B"'),
        ({"type": "record", "name": "A B", "fields": []}, "not an Avro name"),
        ({"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}] * 2}, 'two fields "a"'),
    ],
)
async def test_schemas_that_cannot_be_read_are_refused(js: JetStreamContext, schema: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        js.read("S", format="avro", schema=schema)


def test_a_schema_that_names_types_many_times_is_refused(sync_js: jetarrow.sync.JetStream) -> None:
    """Each record has the one before ten times: ten to the power of their number."""
    fields: list[Any] = [{"name": "a", "type": "int"}]
    for number in range(12):
        inner: Any = {"type": "record", "name": f"R{number}", "fields": fields}
        fields = [{"name": "f0", "type": inner}, *({"name": f"f{n}", "type": f"R{number}"} for n in range(1, 10))]
    with pytest.raises(ValueError, match="more than 10000 types"):
        sync_js.read("S", format="avro", schema={"type": "record", "name": "Top", "fields": fields})
    deep: Any = "int"
    for _ in range(70):
        deep = {"type": "array", "items": deep}
    with pytest.raises(ValueError, match="nested deeper than 64"):
        sync_js.read(
            "S", format="avro", schema={"type": "record", "name": "Top", "fields": [{"name": "a", "type": deep}]}
        )


async def test_items_without_a_size_allocate_little(js: JetStreamContext, stream: str) -> None:
    """An array of nulls can claim any count in a few bytes."""
    schema = {"type": "record", "name": "A", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}
    payloads = [
        datum(schema, {"a": [None] * 3}),
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00",
        b"\x80\x80\x08" * 2 + b"\x00",
    ]
    await js.publish_batch(f"{stream}.a", payloads)
    table = await js.read(stream, format="avro", schema=schema, flatten=True).read_all()
    assert [value and len(value) for value in table["a"].to_pylist()] == [3, None, None]
