"""Conversions, schemas and errors of a reader."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import jetarrow
import jetarrow.sync
import polars
import pyarrow as pa
import pytest
from jetarrow import errors
from jetarrow.js import errors as js_errors
from jetarrow.js.api import StreamConfig
from jetarrow.js.client import JetStreamContext

from .tools import fill, fill_sync, in_threads, wait_until

ROWS = [{"id": 1, "name": "a", "size": 1.5}, {"id": 2, "name": "b", "size": 2, "tags": ["x"]}, {"id": "no"}]


@pytest.fixture
def rows(sync_js: jetarrow.sync.JetStream, stream: str) -> str:
    sync_js.publish_batch(f"{stream}.a", [json.dumps(row) for row in ROWS]).raise_for_errors()
    return stream


def test_reader_at_its_end_raises_error(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 10)
    reader = sync_js.read(stream)
    assert reader.read_all().num_rows == 10
    for again in (reader.read_all, lambda: list(reader), lambda: pa.table(reader), reader.to_polars):
        with pytest.raises(errors.Error, match=r"at its end; create a new one with js.read\(...\)"):
            again()
    reader = sync_js.read(stream, batch_rows=3)
    assert len(next(iter(reader))) == 3
    assert sum(map(len, reader)) == 7
    with pytest.raises(errors.Error, match="this reader is at its end"):
        list(reader)
    # As for every iterator: it remains at its end.
    assert next(reader, None) is None
    reader = sync_js.read(stream)
    assert pa.table(reader).num_rows == 10
    with pytest.raises(errors.Error, match="this reader is at its end"):
        pa.table(reader)


async def test_async_reader_at_its_end_raises_error(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 10)
    reader = js.read(stream)
    assert [len(batch) async for batch in reader] == [10]
    with pytest.raises(errors.Error, match="this reader is at its end"):
        [batch async for batch in reader]
    with pytest.raises(errors.Error, match="this reader is at its end"):
        await reader.read_all()


def test_reader_converts_to_other_libraries(sync_js: jetarrow.sync.JetStream, rows: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    frame = sync_js.read(rows).to_polars()
    assert (frame.height, frame.columns) == (3, ["stream", "seq", "subject", "timestamp", "headers", "data"])
    assert sync_js.read(rows, start_seq=4).to_polars().schema == frame.schema
    assert sync_js.read(rows).to_pandas()["seq"].tolist() == [1, 2, 3]
    relation = sync_js.read(rows).to_duckdb()
    assert relation.query("rows", "select sum(seq) from rows").fetchall() == [(6,)]
    own = duckdb.connect()
    assert sync_js.read(rows).to_duckdb(own).query("rows", "select count(*) from rows").fetchall() == [(3,)]


async def test_async_reader_converts_to_other_libraries(js: JetStreamContext, rows: str) -> None:
    assert (await js.read(rows).to_polars()).height == 3
    assert len(await js.read(rows).to_pandas()) == 3


def test_headers_in_polars_are_map_or_structs(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    """As documented at `to_polars`: a map, or a list of structs of key and value."""
    sync_js.publish_batch(f"{stream}.a", [b"1"], headers={"H": ["1", "2"]}).raise_for_errors()
    frame = sync_js.read(stream).to_polars()
    if hasattr(polars, "Map"):
        assert frame.schema["headers"] == polars.Map(polars.String, polars.List(polars.String))
    else:
        kind = polars.List(polars.Struct({"key": polars.String, "value": polars.List(polars.String)}))
        assert frame.schema["headers"] == kind


def test_flatten_makes_fields_columns(sync_js: jetarrow.sync.JetStream, rows: str) -> None:
    table = sync_js.read(rows, schema="id BIGINT, name STRING", flatten=True, columns=["seq", "value"]).read_all()
    assert table.schema.names == ["seq", "id", "name", "_corrupt_record", "_error"]
    assert table.column("id").to_pylist() == [1, 2, None]
    assert table.column("_error").to_pylist() == [None, None, "id: expected an integer, found a string"]
    with pytest.raises(ValueError, match='two columns "seq"'):
        sync_js.read(rows, schema="seq BIGINT", flatten=True)
    with pytest.raises(ValueError, match="give schema= as well"):
        sync_js.read(rows, flatten=True)
    # Not nullable in the schema, and null if the row is malformed.
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    table = sync_js.read(rows, schema=strict, flatten=True).read_all()
    assert table.column("id").to_pylist() == [1, 2, None]
    assert table.schema.field("id").nullable
    table.validate(full=True)


def test_malformed_row_has_error_column(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    texts = [b'{"a": {"b": ["x"]}}', b"{", b'{"a": {"b": [1]}}', b"\xff"]
    sync_js.publish_batch(f"{stream}.a", texts).raise_for_errors()
    table = sync_js.read(stream, schema={"a": {"b": [int]}}).read_all()
    first, second, third, fourth = table.column("_error").to_pylist()
    assert first == "a.b[]: expected an integer, found a string"
    assert second.startswith("not JSON")
    assert (third, fourth) == (None, "not UTF-8")
    dropped = sync_js.read(stream, schema={"a": {"b": [int]}}, mode="DROPMALFORMED").read_all()
    assert "_error" not in dropped.schema.names


@pytest.mark.parametrize("most", [1, 5, 7, 100])
@pytest.mark.parametrize("batch_rows", [3, 65536])
def test_limit_ends_read_after_rows(sync_js: jetarrow.sync.JetStream, stream: str, most: int, batch_rows: int) -> None:
    fill_sync(sync_js, stream, 20)
    reader = sync_js.read(stream, limit=most, batch_rows=batch_rows)
    assert reader.read_all().column("seq").to_pylist() == list(range(1, min(most, 20) + 1))
    assert reader.position == min(most, 20) + 1
    assert pa.table(sync_js.read(stream, limit=most, batch_rows=batch_rows)).num_rows == min(most, 20)
    with pytest.raises(ValueError, match="limit must be 1 or more"):
        sync_js.read(stream, limit=0)


def test_limit_counts_returned_rows(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    payloads = [b'{"id": 1}', b"broken"] * 10
    sync_js.publish_batch(f"{stream}.a", payloads).raise_for_errors()
    read = sync_js.read(stream, schema="id INT", mode="DROPMALFORMED", limit=7)
    assert read.read_all().column("seq").to_pylist() == [1, 3, 5, 7, 9, 11, 13]


def test_limit_ends_following_read(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 20)
    assert sum(map(len, sync_js.read(stream, limit=7, follow=True))) == 7


def test_relative_times_count_back_from_now(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 3)
    for start in (timedelta(hours=1), "1h", "1h30m", "2d", "1.5h"):
        assert sync_js.read(stream, start_time=start).read_all().num_rows == 3
        assert sync_js.read(stream, end_time=start).read_all().num_rows == 0
    with pytest.raises(ValueError, match="'1 hour' is not a time"):
        sync_js.read(stream, start_time="1 hour")
    assert sync_js.read(stream, start_time=datetime.now(UTC) - timedelta(hours=1)).read_all().num_rows == 3


DDL = {
    "id BIGINT, name STRING": [("id", pa.int64()), ("name", pa.string())],
    "a int, b: Double,c boolean": [("a", pa.int32()), ("b", pa.float64()), ("c", pa.bool_())],
    "at TIMESTAMP, d DATE, n DECIMAL(10, 2)": [
        ("at", pa.timestamp("us", "UTC")),
        ("d", pa.date32()),
        ("n", pa.decimal128(10, 2)),
    ],
    "s STRUCT<a: INT, b: ARRAY<STRING>>, m MAP<STRING, DOUBLE>": [
        ("s", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("m", pa.map_(pa.string(), pa.float64())),
    ],
    "`odd name` VARCHAR(10), n DECIMAL": [("odd name", pa.string()), ("n", pa.decimal128(10, 0))],
}


@pytest.mark.parametrize("text", DDL)
def test_schema_accepts_ddl_text(sync_js: jetarrow.sync.JetStream, rows: str, text: str) -> None:
    found = sync_js.read(rows, schema=text).schema.field("value").type
    assert found == pa.struct(DDL[text])


def test_ddl_not_null_makes_field_required(sync_js: jetarrow.sync.JetStream, rows: str) -> None:
    found = sync_js.read(rows, schema="id BIGINT NOT NULL").schema.field("value").type
    assert not found.field("id").nullable


@pytest.mark.parametrize(
    "text", ["id", "id BIGINT,", "id NUMBER", "id BIGINT name STRING", "id ARRAY<INT", "", "id INT; x"]
)
def test_invalid_ddl_raises_value_error(sync_js: jetarrow.sync.JetStream, rows: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"^schema: .*id BIGINT, name STRING"):
        sync_js.read(rows, schema=text)


def test_schema_accepts_dict_of_types(sync_js: jetarrow.sync.JetStream, rows: str) -> None:
    given: Any = {"id": int, "name": "string", "at": datetime, "in": {"x": [float]}, "raw": pa.int16()}
    found = sync_js.read(rows, schema=given).schema.field("value").type
    assert found == pa.struct(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("at", pa.timestamp("us", "UTC")),
            ("in", pa.struct([("x", pa.list_(pa.float64()))])),
            ("raw", pa.int16()),
        ]
    )
    wrong: Any = {"id": complex}
    with pytest.raises(ValueError, match=r"complex.* is not a type"):
        sync_js.read(rows, schema=wrong)


@pytest.mark.parametrize("how", ["read_all", "for", "stream"])
def test_schema_is_inferred_from_payloads(
    sync_js: jetarrow.sync.JetStream, stream: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jetarrow")
    payloads = [json.dumps(row) for row in ROWS[:2]] + ["broken"]
    sync_js.publish_batch(f"{stream}.a", payloads).raise_for_errors()
    reader = sync_js.read(stream, schema="infer", flatten=True)
    table = {
        "read_all": reader.read_all,
        "for": lambda: pa.Table.from_batches([batch.to_pyarrow() for batch in reader]),
        "stream": lambda: pa.table(reader),
    }[how]()
    assert table.column("size").to_pylist() == [1.5, 2.0, None]
    assert table.column("tags").to_pylist() == [None, ["x"], None]
    assert table.column("id").to_pylist() == [1, 2, None]
    assert reader.inferred is not None
    assert reader.inferred.names == ["id", "name", "size", "tags"]
    assert "id: int64, name: string, size: double, tags: list<item: string>" in caplog.text


async def test_async_reader_infers_schema(js: JetStreamContext, rows: str) -> None:
    table = await js.read(rows, schema="infer").read_all()
    # A number and a text: the common type is a text, and rows with numbers are malformed.
    assert table.column("_error").to_pylist()[0] == "id: expected a string, found a number"


def test_infer_without_objects_raises_value_error(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 3)
    with pytest.raises(ValueError, match="no sampled payload is a JSON object"):
        sync_js.read(stream, schema="infer").read_all()


@pytest.mark.parametrize("how", ["read_all", "for"])
def test_missing_stream_is_named_with_suggestion(sync_js: jetarrow.sync.JetStream, stream: str, how: str) -> None:
    reader = sync_js.read(stream.lower()[:-1])
    with pytest.raises(js_errors.NotFoundError) as caught:
        reader.read_all() if how == "read_all" else next(reader)
    assert f"stream {stream.lower()[:-1]!r} does not exist; did you mean {stream!r}?" in str(caught.value)
    assert caught.value.err_code == 10059


async def test_async_reader_names_missing_stream(js: JetStreamContext, stream: str) -> None:
    with pytest.raises(js_errors.NotFoundError, match=f"did you mean '{stream}'"):
        await js.read(stream + "S").read_all()
    # While the thread of the loop is blocked, no other request can be made.
    with pytest.raises(js_errors.NotFoundError, match=f"stream '{stream}S' does not exist"):
        next(js.read(stream + "S"))


def test_reader_rejects_second_thread(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    reader = sync_js.read(stream, follow=True)
    thread = threading.Thread(target=next, args=(reader, None))
    thread.start()
    try:
        wait_until(lambda: reader._inner._single_thread._inside)
        with pytest.raises(errors.Error, match="another thread reads from this reader"):
            next(reader)
    finally:
        wait_until(lambda: reader._inner._native)
        reader.close()
        thread.join()


def test_batch_and_reader_cannot_be_pickled(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 3)
    batch = sync_js.pull_subscribe(f"{stream}.>").fetch_batch(3)
    for live, text in (
        (batch, r"send batch.to_pyarrow\(\)"),
        (sync_js.read(stream), "could not pickle or copy a Reader"),
    ):
        with pytest.raises(TypeError, match=text):
            pickle.dumps(live)
        with pytest.raises(TypeError, match=text):
            copy.copy(live)
    assert pickle.loads(pickle.dumps(batch.to_pyarrow())).num_rows == 3


def test_acks_accept_numpy_masks_and_numbers(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    numpy = pytest.importorskip("numpy")
    fill_sync(sync_js, stream, 6)
    sub = sync_js.pull_subscribe(f"{stream}.>", durable="d")
    batch = sub.fetch_batch(6)
    batch.ack_sync(rows=numpy.array([True, False] * 3))
    assert sub.consumer_info().num_ack_pending == 3
    batch.ack_sync(rows=numpy.array([1, 3]))
    assert sub.consumer_info().num_ack_pending == 1
    batch.ack_sync(rows=list(numpy.array([False, False, False, False, False, True])))
    assert sub.consumer_info().num_ack_pending == 0
    with pytest.raises(ValueError, match="the mask has 2 entries"):
        batch.ack(rows=numpy.array([True, False]))


def test_subjects_accept_single_string(own_sync: jetarrow.sync.JetStream) -> None:
    given: Any = "one.>"
    assert own_sync.add_stream(name="ONE", subjects=given).config.subjects == ["one.>"]
    assert own_sync.add_stream(StreamConfig(name="TWO", subjects="two.>")).config.subjects == ["two.>"]  # type: ignore[arg-type]
    assert own_sync.update_stream(name="ONE", subjects="three.>").config.subjects == ["three.>"]  # type: ignore[arg-type]


def test_publisher_after_its_block_raises_error(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    with sync_js.publisher(f"{stream}.a") as publisher:
        publisher.publish(b"1")
    assert publisher.stats.stored == 1
    with pytest.raises(errors.Error, match="the block of this publisher has ended"):
        publisher.publish(b"2")


async def test_async_publisher_after_its_block_raises_error(js: JetStreamContext, stream: str) -> None:
    async with js.publisher(f"{stream}.a") as publisher:
        await publisher.publish(b"1")
    with pytest.raises(errors.Error, match="the block of this publisher has ended"):
        await publisher.publish(b"2")


def test_missing_pyarrow_error_has_install_command(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str
) -> None:
    fill_sync(sync_js, stream, 3)
    program = """
import sys
sys.modules["pyarrow"] = None
import jetarrow.sync
with jetarrow.sync.connect(sys.argv[1]) as nc:
    js = nc.jetstream()
    sub = js.pull_subscribe(sys.argv[2] + ".>")
    batch = sub.fetch_batch(3)
    assert len(batch) == 3 and batch[0].data == b"1"
    assert len(list(js.read(sys.argv[2]))) == 1
    for call in (js.read(sys.argv[2]).read_all, batch.to_pyarrow, js.read(sys.argv[2]).to_pandas):
        try:
            call()
        except jetarrow.errors.UnsupportedError as error:
            print(error)
"""
    done = subprocess.run([sys.executable, "-c", program, nats_url, stream], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == 3
    assert all(line.endswith('needs pyarrow: pip install "jetarrow[arrow]"') for line in said), said


def test_threads_read_with_separate_readers(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 100)
    sizes: list[int] = []
    in_threads(lambda number: sizes.append(sync_js.read(stream).read_all().num_rows), 4)
    assert sizes == [100] * 4
