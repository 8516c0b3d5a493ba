"""`js.read` returns the tables that `publish_table` sent, as docs/tables.md documents (Hypothesis)."""

from __future__ import annotations

import itertools
import math
import struct
from typing import Any

import jetarrow.sync
import pyarrow as pa
import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st

from tests.strategies import (
    ARROW_SCALARS,
    DICTIONARIES,
    JSON_SCALARS,
    TEXTS,
    bounded,
    floats,
    kinds,
    tables,
)


def test_json_gives_the_table_back(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    numbers = itertools.count()

    @bounded(80)
    @given(tables(kinds(JSON_SCALARS) | DICTIONARIES), st.booleans(), st.integers(1, 5), st.booleans())
    def comes_back(table: pa.Table, nulls: bool, batch_rows: int, flatten: bool) -> None:
        subject = f"{stream}.{next(numbers)}"
        note(str(table.schema))
        result = sync_js.publish_table(table, subject, nulls=nulls)
        assert (result.stored, result.errors) == (table.num_rows, [])
        options: Any = {"schema": table.schema, "columns": ["value"], "mode": "FAILFAST", "flatten": flatten}
        read = sync_js.read(stream, subjects=subject, batch_rows=batch_rows, **options).read_all()
        # A flat column is always nullable, so that the schema is the same in every mode.
        columns = read.columns if flatten else read["value"].flatten()
        assert [column.type for column in columns] == table.schema.types
        assert _decoded(pa.Table.from_arrays(columns, schema=table.schema)).equals(_decoded(table))

    comes_back()


def test_floats_keep_every_bit(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    """Bits are compared, because tables are equal even if zeros differ in sign."""
    numbers = itertools.count()

    @bounded(15)
    @given(*(st.lists(floats(width), min_size=20, max_size=20) for width in (16, 32, 64)))
    @example([-0.0] * 20, [1e-45, -0.0, 3.4028234663852886e38] + [1.0] * 17, [5e-324, -0.0] * 10)
    def come_back(halves: list[float], singles: list[float], doubles: list[float]) -> None:
        subject = f"{stream}.{next(numbers)}"
        kinds = {"e": (pa.float16(), halves), "f": (pa.float32(), singles), "d": (pa.float64(), doubles)}
        table = pa.table({name: pa.array(values, kind) for name, (kind, values) in kinds.items()})
        sync_js.publish_table(table, subject).raise_for_errors()
        read = sync_js.read(
            stream, subjects=subject, schema=table.schema, flatten=True, columns=["value"], mode="FAILFAST"
        )
        for name, found in read.read_all().to_pydict().items():
            form = f"20{name}"
            assert struct.pack(form, *found) == struct.pack(form, *kinds[name][1])

    come_back()


def test_row_with_value_json_cannot_hold_is_an_error(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    numbers = itertools.count()
    days = st.integers(-(2**31), 2**31 - 1) | st.integers(-719_530, -719_526) | st.integers(2_932_895, 2_932_898)

    @bounded(40)
    @given(st.lists(st.tuples(st.floats() | st.none(), days | st.none()), max_size=8))
    def is_said(rows: list[tuple[float | None, int | None]]) -> None:
        subject = f"{stream}.{next(numbers)}"
        table = pa.table(
            {
                "x": pa.array([x for x, _ in rows], pa.float64()),
                "day": pa.array([day for _, day in rows], pa.int32()).cast(pa.date32()),
            }
        )
        good = [(x is None or math.isfinite(x)) and (day is None or -719_528 <= day <= 2_932_896) for x, day in rows]
        result = sync_js.publish_table(table, subject)
        assert (result.count, result.stored) == (len(rows), sum(good))
        assert [error.row for error in result.errors] == [row for row, is_good in enumerate(good) if not is_good]
        read = sync_js.read(
            stream, subjects=subject, schema=table.schema, flatten=True, columns=["value"], mode="FAILFAST"
        )
        assert read.read_all().equals(table.filter(pa.array(good, pa.bool_())))

    is_said()


@pytest.mark.parametrize("shape", ["table", "batch", "reader"])
@pytest.mark.parametrize("kind", ["slice", "slice of lists", "dictionary"])
def test_slices_and_null_dictionaries_round_trip_without_panic(
    sync_js: jetarrow.sync.JetStream, stream: str, shape: str, kind: str
) -> None:
    """Slices of nested structs and dictionaries of nulls made arrow-rs panic in a C call, which ended the process."""
    if kind == "slice":
        inner = pa.struct({"b": pa.int64()})
        rows = [{"a": {"b": 1}}, {"a": None}, None, {"a": {"b": 4}}]
        made = pa.table({"v": pa.array(rows, pa.struct({"a": inner}))}).slice(1)
    elif kind == "slice of lists":
        rows = [[{"b": 1}, None], None, [{"b": 5}, {"b": 6}]]
        made = pa.table({"v": pa.array(rows, pa.list_(pa.struct({"b": pa.int64()}), 2))}).slice(1)
    else:
        made = pa.table({"v": pa.array([None, None], pa.dictionary(pa.int8(), pa.string()))})
    table: Any = {"table": made, "batch": made.to_batches()[0], "reader": made.to_reader()}[shape]
    sync_js.publish_table(table, f"{stream}.a").raise_for_errors()
    read = sync_js.read(stream, schema=made.schema, flatten=True, columns=["value"], mode="FAILFAST").read_all()
    assert read["v"].to_pylist() == made["v"].to_pylist()


def _decoded(table: pa.Table) -> pa.Table:
    """Replaces dictionary columns by their values: a batch has only the values of its rows, in their order."""
    dictionary = pa.types.is_dictionary
    columns = (column.cast(column.type.value_type) if dictionary(column.type) else column for column in table.columns)
    return pa.table(list(columns), names=table.column_names)


def test_arrow_messages_give_every_table_back(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    numbers = itertools.count()
    every = kinds(JSON_SCALARS | ARROW_SCALARS) | DICTIONARIES
    compressions = st.sampled_from(["zstd", "lz4", None])

    @bounded(80)
    @given(
        tables(every, names=["a", "b", "c"]),
        compressions,
        st.integers(1, 7),
        st.integers(1, 7),
        st.lists(st.integers(0, 2), min_size=1, unique=True),
    )
    def comes_back(table: pa.Table, compression: Any, rows: int, batch_rows: int, chosen: list[int]) -> None:
        subject = f"{stream}.{next(numbers)}"
        note(str(table.schema))
        result = sync_js.publish_table(table, subject, format="arrow", rows_per_message=rows, compression=compression)
        assert (result.stored, result.errors) == (math.ceil(table.num_rows / rows), [])
        if not table.num_rows:
            return
        options: Any = {"subjects": subject, "format": "arrow", "mode": "FAILFAST", "batch_rows": batch_rows}
        read = sync_js.read(stream, **options).read_all()
        assert read.schema == table.schema
        assert _decoded(read).equals(_decoded(table))
        some = table.select(chosen)
        read = sync_js.read(stream, schema=some.schema, **options).read_all()
        assert _decoded(read).equals(_decoded(some))

    comes_back()


def test_duplicate_map_key_keeps_the_last_value(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    """A map with a duplicate key is read as docs/tables.md documents."""
    numbers = itertools.count()
    kind = pa.map_(pa.string(), pa.int64())

    @bounded(25)
    @given(st.lists(st.tuples(TEXTS.map(lambda text: text[:1]), st.integers(0, 9)), max_size=30))
    def stays(entries: list[tuple[str, int]]) -> None:
        subject = f"{stream}.{next(numbers)}"
        sync_js.publish_table(pa.table({"m": pa.array([entries], kind)}), subject).raise_for_errors()
        read = sync_js.read(stream, subjects=subject, schema=pa.schema({"m": kind}), flatten=True, columns=["value"])
        assert read.read_all()["m"].to_pylist() == [list(dict(entries).items())]

    stays()
