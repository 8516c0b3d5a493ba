"""Export through the Arrow PyCapsule interface: without a copy into other libraries, and in the types they request.

Memory that each library exposes:
- pyarrow: the address of every buffer, and all buffers are ours.
- polars: integers and timestamps use our buffers. Text and binary become views of 16 bytes a row in its own memory,
  which contain values of up to 12 bytes; longer values remain in our buffer.
- pandas: ArrowDtype columns use our buffers. Its numpy columns are copies by design.
- duckdb: exposes no addresses. It scans a batch, or a reader that is still reading; the tests compare the rows.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any, Literal

import duckdb
import jetarrow.sync
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.sync import MessageBatch

ROWS = 1_000
# Longer than the values that a view contains itself.
PAYLOADS = [b"payload of message %06d" % i for i in range(ROWS)]
COLUMNS = ["stream", "seq", "subject", "timestamp", "headers", "data"]
ALL = [*COLUMNS, "delivered", "consumer_seq", "pending", "reply"]
HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))


@pytest.fixture
def subject(stream: str) -> str:
    return f"{stream}.a.subject.longer.than.a.view"


@pytest.fixture
def filled(sync_js: jetarrow.sync.JetStream, stream: str, subject: str) -> str:
    """A stream with the payloads; only the last message has headers."""
    sync_js.publish_batch(subject, PAYLOADS[:-1]).raise_for_errors()
    sync_js.publish(subject, PAYLOADS[-1], headers={"H": ["1", "2"]})
    return stream


@pytest.fixture
def batch(sync_js: jetarrow.sync.JetStream, filled: str) -> Iterator[MessageBatch]:
    with sync_js.read(filled) as reader:
        yield next(reader)


def addresses(array: pa.Array) -> list[int | None]:
    return [None if buffer is None else buffer.address for buffer in array.buffers()]


def requested(producer: Any, fields: list[pa.Field]) -> pa.RecordBatch:
    """Returns the export for a requested schema, without the casts that pyarrow itself would add."""
    return pa.RecordBatch._import_from_c_capsule(*producer.__arrow_c_array__(capsule(fields)))


def capsule(fields: list[pa.Field]) -> object:
    return pa.schema(fields).__arrow_c_schema__()


def with_type(batch: MessageBatch, name: str, kind: pa.DataType, nullable: bool | None = None) -> list[pa.Field]:
    fields = list(batch.schema)
    at = batch.schema.get_field_index(name)
    fields[at] = fields[at].with_type(kind)
    fields[at] = fields[at].with_nullable(fields[at].nullable if nullable is None else nullable)
    return fields


def test_pyarrow_has_our_memory(batch: MessageBatch) -> None:
    first, second = pa.record_batch(batch), pa.record_batch(batch)
    assert first.schema.names == COLUMNS
    buffers = [address for column in first.columns for address in addresses(column) if address]
    assert len(buffers) > len(COLUMNS)
    for name in COLUMNS:
        # Both are alive: if either were a copy, the addresses would differ.
        assert addresses(first[name]) == addresses(second[name]), name
    assert addresses(batch.to_pyarrow()["data"]) == addresses(first["data"])
    copied = pa.array(first["data"].to_pylist(), pa.binary())
    assert copied == first["data"]
    assert addresses(copied) != addresses(first["data"])
    assert pa.array(batch.seqs).to_pylist() == list(range(1, ROWS + 1))
    assert addresses(pa.array(batch.seqs)) == addresses(pa.array(batch.seqs))


def test_exported_tables_outlive_the_batch(sync_js: jetarrow.sync.JetStream, filled: str) -> None:
    table = pa.table(next(sync_js.read(filled)))
    frame = pl.DataFrame(next(sync_js.read(filled)))
    gc.collect()
    assert table["data"].to_pylist() == frame["data"].to_list() == PAYLOADS


def test_polars_has_our_memory(batch: MessageBatch, subject: str) -> None:
    ours = pa.record_batch(batch)
    frame = pl.DataFrame(batch)
    assert frame.columns == COLUMNS
    assert frame.schema["timestamp"] == pl.Datetime("ns", "UTC")
    for name in ("seq", "timestamp"):
        numbers = frame[name].to_physical().to_numpy(allow_copy=False)
        assert numbers.ctypes.data == ours[name].buffers()[1].address, name
    for name in ("data", "subject"):
        views = frame[name].to_arrow(compat_level=pl.CompatLevel.newest())
        assert addresses(views)[2:] == addresses(ours[name])[2:], name
    assert frame["data"].to_list() == PAYLOADS
    assert frame["subject"].unique().to_list() == [subject]
    assert frame["headers"].null_count() == ROWS - 1
    assert batch.to_polars().equals(frame)


def test_pandas_has_our_memory_where_it_keeps_arrow(batch: MessageBatch) -> None:
    ours = pa.record_batch(batch)
    frame = batch.to_pyarrow().to_pandas(types_mapper=pd.ArrowDtype)
    assert list(frame.columns) == COLUMNS
    for name in ("seq", "timestamp", "stream", "subject", "data"):
        (chunk,) = pa.chunked_array(frame[name]).chunks
        assert addresses(chunk) == addresses(ours[name]), name
    copied = pd.DataFrame.from_arrow(batch)
    assert copied["seq"].tolist() == list(range(1, ROWS + 1))
    assert copied["data"].tolist() == PAYLOADS
    assert str(copied["timestamp"].dtype) == "datetime64[ns, UTC]"
    ours_again = batch.to_pandas()
    # `equals` does not compare nested values.
    assert ours_again.pop("headers").isna().sum() == copied.pop("headers").isna().sum() == ROWS - 1
    assert ours_again.equals(copied)


def test_duckdb_scans_a_batch(batch: MessageBatch, filled: str) -> None:
    with duckdb.connect() as db:
        db.register("rows", batch)
        types = {name: kind for name, kind, *_ in db.sql("describe rows").fetchall()}
        assert types == {
            "stream": "VARCHAR",
            "seq": "BIGINT",
            "subject": "VARCHAR",
            "timestamp": "TIMESTAMPTZ_NS",
            "headers": "MAP(VARCHAR, VARCHAR[])",
            "data": "BLOB",
        }
        found = db.sql("select seq, data, epoch_ns(timestamp), stream from rows order by seq").fetchall()
        nanos = batch.to_pyarrow()["timestamp"].cast(pa.int64()).to_pylist()
        assert found == list(zip(range(1, ROWS + 1), PAYLOADS, nanos, [filled] * ROWS, strict=True))
        assert db.sql("select headers from rows where headers is not null").fetchall() == [({"H": ["1", "2"]},)]


def test_duckdb_scans_while_the_reader_reads(sync_js: jetarrow.sync.JetStream, filled: str) -> None:
    with duckdb.connect() as db, sync_js.read(filled, batch_rows=64, columns=["seq", "data"]) as reader:
        db.register("rows", reader)
        found = db.sql("select count(*), sum(seq), max(data) from rows").fetchall()
    assert found == [(ROWS, ROWS * (ROWS + 1) // 2, PAYLOADS[-1])]


# Other representations of the same values. True: the buffer of the values is shared.
CASTS = [
    ("data", pa.large_binary(), True),
    ("data", pa.binary_view(), True),
    ("subject", pa.large_string(), True),
    ("subject", pa.string_view(), True),
    ("subject", pa.binary(), True),
    ("stream", pa.dictionary(pa.int32(), pa.string()), False),
    ("headers", pa.map_(pa.large_string(), pa.list_(pa.large_string())), True),
    ("timestamp", pa.timestamp("us", "UTC"), False),
    ("timestamp", pa.timestamp("ns", "Europe/Berlin"), True),
    ("timestamp", pa.int64(), True),
]


@pytest.mark.parametrize(("name", "kind", "shared"), CASTS, ids=lambda value: str(value).replace(" ", ""))
def test_another_representation_on_request(batch: MessageBatch, name: str, kind: pa.DataType, shared: bool) -> None:
    plain = pa.record_batch(batch)
    fields = with_type(batch, name, kind)
    asked = requested(batch, fields)
    assert asked.schema == pa.schema(fields)
    asked.validate(full=True)
    expected = plain[name].to_pylist()
    if name == "timestamp":
        # Compared as integers: Python's datetime has no nanoseconds.
        divisor = 1_000 if kind == pa.timestamp("us", "UTC") else 1
        numbers = plain[name].cast(pa.int64()).to_pylist()
        assert asked[name].cast(pa.int64()).to_pylist() == [number // divisor for number in numbers]
    elif name == "subject" and kind == pa.binary():
        assert asked[name].to_pylist() == [value.encode() for value in expected]
    else:
        assert asked[name].to_pylist() == expected
    if shared:
        assert addresses(asked[name])[-1] == addresses(plain[name])[-1]
    others = [other for other in COLUMNS if other != name]
    assert len(others) == len(COLUMNS) - 1
    for other in others:
        assert addresses(asked[other]) == addresses(plain[other]), other
    # pyarrow passes its `schema` on as the requested schema.
    assert pa.record_batch(batch, schema=pa.schema(fields)).equals(asked)


def test_reader_exports_the_requested_types(sync_js: jetarrow.sync.JetStream, filled: str) -> None:
    fields = [pa.field("data", pa.large_binary(), nullable=False), pa.field("seq", pa.int64(), nullable=False)]
    # Requested in another order: columns are matched by name.
    reader = sync_js.read(filled, columns=["seq", "data"], batch_rows=300)
    stream = pa.RecordBatchReader._import_from_c_capsule(reader.__arrow_c_stream__(capsule(fields)))
    assert stream.schema == pa.schema(fields)
    batches = list(stream)
    assert [len(rows) for rows in batches] == [300, 300, 300, 100]
    assert [value for rows in batches for value in rows["data"].to_pylist()] == PAYLOADS
    assert [value for rows in batches for value in rows["seq"].to_pylist()] == list(range(1, ROWS + 1))


def test_columns_in_another_order(batch: MessageBatch) -> None:
    plain = pa.record_batch(batch)
    asked = requested(batch, list(batch.schema)[::-1])
    assert asked.schema.names == COLUMNS[::-1]
    for name in COLUMNS:
        assert addresses(asked[name]) == addresses(plain[name]), name


def test_requests_for_other_columns_or_values_are_ignored(batch: MessageBatch) -> None:
    """A requested schema selects types, not columns: any other request is ignored."""
    fields = list(batch.schema)
    for wrong in (
        fields[:2],
        [*fields, pa.field("more", pa.int32())],
        with_type(batch, "data", pa.int64()),
        with_type(batch, "data", pa.list_(pa.int8())),
        # Values that do not fit would have to become null: pyarrow casts them itself, and raises.
        with_type(batch, "data", pa.string()),
        with_type(batch, "seq", pa.int8()),
    ):
        assert requested(batch, wrong).schema == batch.schema
    with pytest.raises(ValueError, match="field names"):
        pa.record_batch(batch, schema=pa.schema(fields[:2]))
    with pytest.raises(TypeError):
        batch.__arrow_c_array__(object())


@pytest.mark.parametrize(("name", "kind"), [("data", pa.string()), ("seq", pa.int8())], ids=str)
def test_a_value_that_does_not_fit_is_an_error(
    sync_js: jetarrow.sync.JetStream, filled: str, subject: str, name: str, kind: pa.DataType
) -> None:
    sync_js.publish(subject, b"\xff\xfe")
    batch = next(sync_js.read(filled))
    with pytest.raises(pa.ArrowInvalid):
        pa.record_batch(batch, schema=pa.schema(with_type(batch, name, kind, nullable=True)))


@pytest.mark.parametrize("unit", ["ns", "us"])
def test_timestamps_in_nanoseconds_or_microseconds(
    sync_js: jetarrow.sync.JetStream, filled: str, unit: Literal["ns", "us"]
) -> None:
    batch = next(sync_js.read(filled, timestamp_unit=unit))
    assert batch.schema.field("timestamp").type == pa.timestamp(unit, "UTC")
    assert pl.DataFrame(batch).schema["timestamp"] == pl.Datetime(unit, "UTC")
    nanos = next(sync_js.read(filled, columns=["timestamp"])).to_pyarrow()[0].cast(pa.int64()).to_pylist()
    divisor = 1 if unit == "ns" else 1_000
    assert len(nanos) == ROWS
    assert batch.to_pyarrow()["timestamp"].cast(pa.int64()).to_pylist() == [number // divisor for number in nanos]
    # The other unit on request: truncated digits are zero.
    other, factor = ("us", 1) if unit == "ns" else ("ns", 1_000)
    asked = requested(batch, with_type(batch, "timestamp", pa.timestamp(other, "UTC")))
    assert asked["timestamp"].cast(pa.int64()).to_pylist() == [number // 1_000 * factor for number in nanos]


def test_absent_headers_take_less_than_5_bytes_per_row(sync_js: jetarrow.sync.JetStream, filled: str) -> None:
    without = pa.record_batch(next(sync_js.read(filled, end_seq=ROWS)))
    assert without["headers"].null_count == len(without) == ROWS - 1
    # An offset and a validity bit for each row.
    assert without["headers"].get_total_buffer_size() < 5 * ROWS
    assert "headers" not in next(sync_js.read(filled, columns=["seq", "data"])).schema.names
    some = pa.record_batch(next(sync_js.read(filled, columns=["headers"], start_seq=ROWS - 1)))
    assert some.schema == pa.schema([pa.field("headers", HEADERS)])
    assert some["headers"].to_pylist() == [None, [("H", ["1", "2"])]]


async def test_all_columns_have_the_types_of_the_documentation(js: JetStreamContext, filled: str) -> None:
    read = await anext(js.read(filled, columns=ALL))
    sub = await js.pull_subscribe(f"{filled}.>")
    fetched = await sub.fetch_batch(ROWS, columns=ALL)
    text, whole = pa.string(), pa.int64()
    kinds = dict(zip(ALL, [text, whole, text, pa.timestamp("ns", "UTC"), HEADERS, pa.binary()], strict=False))
    kinds |= {"delivered": whole, "consumer_seq": whole, "pending": whole, "reply": text}
    nullable = {"headers", "reply"}
    expected = pa.schema([pa.field(name, kind, nullable=name in nullable) for name, kind in kinds.items()])
    assert read.schema == fetched.schema == expected
    assert expected.names == ALL
    assert len(fetched) == len(read) == ROWS
