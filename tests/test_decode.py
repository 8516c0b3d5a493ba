"""JSON payloads as typed columns: js.read(schema=) and MessageBatch.decode."""

from __future__ import annotations

import json
from decimal import Decimal

import jetarrow.sync
import polars as pl
import pyarrow as pa
import pytest
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext

from .tools import store

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
        ("inner", pa.struct([("ok", pa.bool_()), ("share", pa.float64())])),
        ("counts", pa.map_(pa.string(), pa.int32())),
        ("raw", pa.binary()),
    ]
)
GOOD = {
    "id": 7,
    "name": "grüße \U0001f600",
    "price": 12.5,
    "at": "2026-01-02T03:04:05.000006Z",
    "day": "2026-01-02",
    "tags": ["a", None],
    "inner": {"ok": True, "share": 0.25, "extra": [1, {"x": 2}]},
    "counts": {"x": 1},
    "raw": "AAEC",
}
BAD = [b"", b"not json", b'{"id": "7"}', b'{"id": 9223372036854775808}', b"[1]", b'{"id": 1} x', b"\xff\xfe"]
ROWS = [json.dumps(GOOD).encode(), *BAD, b'{"id": null}', b'{"name": "only"}']


async def test_permissive(js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", ROWS)
    table = await js.read(stream, schema=SCHEMA).read_all()
    assert table.schema.names == [
        "stream",
        "seq",
        "subject",
        "timestamp",
        "headers",
        "value",
        "_corrupt_record",
        "_error",
    ]
    assert table.schema.field("value").type == pa.struct(list(SCHEMA))
    rows = table.to_pylist()
    value = rows[0]["value"]
    assert (value["id"], value["name"], value["price"], value["raw"]) == (7, GOOD["name"], Decimal("12.50"), b"\0\1\2")
    assert (value["at"].isoformat(), value["day"].isoformat()) == ("2026-01-02T03:04:05.000006+00:00", "2026-01-02")
    assert (value["tags"], value["inner"], value["counts"]) == (["a", None], {"ok": True, "share": 0.25}, [("x", 1)])
    assert [row["value"] for row in rows[1:8]] == [None] * 7
    assert [row["_corrupt_record"] for row in rows] == [None, *(b.decode() for b in BAD[:-1]), "//4=", None, None]
    assert rows[8]["value"] == dict.fromkeys(SCHEMA.names)
    assert rows[9]["value"] == {**dict.fromkeys(SCHEMA.names), "name": "only"}


async def test_dropmalformed_filters_every_column(js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", ROWS)
    batches = [b async for b in js.read(stream, schema=SCHEMA, mode="DROPMALFORMED", batch_rows=3)]
    rows = [row for batch in batches for row in batch.to_pyarrow().to_pylist()]
    assert [row["seq"] for row in rows] == [1, 9, 10]
    assert [seq for batch in batches for seq in batch.seqs.to_pylist()] == [1, 9, 10]
    assert [row["value"]["name"] for row in rows] == [GOOD["name"], None, "only"]
    assert "_corrupt_record" not in rows[0]


async def test_failfast_names_sequence_and_column(js: JetStreamContext, stream: str) -> None:
    good = json.dumps(GOOD).encode()
    (await js.publish_batch(f"{stream}.a", [good, b'{"id": 1, "inner": {"share": "much"}}'])).raise_for_errors()
    with pytest.raises(js_errors.DecodeError, match=r"message 2 .* inner\.share") as info:
        await js.read(stream, schema=SCHEMA, mode="FAILFAST").read_all()
    assert (info.value.seq, info.value.column) == (2, "inner.share")
    assert (await js.read(stream, end_seq=2, schema=SCHEMA, mode="FAILFAST").read_all()).num_rows == 1


async def test_columns_and_other_schema_libraries(js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", ROWS)
    for columns in (["value", "seq"], ["data", "seq"]):
        table = await js.read(stream, columns=columns, schema=pa.schema([("id", pa.int16())]), end_seq=2).read_all()
        assert table.to_pylist() == [{"value": {"id": 7}, "_corrupt_record": None, "_error": None, "seq": 1}]
    as_struct = pa.struct([("id", pa.int64())])
    assert (await js.read(stream, schema=as_struct, end_seq=2).read_all()).column("value").to_pylist() == [{"id": 7}]
    frame = pl.DataFrame(js.read(stream, columns=["value"], schema=SCHEMA.remove(7), end_seq=2))
    assert frame["value"].struct.field("id").to_list() == [7]


async def test_wrong_schemas(js: JetStreamContext, stream: str) -> None:
    with pytest.raises(ValueError, match="Interval"):
        js.read(stream, schema=pa.schema([("d", pa.month_day_nano_interval())]))
    with pytest.raises(ValueError, match="PERMISSIVE, DROPMALFORMED, FAILFAST"):
        js.read(stream, schema=SCHEMA, mode="permissive")
    with pytest.raises(ValueError, match="columns= leaves out"):
        js.read(stream, schema=SCHEMA, columns=["seq"])
    with pytest.raises(TypeError, match="schema"):
        js.read(stream, schema=object())  # type: ignore[arg-type]


async def test_decode_a_fetched_batch(js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", ROWS)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d")
    batch = await sub.fetch_batch(100)
    decoded = batch.decode(SCHEMA, mode="DROPMALFORMED")
    assert (len(batch), len(decoded), decoded.seqs.to_pylist()) == (10, 3, [1, 9, 10])
    await decoded.ack_sync(timeout=20)
    assert (await sub.consumer_info()).num_ack_pending == 7
    assert len(batch.decode(SCHEMA)) == 10


def test_sync_twin(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sync_js.publish_batch(f"{stream}.a", [json.dumps({"id": i}) for i in range(10)])
    table = sync_js.read(stream, schema=pa.schema([("id", pa.int32())])).read_all()
    assert [row["id"] for row in table.column("value").to_pylist()] == list(range(10))
    batch = sync_js.pull_subscribe(f"{stream}.>").fetch_batch(10).decode(pa.schema([("id", pa.int32())]))
    batch.ack()
