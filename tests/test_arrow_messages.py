"""Tables as Arrow messages: `publish_table(format="arrow")`, read with `js.read` and `js.latest`.

Random tables: tests/test_table_round_trip.py.
"""

from __future__ import annotations

import datetime
import io
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jetarrow import errors
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import BatchError

NANOS = pa.timestamp("ns", "UTC")
# Types, each with a function that makes a random value.
TYPES: list[tuple[pa.DataType, Any]] = [
    (pa.bool_(), lambda r: r.random() < 0.5),
    (pa.int8(), lambda r: r.randint(-128, 127)),
    (pa.uint64(), lambda r: r.getrandbits(64)),
    (pa.int64(), lambda r: r.randint(-(2**63), 2**63 - 1)),
    (pa.float16(), lambda r: float(r.randint(-100, 100))),
    (pa.float32(), lambda r: r.randint(-1000, 1000) / 8),
    (pa.float64(), lambda r: r.choice([r.random(), float("inf"), -0.0, 1e-300])),
    (pa.decimal128(20, 4), lambda r: Decimal(r.randint(-(10**9), 10**9)) / 10000),
    (pa.decimal256(60, 0), lambda r: Decimal(r.randint(-(10**40), 10**40))),
    (pa.string(), lambda r: "".join(r.choices("aé€𝄞 \n\"'", k=r.randint(0, 6)))),
    (pa.large_string(), lambda r: "x" * r.randint(0, 5)),
    (pa.string_view(), lambda r: "view" * r.randint(0, 5)),
    (pa.binary(), lambda r: r.randbytes(r.randint(0, 5))),
    (pa.binary(3), lambda r: r.randbytes(3)),
    (pa.date32(), lambda r: datetime.date.fromordinal(r.randint(1, 3652059))),
    (pa.time64("us"), lambda r: datetime.time(r.randint(0, 23), 1, 2, r.randint(0, 999999))),
    (NANOS, lambda r: r.randint(-(2**62), 2**62)),
    (pa.timestamp("ms"), lambda r: datetime.datetime(1, 1, 1) + datetime.timedelta(days=r.randint(0, 3_000_000))),
    (pa.duration("s"), lambda r: datetime.timedelta(seconds=r.randint(-(10**6), 10**6))),
    (pa.month_day_nano_interval(), lambda r: pa.MonthDayNano([r.randint(0, 9), 2, 3])),
    (pa.null(), lambda r: None),
    (pa.list_(pa.int32()), lambda r: [r.choice([None, 1, 2]) for _ in range(r.randint(0, 3))]),
    (pa.list_(pa.int32(), 2), lambda r: [r.randint(0, 9), None]),
    (pa.large_list(pa.string()), lambda r: ["a"] * r.randint(0, 3)),
    (pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())}), lambda r: {"a": r.randint(0, 9), "b": [None, "b"]}),
    (pa.map_(pa.string(), pa.int32()), lambda r: [(str(n), n) for n in range(r.randint(0, 3))]),
    (pa.dictionary(pa.int32(), pa.string()), lambda r: r.choice("abc")),
]


def all_types() -> pa.Table:
    chance = random.Random(1)
    return pa.table({f"c{n}": pa.array([value(chance), None, value(chance)], t) for n, (t, value) in enumerate(TYPES)})


@pytest.mark.parametrize("compression", ["zstd", "lz4", None])
async def test_every_type_survives_a_round_trip(js: JetStreamContext, stream: str, compression: Any) -> None:
    table = all_types()
    result = await js.publish_table(table, f"{stream}.a", format="arrow", compression=compression)
    assert (result.count, result.stored, result.errors) == (1, 1, [])
    message = await js.get_msg(stream, 1)
    assert message.headers == {"Content-Type": "application/vnd.apache.arrow.stream"}
    # Any other reader of Arrow streams sees the same table.
    assert pa.ipc.open_stream(message.data).read_all().equals(table)
    reader = js.read(stream, format="arrow", mode="FAILFAST")
    assert (await reader.read_all()).equals(table)
    assert reader.inferred == table.schema


async def test_columns_of_the_messages(js: JetStreamContext, stream: str) -> None:
    table = pa.table({"region": ["eu", "us", "eu", "us", "eu"], "id": [1, 2, 3, 4, 5]})
    result = await js.publish_table(table, f"{stream}.{{region}}", format="arrow", rows_per_message=2)
    assert (result.count, result.stored) == (3, 3)
    read = await js.read(stream, format="arrow", columns=["seq", "subject"], mode="DROPMALFORMED").read_all()
    assert read.schema.names == ["seq", "subject", "region", "id"]
    assert read["id"].to_pylist() == [1, 3, 5, 2, 4]
    assert read["seq"].to_pylist() == [1, 1, 2, 3, 3]
    assert read["subject"].to_pylist() == [f"{stream}.eu"] * 3 + [f"{stream}.us"] * 2
    read = await js.read(stream, format="arrow", columns=["value", "seq"], mode="DROPMALFORMED").read_all()
    assert read.schema.names == ["region", "id", "seq"]
    last = await js.latest(stream, format="arrow", columns=["seq"]).read_all()
    assert last.select(["seq", "id"]).to_pydict() == {"seq": [2, 3, 3], "id": [5, 2, 4]}
    limited = js.read(stream, format="arrow", limit=3)
    assert (await limited.read_all())["id"].to_pylist() == [1, 3, 5]
    assert (await js.read(stream, format="arrow", limit=1).read_all())["id"].to_pylist() == [1]


async def test_reader_of_small_batches_is_published_completely(js: JetStreamContext, stream: str) -> None:
    frame = pl.DataFrame({"id": range(50_000), "name": ["x"] * 50_000})
    table = frame.to_arrow()
    pieces = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=777))
    result = await js.publish_table(pieces, f"{stream}.a", format="arrow", columns=["id"])
    assert result.stored == 5
    read = await js.read(stream, format="arrow").to_polars()
    assert read["id"].to_list() == list(range(50_000))
    # As JSON, one message per row: every block is read exactly once.
    pieces = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=777))
    assert (await js.publish_table(pieces, f"{stream}.b")).stored == 50_000


async def test_messages_are_split_to_fit_max_payload(js: JetStreamContext, stream: str) -> None:
    chance = random.Random(3)
    table = pa.table({"id": range(3000), "noise": [chance.randbytes(1500) for _ in range(3000)]})
    result = await js.publish_table(table, f"{stream}.a", format="arrow", headers={"A": "x" * 1000})
    assert result.errors == []
    assert 5 <= result.count <= 20
    assert (await js.read(stream, format="arrow", mode="FAILFAST").read_all()).equals(table)
    big = pa.table({"id": [1, 2, 3], "noise": [b"", chance.randbytes(2_000_000), b""]})
    result = await js.publish_table(big, f"{stream}.b", format="arrow")
    assert [(error.row, "row 1: " in str(error.error)) for error in result.errors] == [(1, True)]
    read = await js.read(stream, subjects=f"{stream}.b", format="arrow").read_all()
    assert read["id"].to_pylist() == [1, 3]


async def test_rows_without_a_subject(js: JetStreamContext, stream: str) -> None:
    table = pa.table({"region": ["eu", None, "a.b", "eu"], "id": [1, 2, 3, 4]})
    result = await js.publish_table(table, f"{stream}.{{region}}", format="arrow")
    assert (result.stored, len(result.errors)) == (1, 2)
    assert [(error.row, f"row {error.row}: " in str(error.error)) for error in result.errors] == [(1, True), (2, True)]
    assert (await js.read(stream, format="arrow").read_all())["id"].to_pylist() == [1, 4]


@pytest.mark.parametrize("resume", [False, True])
async def test_a_refused_message_is_an_error_of_each_of_its_rows(
    js: JetStreamContext, stream: str, tmp_path: Path, resume: bool
) -> None:
    info = await js.stream_info(stream)
    await js.update_stream(info.config.evolve(max_msg_size=20_000))
    chance = random.Random(5)
    table = pa.table(
        {
            "region": ["eu", "us"] * 50,
            "id": range(100),
            "noise": [chance.randbytes(1_000 * (n % 2)) for n in range(100)],
        }
    )
    options: Any = {"format": "arrow", "rows_per_message": 25, "resume": tmp_path / "position" if resume else None}
    result = await js.publish_table(table, f"{stream}.{{region}}", **options)
    # Two messages of each region; those with the noise are too large for the stream.
    assert (result.count, result.stored) == (4, 2)
    assert [error.row for error in result.errors] == list(range(1, 100, 2))
    with pytest.raises(BatchError, match=r"nats: 50 rows were not stored; the first is row 1: ") as caught:
        result.raise_for_errors()
    assert caught.value.row == 1
    assert (await js.read(stream, format="arrow").read_all())["id"].to_pylist() == list(range(0, 100, 2))


async def test_an_atomic_batch_of_arrow_messages_names_the_row(js: JetStreamContext, stream: str) -> None:
    info = await js.stream_info(stream)
    await js.update_stream(info.config.evolve(allow_atomic=True))
    with pytest.raises(BatchError, match="row 70") as caught:
        rows = pa.table({"region": [*["eu"] * 70, "a.b", *["eu"] * 9], "id": range(80)})
        await js.publish_table(rows, f"{stream}.{{region}}", format="arrow", mode="atomic")
    assert caught.value.row == 70


async def test_content_ids_and_modes(js: JetStreamContext, stream: str) -> None:
    await js.update_stream((await js.stream_info(stream)).config.evolve(allow_atomic=True, allow_batched=True))
    table = pa.table({"id": range(100)})
    options: Any = {"format": "arrow", "rows_per_message": 10, "msg_id": "content"}
    assert (await js.publish_table(table, f"{stream}.a", **options)).stored == 10
    assert (await js.publish_table(table, f"{stream}.a", **options)).duplicates == 10
    for mode in ("fast", "atomic", "auto"):
        result = await js.publish_table(table, f"{stream}.{mode}", format="arrow", mode=mode)
        assert result.stored == 1
    assert (await js.read(stream, format="arrow").read_all()).num_rows == 400


async def test_malformed_messages_by_mode(js: JetStreamContext, stream: str) -> None:
    await js.publish_table(pa.table({"id": [1, 2]}), f"{stream}.a", format="arrow")
    await js.publish(f"{stream}.a", b'{"id": 3}')
    await js.publish_table(pa.table({"id": ["4"]}), f"{stream}.a", format="arrow")
    await js.publish_table(pa.table({"id": [5], "more": [6]}), f"{stream}.a", format="arrow")
    read = await js.read(stream, format="arrow", columns=["seq"]).read_all()
    assert read["id"].to_pylist() == [1, 2, None, None, 5]
    assert read["seq"].to_pylist() == [1, 1, 2, 3, 4]
    assert read["_corrupt_record"].to_pylist()[:3] == [None, None, '{"id": 3}']
    assert read["_error"].to_pylist()[2:4] == ["not an Arrow stream", 'column "id" is of type Utf8, not Int64']
    read = await js.read(stream, format="arrow", mode="DROPMALFORMED").read_all()
    assert read.to_pydict() == {"id": [1, 2, 5]}
    with pytest.raises(js_errors.DecodeError) as info:
        await js.read(stream, format="arrow", mode="FAILFAST").read_all()
    assert info.value.seq == 2


async def test_the_schema_is_that_of_the_first_message_that_has_one(js: JetStreamContext, stream: str) -> None:
    assert (await js.read(stream, format="arrow", mode="FAILFAST").read_all()).schema.names == []
    await js.publish(f"{stream}.a", b"text")
    assert (await js.read(stream, format="arrow").read_all()).to_pydict()["_corrupt_record"] == ["text"]
    await js.publish_table(pa.table({"id": [1]}), f"{stream}.a", format="arrow")
    assert (await js.read(stream, format="arrow", mode="DROPMALFORMED").read_all()).to_pydict() == {"id": [1]}
    given = await js.read(stream, format="arrow", schema="id BIGINT", mode="DROPMALFORMED").read_all()
    assert given.to_pydict() == {"id": [1]}


async def test_decompression_bomb_is_malformed(js: JetStreamContext, stream: str) -> None:
    """A message of a few hundred bytes that declares a tebibyte of data is malformed."""
    sink = io.BytesIO()
    table = pa.table({"id": pa.array([0] * 200_000, pa.int64())})
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    bomb = sink.getvalue().replace((1_600_000).to_bytes(8, "little"), (1 << 40).to_bytes(8, "little"))
    assert len(bomb) < 1000
    await js.publish(f"{stream}.a", bomb)
    read = await js.read(stream, format="arrow", schema={"id": int}).read_all()
    assert read["_error"].to_pylist() == ["the Arrow stream is wrong about its lengths"]


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"format": "xml"}, ValueError, "format must be one of json, arrow, avro"),
        ({"format": "arrow", "compression": "gzip"}, ValueError, "compression must be 'zstd', 'lz4' or None"),
        ({"format": "arrow", "rows_per_message": 0}, ValueError, "rows_per_message"),
        ({"format": "arrow", "msg_id": "id"}, ValueError, '"content" or None'),
        ({"format": "arrow", "msg_id": "nope"}, ValueError, 'no column "nope"'),
        ({"format": "arrow", "columns": []}, ValueError, "at least one"),
        ({"format": "arrow", "subject": "a.{nope}"}, ValueError, 'no column "nope"'),
        ({"format": "arrow", "subject": "a.*"}, errors.BadSubjectError, "wildcard"),
    ],
)
async def test_invalid_options_raise_before_anything_is_sent(
    js: JetStreamContext, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        await js.publish_table(pa.table({"id": [1]}), **{"subject": "a", **options})


async def test_two_columns_of_one_name(js: JetStreamContext, stream: str) -> None:
    await js.publish_table(pa.table({"seq": [7], "id": [1]}), f"{stream}.a", format="arrow")
    with pytest.raises(ValueError, match='two columns "seq"'):
        await js.read(stream, format="arrow", columns=["seq"]).read_all()
    read = js.read(stream, format="arrow", columns=["seq"], schema="id BIGINT", mode="DROPMALFORMED")
    assert (await read.read_all()).to_pydict() == {"seq": [1], "id": [1]}
    with pytest.raises(ValueError, match="format must be one of"):
        js.read(stream, format="csv")  # type: ignore[arg-type]


async def test_into_parquet(js: JetStreamContext, stream: str, tmp_path: Any) -> None:
    """The batches of a reader can be written to a Parquet file."""
    await js.publish_table(pa.table({"id": range(1000)}), f"{stream}.a", format="arrow", rows_per_message=10)
    async with js.read(stream, format="arrow", batch_rows=100, mode="DROPMALFORMED") as reader:
        table = pa.Table.from_batches([batch.to_pyarrow() async for batch in reader])
    assert [len(batch) for batch in table.to_batches()] == [100] * 10
    pq.write_table(table, tmp_path / "ids.parquet")
    assert pq.read_table(tmp_path / "ids.parquet")["id"].to_pylist() == list(range(1000))
