"""Types of the columns of an Iceberg table: each Arrow type that decoding makes is stored, or refused by column."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import re
from pathlib import Path
from typing import Any

import fastavro
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.jetstream.sinks.iceberg_types import Fit, converted, created_schema, stored_schema
from jetarrow.js.errors import SinkSchemaError
from pyiceberg.catalog.sql import SqlCatalog

from .iceberg_tools import NAME, rows, sql_catalog

PAGE = (Path(__file__).parents[2] / "docs" / "sinks.md").read_text("utf-8")
UTC = dt.UTC
TEXTS = pa.dictionary(pa.int32(), pa.string())
# Arrow type, values, type of the column in Iceberg, and the values that are read if they differ.
STORED: list[tuple[Any, list[Any], str, list[Any] | None]] = [
    (pa.bool_(), [True, None], "boolean", None),
    (pa.int8(), [-128, 127], "int", None),
    (pa.uint8(), [255], "int", None),
    (pa.int16(), [-32768], "int", None),
    (pa.uint16(), [65535], "int", None),
    (pa.int32(), [-(2**31)], "int", None),
    (pa.uint32(), [2**32 - 1], "long", None),
    (pa.int64(), [2**63 - 1], "long", None),
    (pa.uint64(), [2**64 - 1], "decimal(20, 0)", [decimal.Decimal(2**64 - 1)]),
    (pa.float16(), [1.5], "float", None),
    (pa.float32(), [1.5], "float", None),
    (pa.float64(), [0.1], "double", None),
    (pa.decimal32(5, 2), [decimal.Decimal("123.45")], "decimal(5, 2)", None),
    (pa.decimal128(38, 18), [decimal.Decimal("1.5")], "decimal(38, 18)", [decimal.Decimal("1.500000000000000000")]),
    (pa.decimal256(20, 1), [decimal.Decimal("1.5")], "decimal(20, 1)", None),
    (pa.string(), ["a", ""], "string", None),
    (pa.large_string(), ["a"], "string", None),
    (pa.string_view(), ["a"], "string", None),
    (TEXTS, ["a", "b", "a"], "string", None),
    (pa.binary(), [b"\x00\xff"], "binary", None),
    (pa.large_binary(), [b"a"], "binary", None),
    (pa.binary_view(), [b"a"], "binary", None),
    (pa.binary(4), [b"abcd"], "fixed[4]", None),
    (pa.uuid(), [b"0123456789abcdef"], "uuid", None),
    (pa.date32(), [dt.date(2026, 1, 2)], "date", None),
    (pa.date64(), [dt.date(2026, 1, 2)], "date", None),
    (pa.time32("s"), [dt.time(1, 2, 3)], "time", None),
    (pa.time32("ms"), [dt.time(1, 2, 3, 4000)], "time", None),
    (pa.time64("us"), [dt.time(1, 2, 3, 4)], "time", None),
    (pa.time64("ns"), [3_723_000_004_999], "time", [dt.time(1, 2, 3, 4)]),
    (pa.timestamp("s"), [dt.datetime(2026, 1, 2)], "timestamp", None),
    (pa.timestamp("ns"), [1_999], "timestamp", [dt.datetime(1970, 1, 1, microsecond=1)]),
    (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 2, tzinfo=UTC)], "timestamptz", None),
    (pa.timestamp("ns", "UTC"), [1_999], "timestamptz", [dt.datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)]),
    (pa.timestamp("ms", "+02:00"), [0], "timestamptz", [dt.datetime(1970, 1, 1, tzinfo=UTC)]),
    (pa.list_(TEXTS), [["a", None], []], "list<string>", None),
    (pa.large_list(pa.uint32()), [[1]], "list<long>", None),
    (pa.list_(pa.int64(), 2), [[1, 2]], "list<long>", None),
    (pa.map_(pa.string(), pa.uint64()), [[("a", 1)]], "map<string, decimal(20, 0)>", [[("a", decimal.Decimal(1))]]),
    (
        pa.struct([("a", pa.uint32()), ("b", pa.struct([("c", pa.timestamp("ns"))]))]),
        [{"a": 1, "b": {"c": 1_999}}, {"a": None, "b": None}, None],
        "struct<3: a: optional long, 4: b: optional struct<5: c: optional timestamp>>",
        [{"a": 1, "b": {"c": dt.datetime(1970, 1, 1, microsecond=1)}}, {"a": None, "b": None}, None],
    ),
]
REFUSED = [
    pa.duration("s"),
    pa.null(),
    pa.decimal256(76, 1),
    pa.decimal128(5, -2),
    pa.month_day_nano_interval(),
    pa.struct([]),
    pa.list_(pa.duration("ms")),
    pa.map_(pa.string(), pa.duration("ns")),
    pa.struct([("a", pa.struct([("b", pa.duration("us"))]))]),
    pa.dense_union([pa.field("a", pa.int32())]),
]


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return sql_catalog(tmp_path)


@pytest.mark.parametrize(("kind", "values", "stored", "read"), STORED, ids=lambda value: str(value)[:40])
def test_type_is_stored(catalog: SqlCatalog, kind: Any, values: list[Any], stored: str, read: list[Any] | None) -> None:
    """The conversion of a sink, without its stream; the values are those that Iceberg reads."""
    array = pa.array(values, pa.uuid().storage_type).cast(kind) if kind == pa.uuid() else None
    if array is None:
        simple = kind.value_type if pa.types.is_dictionary(kind) else kind
        array = pa.array(values, simple if simple != pa.list_(TEXTS) else pa.list_(pa.string())).cast(kind)
    batch = pa.RecordBatch.from_arrays([array, pa.array(range(len(values)), pa.int64())], ["v", "seq"])
    schema = stored_schema(batch.schema, NAME)
    table = catalog.create_table(NAME, created_schema(schema))
    assert str(table.schema().find_field("v").field_type) == stored
    fit = Fit(schema, table.schema().as_arrow(), NAME)
    assert not fit.new
    table.append(converted([batch], fit.schema, NAME))
    found = rows(catalog)["v"].to_pylist()
    assert found == (array.to_pylist() if read is None else read)


@pytest.mark.parametrize("kind", REFUSED, ids=str)
def test_type_is_refused_by_column(kind: Any) -> None:
    with pytest.raises(
        SinkSchemaError, match=r"could not write to db\.rows: column 'v[a-z.]*' is .*leave the field out"
    ):
        stored_schema(pa.schema([("v", kind)]), NAME)


def test_nothing_is_written_if_a_type_is_refused(
    sync_js: jetarrow.sync.JetStream, stream: str, catalog: SqlCatalog, tmp_path: Path
) -> None:
    sync_js.publish(f"{stream}.a", b'{"took": 5}')
    schema = pa.schema([("took", pa.duration("s"))])
    with pytest.raises(SinkSchemaError, match=r"column 'took' is duration\[s\]"):
        sync_js.to_iceberg(stream, NAME, catalog=catalog, schema=schema).run()
    assert not catalog.table_exists(NAME)
    assert not list(tmp_path.rglob("*.parquet"))


def test_nanoseconds_are_kept_in_a_column_that_has_them(catalog: SqlCatalog) -> None:
    schema = pa.schema([("at", pa.timestamp("ns", "UTC"))])
    ours = stored_schema(schema, NAME)
    assert Fit(ours, schema, NAME).schema == schema
    batch = pa.RecordBatch.from_arrays([pa.array([1_999], schema.field("at").type)], schema=schema)
    assert converted([batch], schema, NAME)["at"].cast(pa.int64()).to_pylist() == [1_999]


def test_columns_of_avro_are_stored(sync_js: jetarrow.sync.JetStream, stream: str, catalog: SqlCatalog) -> None:
    from io import BytesIO

    record = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "of_day", "type": {"type": "int", "logicalType": "time-millis"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "tags", "type": {"type": "map", "values": "long"}},
            {"name": "hash", "type": {"type": "fixed", "name": "F", "size": 3}},
        ],
    }
    value = {
        "kind": "B",
        "at": dt.datetime(2026, 1, 2, tzinfo=UTC),
        "of_day": dt.time(1, 2, 3),
        "price": decimal.Decimal("12.50"),
        "tags": {"a": 1},
        "hash": b"abc",
    }
    payload = BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(record), value)
    sync_js.publish(f"{stream}.a", payload.getvalue())
    sync_js.to_iceberg(stream, NAME, catalog=catalog, format="avro", schema=json.dumps(record)).run()
    (row,) = rows(catalog).to_pylist()
    assert {name: row[name] for name in value} == {**value, "tags": [("a", 1)]}


def test_the_page_has_each_type() -> None:
    section = PAGE.partition("<!-- iceberg types -->\n")[2].partition("<!-- /iceberg types -->")[0]
    named = set(re.findall(r"`([a-z]+)", section))
    assert {re.match(r"[a-z]+", stored)[0] for _, _, stored, _ in STORED} <= named  # type: ignore[index]
