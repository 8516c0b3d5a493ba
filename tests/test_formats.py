"""Avro and Protobuf in archives, tables and polars, and the page docs/formats.md."""

from __future__ import annotations

import ast
import asyncio
import decimal
import json
import re
from pathlib import Path
from typing import Any

import deltalake
import jetarrow
import jetarrow.polars
import jetarrow.sync
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import timestamp_pb2
from jetarrow import ProtobufSchema
from jetarrow.jetstream.binary_schema import BinaryColumns
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SinkSchemaError

from .avro_tools import ORDER, datum, logical
from .protobuf_tools import Type, generated, new_file, order_file
from .registry.server import RegistryServer, running
from .tools import python_blocks

PAGE = Path(__file__).parents[1] / "docs" / "formats.md"


@pytest.fixture
def order() -> Any:
    return generated(order_file(), "shop.Order")


@pytest.mark.parametrize("durable", [None, "archive"])
async def test_sinks_write_records_and_keep_malformed_rows(
    js: JetStreamContext, stream: str, tmp_path: Path, durable: str | None
) -> None:
    rows = [{"id": id, "region": "eu", "lines": [{"sku": "a", "n": id}]} for id in range(5)]
    payloads = [datum(ORDER, row) for row in rows]
    await js.publish_batch(f"{stream}.a", [*payloads, b"broken"])
    result = await js.to_parquet(stream, tmp_path / "t", format="avro", schema=ORDER, durable=durable).run()
    assert (result.rows, result.corrupt) == (5, 1)
    table = pq.read_table(tmp_path / "t")
    assert table.select(["id", "region", "lines"]).sort_by("id").to_pylist() == rows
    # The next run continues, with the same schema from another place.
    await js.publish_batch(f"{stream}.a", payloads[:2])
    sink = js.to_parquet(stream, tmp_path / "t", format="avro", schema=json.dumps(ORDER), durable=durable)
    assert (await sink.run()).rows == 2
    other = {**ORDER, "fields": ORDER["fields"][:1]}  # type: ignore[index]
    await js.publish_batch(f"{stream}.a", [datum(other, {"id": 1})])
    with pytest.raises(SinkSchemaError, match="region is missing"):
        await js.to_parquet(stream, tmp_path / "t", format="avro", schema=other, durable=durable).run()


def test_a_scan_of_polars(nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    rows = [{"id": id, "region": None if id % 2 else "eu", "lines": []} for id in range(10)]
    sync_js.publish_batch(f"{stream}.a", [datum(ORDER, row) for row in rows]).raise_for_errors()
    frame = jetarrow.polars.scan(nats_url, stream, format="avro", schema=ORDER)
    assert frame.collect_schema()["id"] == pl.Int64
    found = frame.filter((pl.col("seq") > 4) & pl.col("region").is_null()).select("id", "seq").collect()
    assert found.to_dict(as_series=False) == {"id": [5, 7, 9], "seq": [6, 8, 10]}
    assert frame.select(pl.len()).collect().item() == 10
    with pytest.raises(TypeError, match="needs schema="):
        jetarrow.polars.scan(nats_url, stream, format="avro")


def test_the_documented_types_are_those_of_the_schemas() -> None:
    page = PAGE.read_text("utf-8")
    rows = re.findall(
        r"^\| (`.*) \| `(.*?)`(, nullable)? \|$", page.split("<!-- avro -->")[1].split("<!-- /avro -->")[0], re.M
    )
    logical_types: dict[str, Any] = {
        "date": "int", "time-millis": "int", "uuid": "string", "duration": {"type": "fixed", "name": "D", "size": 12}
    }  # fmt: skip
    complex_types: dict[str, Any] = {
        "`fixed` of 4 bytes": {"type": "fixed", "name": "F", "size": 4},
        "`enum`": {"type": "enum", "name": "E", "symbols": ["A"]},
        "`array` of `int`": {"type": "array", "items": "int"},
        "`map` of `int`": {"type": "map", "values": "int"},
        "`record` of `x: int`": {"type": "record", "name": "X", "fields": [{"name": "x", "type": "int"}]},
        '`["null", "int"]`': ["null", "int"],
    }

    def schema(words: str) -> Any:
        word = words.strip("`")
        if words in complex_types:
            return complex_types[words]
        if found := re.fullmatch(r"decimal\((\d+), (\d+)\)", word):
            return logical("bytes", "decimal", precision=int(found[1]), scale=int(found[2]))
        if "-" in word or word in logical_types:
            base = logical_types.get(word, "long")
            return {**base, "logicalType": word} if isinstance(base, dict) else logical(base, word)
        return word

    assert len(rows) == 27
    for words, kind, nullable in rows:
        given = {"type": "record", "name": "R", "fields": [{"name": "a", "type": schema(words)}]}
        (field,) = pa.schema(BinaryColumns(json.dumps(given)))
        assert (str(field.type), field.nullable) == (kind, bool(nullable) or words == "`null`"), words


async def test_the_avro_example_runs(own: JetStreamContext) -> None:
    await own.add_stream(name="AVRO", subjects=["avro.>"])
    block, _, _ = python_blocks(await asyncio.to_thread(PAGE.read_text, "utf-8"))
    names: dict[str, Any] = {"js": own, "pa": pa, "Decimal": decimal.Decimal}
    await eval(compile(block, "formats.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    assert names["table"].select(names["orders"].column_names).equals(names["orders"])


async def test_a_delta_table_has_enums_and_refuses_times(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    symbols = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "e", "type": symbols}]}
    table = pa.table({"e": ["A", "B"]})
    await js.publish_table(table, f"{stream}.a", format="avro", schema=schema)
    assert (await js.to_delta(stream, tmp_path / "a", format="avro", schema=schema).run()).rows == 2
    assert deltalake.DeltaTable(str(tmp_path / "a")).to_pyarrow_table()["e"].to_pylist() == ["A", "B"]
    times = {"type": "record", "name": "R", "fields": [{"name": "t", "type": logical("long", "time-micros")}]}
    await js.publish_table(pa.table({"t": pa.array([1], pa.time64("us"))}), f"{stream}.b", format="avro", schema=times)
    sink = js.to_delta(stream, tmp_path / "b", subjects=f"{stream}.b", format="avro", schema=times)
    with pytest.raises(SinkSchemaError, match=r"column 't' is time64\[us\], and Delta tables have no such type"):
        await sink.run()


@pytest.mark.parametrize("durable", [None, "archive"])
async def test_sinks_and_polars_of_messages(
    js: JetStreamContext, nats_url: str, stream: str, order: Any, tmp_path: Path, durable: str | None
) -> None:
    payloads = [order(id=id, region="eu").SerializeToString() for id in range(5)]
    await js.publish_batch(f"{stream}.a", [*payloads, b"\xff"])
    result = await js.to_parquet(stream, tmp_path / "t", format="protobuf", schema=order, durable=durable).run()
    assert (result.rows, result.corrupt) == (5, 1)
    assert sorted(pq.read_table(tmp_path / "t")["id"].to_pylist()) == list(range(5))
    frame = jetarrow.polars.scan(nats_url, stream, format="protobuf", schema=order)
    assert frame.select("id").collect()["id"].to_list() == [0, 1, 2, 3, 4, None]


def test_the_documented_types_are_those_of_protobuf_fields() -> None:
    page = PAGE.read_text("utf-8").split("<!-- protobuf -->")[1].split("<!-- /protobuf -->")[0]
    rows = re.findall(r"^\| `(.*?)`.* \| `(.*?)`(, nullable)? \|$", page, re.MULTILINE)
    file = new_file("proto3")
    made = file.message_type.add(name="All")
    full = f".{file.package}.All"
    inner = made.nested_type.add(name="Inner")
    inner.field.add(name="x", number=1, type=Type.TYPE_INT32, label=Type.LABEL_OPTIONAL)
    entry = made.nested_type.add(name="MEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Type.TYPE_STRING, label=Type.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=Type.TYPE_INT32, label=Type.LABEL_OPTIONAL)
    for place, (words, _, _) in enumerate(rows):
        field = made.field.add(name=f"f{place}", number=place + 1, label=Type.LABEL_OPTIONAL)
        if words.startswith("map<"):
            field.label, field.type, field.type_name = Type.LABEL_REPEATED, Type.TYPE_MESSAGE, f"{full}.MEntry"
        elif words == "message":
            field.type, field.type_name = Type.TYPE_MESSAGE, f"{full}.Inner"
        elif words == "enum":
            field.type, field.type_name = Type.TYPE_ENUM, f".{file.package}.E"
        elif words[0].isupper():
            field.type, field.type_name = Type.TYPE_MESSAGE, f".google.protobuf.{words}"
        else:
            label, _, kind = words.rpartition(" ")
            field.type = getattr(Type, f"TYPE_{kind.upper()}")
            if label == "repeated":
                field.label = Type.LABEL_REPEATED
            elif label == "optional":
                field.proto3_optional, field.oneof_index = True, 0
                made.oneof_decl.add(name="_only")
    columns = pa.schema(ProtobufSchema.of(generated(file, full[1:])))
    assert len(rows) == 23
    assert [(str(field.type), field.nullable) for field in columns] == [(kind, bool(null)) for _, kind, null in rows]


async def test_the_protobuf_example_runs(own: JetStreamContext) -> None:
    await own.add_stream(name="PROTOBUF", subjects=["protobuf.>"])
    _, block, _ = python_blocks(await asyncio.to_thread(PAGE.read_text, "utf-8"))
    names: dict[str, Any] = {"js": own, "pa": pa, "jetarrow": jetarrow, "Timestamp": timestamp_pb2.Timestamp}
    await eval(compile(block, "formats.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    assert names["table"].select(["seconds", "nanos"]).to_pylist() == names["times"].to_pylist()


async def test_the_registry_example_runs(own: JetStreamContext) -> None:
    await own.add_stream(name="AVRO", subjects=["avro.>"])
    await own.add_stream(name="REGISTRY", subjects=["registry.>"])
    avro, _, block = python_blocks(await asyncio.to_thread(PAGE.read_text, "utf-8"))
    with running(RegistryServer()) as registry:
        names: dict[str, Any] = {"js": own, "pa": pa, "jetarrow": jetarrow, "Decimal": decimal.Decimal}
        names["REGISTRY"] = registry.url
        for text in (avro, block):
            await eval(compile(text, "formats.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        assert list(registry.subjects) == ["orders-value"]
    assert names["table"].select(names["orders"].column_names).equals(names["orders"])
