"""`publish_table`, and `js.read` of the published tables."""

from __future__ import annotations

import ast
import datetime
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import jetarrow
import jetarrow.sync
import polars as pl
import pyarrow as pa
import pytest
from jetarrow import errors
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import BatchError

UTC = datetime.UTC
MOMENT = datetime.datetime(2026, 11, 22, 3, 4, 5, 678901, tzinfo=UTC)
TABLE = pa.table(
    {
        "id": pa.array([-(2**63), 2**63 - 1, None]),
        "big": pa.array([2**64 - 1, 0, None], pa.uint64()),
        "x": pa.array([0.1, -1e300, None]),
        "half": pa.array([0.5, 65504.0, None], pa.float16()),
        "price": pa.array([Decimal("12.340"), Decimal("-0.001"), None], pa.decimal128(10, 3)),
        "name": pa.array(['quotes " and \\ and\nlines', "", None]),
        "raw": pa.array([b"\x00\xff", b"", None]),
        "day": pa.array([datetime.date(1969, 12, 31), datetime.date(9999, 12, 31), None]),
        "at": pa.array([MOMENT, MOMENT, None], pa.timestamp("us", "UTC")),
        "local": pa.array([MOMENT.replace(tzinfo=None)] * 2 + [None], pa.timestamp("ns")),
        "ok": pa.array([True, False, None]),
        "tags": pa.array([["a", None], [], None], pa.list_(pa.string())),
        "more": pa.array([{"a": 1, "b": [1.5]}, {"a": None, "b": None}, {"a": None, "b": None}]),
        "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
    }
)


@pytest.mark.parametrize("nulls", [False, True])
async def test_published_table_is_read_back(js: JetStreamContext, stream: str, nulls: bool) -> None:
    result = await js.publish_table(TABLE, f"{stream}.a", nulls=nulls)
    assert (result.count, result.stored, result.errors) == (3, 3, [])
    read = await js.read(stream, schema=TABLE.schema, mode="FAILFAST").read_all()
    assert pa.Table.from_struct_array(read["value"]).equals(TABLE)


async def test_publish_table_accepts_arrays_and_streams(js: JetStreamContext, stream: str) -> None:
    frame = pl.DataFrame({"id": range(20_000)})
    table = frame.to_arrow()
    pieces = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))
    for number, data in enumerate([frame, table, pieces, table.to_batches()[0]]):
        result = await js.publish_table(data, f"{stream}.{number}")
        assert (result.count, result.stored) == (20_000, 20_000)
        read = await js.read(stream, subjects=f"{stream}.{number}", schema="id BIGINT", flatten=True).read_all()
        assert read["id"].to_pylist() == list(range(20_000))


async def test_subject_template_uses_columns(js: JetStreamContext, stream: str) -> None:
    table = pa.table(
        {
            "region": ["eu", "us", "", "a.b", None, "a b", "*", "us"],
            "day": [datetime.date(2026, 1, 2)] * 8,
            "x": [1.0] * 7 + [float("nan")],
        }
    )
    result = await js.publish_table(table, f"{stream}.{{region}}.{{day}}", columns=["x"])
    assert result.stored == 2
    texts = {error.row: str(error.error) for error in result.errors}
    assert sorted(texts) == [2, 3, 4, 5, 6, 7]
    assert all('"region"' in texts[row] for row in range(2, 7))
    assert '"x"' in texts[7]
    assert "NaN" in texts[7]
    read = await js.read(stream, columns=["subject", "data"]).read_all()
    assert read.to_pylist() == [
        {"subject": f"{stream}.{region}.2026-01-02", "data": b'{"x":1.0}'} for region in ("eu", "us")
    ]


async def test_column_subject_is_used_without_template(js: JetStreamContext, stream: str) -> None:
    table = pa.table({"subject": [f"{stream}.a", "not a subject", None], "v": [1, 2, 3]})
    result = await js.publish_table(table, columns=["v"])
    assert result.stored == 1
    assert [error.row for error in result.errors] == [1, 2]


async def test_msg_id_uses_column_or_content(js: JetStreamContext, stream: str) -> None:
    table = pa.table({"id": pa.array([1, 1, None, 2], pa.int64()), "v": [1, 2, 3, 3]})
    first = await js.publish_table(table, f"{stream}.a", msg_id="id")
    assert (first.stored, first.duplicates) == (3, 1)
    # By content: equal rows have different ids, and all are duplicates when they are published again.
    twice = pa.concat_tables([table.slice(0, 1)] * 2)
    assert (await js.publish_table(twice, f"{stream}.a", msg_id="content")).stored == 2
    assert (await js.publish_table(twice, f"{stream}.a", msg_id="content")).duplicates == 2


@pytest.mark.parametrize("mode", ["window", "fast", "atomic", "auto"])
async def test_publish_table_supports_modes(js: JetStreamContext, stream: str, mode: str) -> None:
    await js.update_stream((await js.stream_info(stream)).config.evolve(allow_atomic=True, allow_batched=True))
    table = pa.table({"v": [1.0, float("inf"), 3.0]})
    if mode == "atomic":
        with pytest.raises(jetarrow.js.errors.BatchError, match=r'row 1.*column "v": NaN and infinities'):
            await js.publish_table(table, f"{stream}.a", mode=mode)
        table = table.filter([True, False, True])
    result = await js.publish_table(table, f"{stream}.a", mode=mode)
    assert result.stored == 2
    assert [error.row for error in result.errors] == ([] if mode == "atomic" else [1])


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"subject": "a.{nope}", "columns": ["v"]}, ValueError, 'no column "nope"; it has v, gap'),
        ({"subject": "a.{v", "columns": ["v"]}, ValueError, "a brace without its other"),
        ({"subject": "a.*.{v}", "columns": ["v"]}, errors.BadSubjectError, "wildcard"),
        ({"columns": ["v"]}, TypeError, "subject is missing"),
        ({"subject": "a", "columns": ["x"]}, ValueError, 'columns: the table has no column "x"'),
        ({"subject": "a", "columns": []}, ValueError, "a payload has at least one"),
        ({"subject": "a", "columns": ["v"], "msg_id": "x"}, ValueError, 'msg_id: the table has no column "x"'),
        ({"subject": "a"}, TypeError, 'column "gap" is Interval'),
        ({"subject": "a", "columns": ["v"], "format": "csv"}, ValueError, "format must be one of json"),
    ],
)
async def test_invalid_arguments_are_rejected_before_sending(
    js: JetStreamContext, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    table = pa.table({"v": [1], "gap": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(kind, match=text.replace("*", r"\*")):
        await js.publish_table(table, **options)


async def test_publish_table_rejects_other_data(js: JetStreamContext) -> None:
    for wrong in ([1, 2], pa.array([1, 2]), "text"):
        with pytest.raises(TypeError, match="table"):
            await js.publish_table(wrong, "a")  # type: ignore[arg-type]


def test_sync_publish_table_reports_progress(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    seen: list[tuple[int, int | None]] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(3):
            yield pa.record_batch({"id": [start]})

    table = pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int64()}), batches())
    result = sync_js.publish_table(table, f"{stream}.a", progress=lambda done, total: seen.append((done, total)))
    result.raise_for_errors()
    assert seen[-1] == (3, 3)


async def test_the_stream_of_a_batch_is_that_of_the_first_row_with_a_subject(own: JetStreamContext) -> None:
    """A question without a subject would find any stream."""
    await own.add_stream(name="A", subjects=["a.>"])
    await own.add_stream(name="S", subjects=["s.>"], allow_atomic=True, allow_batched=True)
    table = pa.table({"region": [None, "eu", "us"], "id": [1, 2, 3]})
    result = await own.publish_table(table, "s.{region}", mode="atomic", chunk=10, on_reject="split")
    assert ([error.row for error in result.errors], result.stored) == ([0], 2)
    with pytest.raises(BatchError, match="row 0"):
        await own.publish_table(table, "s.{region}", mode="atomic")
    assert [error.row for error in (await own.publish_table(table, "s.{region}", mode="fast")).errors] == [0]
    with pytest.raises(ValueError, match="row 0: neither it nor any of the first rows has a subject"):
        await own.publish_table(table.slice(0, 1), "s.{region}", mode="atomic", chunk=10)


async def test_blocks_of_tables_page_run(own: JetStreamContext) -> None:
    """The blocks of docs/tables.md run."""
    await own.add_stream(name="ORDERS", subjects=["orders.>"])
    page = (Path(__file__).parents[1] / "docs" / "tables.md").read_text("utf-8")
    json, resume, arrow = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    async def run(block: str) -> None:
        await eval(compile(block, "tables.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)

    names: dict[str, Any] = {"js": own}
    await run(json)
    assert names["table"].select(names["orders"].column_names).equals(names["orders"])
    assert names["table"]["subject"].to_pylist() == ["orders.eu.1", "orders.us.2", "orders.eu.3"]
    await run(resume)
    assert (names["result"].stored, names["result"].skipped) == (3, 0)
    await own.add_stream(name="PRICES", subjects=["prices.>"])
    await run(arrow)
    assert names["table"].sort_by("id").equals(names["orders"])
    assert names["cheap"].select(["seq", "id"]).to_pydict() == {"seq": [1, 1, 2], "id": [1, 3, 2]}


class Producer:
    """A producer whose arrays are passed to the native core unchanged."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_arrow_panic_raises_error(sync_js: jetarrow.sync.JetStream, stream: str, form: str) -> None:
    """A panic in a callback of Arrow's C interface would abort the process."""
    sliced = pa.table({"a": [{"a": {"b": 1}}, {"a": {"b": 2}}]}).slice(1)
    with pytest.raises(ValueError, match="internal error"):
        sync_js.publish_table(Producer(sliced), f"{stream}.a", format=form)  # type: ignore[arg-type]
    assert sync_js.stream_info(stream).state.messages == 0
    # A dictionary array without values consists of nulls.
    nulls = pa.table({"a": pa.array([None], pa.dictionary(pa.int32(), pa.string()))})
    assert sync_js.publish_table(Producer(nulls), f"{stream}.a", format=form).stored == 1  # type: ignore[arg-type]
