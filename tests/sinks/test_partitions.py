"""Partitions by columns: each reader restores every table from the folders unchanged."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetarrow.jetstream.errors import SinkError, SinkSchemaError
from jetarrow.jetstream.sinks import partitions
from jetarrow.jetstream.sinks.parquet import ParquetTable
from jetarrow.jetstream.sinks.state import State
from jetarrow.js.client import JetStreamContext

from tests.strategies import bounded

from .tools import SCHEMA

# Null and empty text share a folder, so empty text is not in these values; test_empty_text has it.
# Half of the texts are of characters that have a meaning in names of folders: `st.text` draws each character alike.
TEXTS = (
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
    | st.text("%/\\=.: '\"#?*4123\t\n\x7f", min_size=1, max_size=12)
).filter(lambda text: text != partitions.NULL)
KINDS: dict[pa.DataType, Any] = {
    pa.string(): TEXTS,
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(allow_nan=True, allow_infinity=True),
    pa.decimal128(12, 4): st.decimals(-1_000_000, 1_000_000, places=4),
    pa.date32(): st.dates(date(1600, 1, 1), date(9999, 12, 31)),
    pa.timestamp("us", "UTC"): st.datetimes(datetime(1700, 1, 1), datetime(9999, 1, 1)).map(
        lambda value: value.replace(tzinfo=UTC)
    ),
}


@st.composite
def tables(draw: Any, kinds: list[pa.DataType], most: int = 12) -> pa.Table:
    """Rows in any order, with 1 to 4 columns of few or many values."""
    count = draw(st.integers(1, 40))
    columns: dict[str, Any] = {"n": pa.array(range(count), pa.int64())}
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(kinds))
        values = draw(st.lists(st.none() | KINDS[kind], min_size=1, max_size=most))
        picks = draw(st.lists(st.integers(0, len(values) - 1), min_size=count, max_size=count))
        columns[f"k{number}"] = pa.array([values[pick] for pick in picks], kind)
    return pa.table(columns)


def write(folder: str, table: pa.Table) -> None:
    """As a sink does, in batches."""
    keys = table.schema.names[1:]
    target = ParquetTable(folder, filesystem=None, partition_by=keys, compression="zstd", rows=1000)
    target.open()
    commit = target.begin()
    for batch in table.to_batches(max_chunksize=25):
        commit.add(batch, None, batch.column("n"))
    commit.finish(State("S", "now", last_seq=table.num_rows))
    target.close()


def comparable(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """In the order of `n`; a NaN is equal to a NaN, and 0.0 is not -0.0."""
    return [
        tuple(str(value) if isinstance(value, float) else value for value in row.values())
        for row in sorted(rows, key=lambda row: row["n"])
    ]


def by_pyarrow(folder: str, schema: pa.Schema) -> list[dict[str, Any]]:
    keys = pa.schema([schema.field(name) for name in schema.names[1:]])
    found = ds.dataset(folder, format="parquet", partitioning=ds.partitioning(keys, flavor="hive"), schema=schema)
    rows: list[dict[str, Any]] = found.to_table().to_pylist()
    return rows


def by_polars(folder: str, schema: pa.Schema) -> list[dict[str, Any]]:
    empty: Any = pl.from_arrow(schema.empty_table())
    keys = {name: kind for name, kind in empty.schema.items() if name != "n"}
    return pl.scan_parquet(f"{folder}/**/*.parquet", hive_schema=keys).select(schema.names).collect().to_dicts()


def by_duckdb(folder: str, schema: pa.Schema) -> list[dict[str, Any]]:
    names = {"string": "VARCHAR", "int64": "BIGINT", "int8": "TINYINT", "bool": "BOOLEAN", "double": "DOUBLE"}
    kinds = {
        name: names.get(str(schema.field(name).type))
        or {"date32[day]": "DATE", "timestamp[us, tz=UTC]": "TIMESTAMPTZ"}.get(str(schema.field(name).type))
        or "DECIMAL(12, 4)"
        for name in schema.names[1:]
    }
    types = ", ".join(f"'{name}': '{kind}'" for name, kind in kinds.items())
    query = (
        f"SELECT {', '.join(schema.names)} FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true,"
        f" hive_types = {{{types}}})"
    )
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    rows: list[dict[str, Any]] = connection.sql(query).to_arrow_table().cast(schema).to_pylist()
    return rows


READERS = {"pyarrow": by_pyarrow, "polars": by_polars, "duckdb": by_duckdb}
# Types that a reader cannot read from its own files either, found with the pinned versions.
NOT = {"polars": [pa.decimal128(12, 4)], "pyarrow": [pa.decimal128(12, 4)]}


@pytest.mark.parametrize("reader", READERS)
@bounded(60)
@given(data=st.data())
def test_any_table_comes_back(reader: str, data: Any) -> None:
    table = data.draw(tables([kind for kind in KINDS if kind not in NOT.get(reader, [])]))
    with tempfile.TemporaryDirectory() as folder:
        write(folder, table)
        found = READERS[reader](folder, table.schema)
    assert comparable(found) == comparable(table.to_pylist())


@pytest.mark.parametrize("columns", [["day", "hr"], ["region", "shop"], ["k"], ["a", "b", "c", "d"]])
@pytest.mark.parametrize("values", [2, 51, 500])
def test_many_rows_of_many_values(tmp_path: Path, columns: list[str], values: int) -> None:
    count = 20_000
    keys = {
        name: pa.array([f"{name}{row * (at + 7) % values}" for row in range(count)]) for at, name in enumerate(columns)
    }
    table = pa.table({"n": pa.array(range(count), pa.int64()), **keys})
    found = [
        (folder, row)
        for batch in table.to_batches(max_chunksize=8192)
        for folder, rows, _ in partitions.split(batch, batch.column("n"), columns)
        for row in rows.column("n").to_pylist()
    ]
    assert len(found) == count
    told = {row: folder for folder, row in found}
    for row in range(count):
        assert told[row] == "/".join(f"{name}={keys[name][row]}" for name in columns)


def test_names_of_folders() -> None:
    def names(values: list[Any], kind: pa.DataType) -> list[str]:
        return partitions.texts(pa.array(values, kind))

    assert names([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e22], pa.float64()) == [
        "0.0",
        "-0.0",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e22",
    ]
    assert names(["", None, ".", "..", "a/b", "ü", "a b", "%"], pa.string()) == [
        partitions.NULL,
        partitions.NULL,
        "%2E",
        "%2E%2E",
        "a%2Fb",
        "ü",
        "a%20b",
        "%25",
    ]
    assert names([True, False], pa.bool_()) == ["true", "false"]
    assert names([Decimal("0.0000001")], pa.decimal128(20, 7)) == ["0.0000001"]
    assert names([1_000, 1_500_000_000, 1], pa.timestamp("ns", "UTC")) == [
        "1970-01-01%2000%3A00%3A00.000001%2B00%3A00",
        "1970-01-01%2000%3A00%3A01.500000%2B00%3A00",
        "1970-01-01%2000%3A00%3A00.000000001%2B00%3A00",
    ]


def test_a_wrong_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were put under another folder's name are noticed before anything of the commit counts."""
    batch = pa.record_batch({"n": pa.array([0, 1, 2]), "k": ["a", "b", "a"]})
    folders = partitions._folders

    def wrong(batch: pa.RecordBatch, columns: list[str]) -> Any:
        codes, names = folders(batch, columns)
        return codes, names[::-1]

    monkeypatch.setattr(partitions, "_folders", wrong)
    with pytest.raises(SinkError, match="would be written to k="):
        partitions.split(batch, batch.column("n"), ["k"])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("k", pa.binary()),
        ("k", pa.map_(pa.string(), pa.string())),
        ("k", pa.list_(pa.string())),
        ("k", pa.struct([pa.field("a", pa.string())])),
        ("_k", pa.string()),
        ("a/b", pa.string()),
        ("a=b", pa.string()),
    ],
)
def test_what_cannot_be_a_folder(name: str, kind: pa.DataType) -> None:
    with pytest.raises(SinkSchemaError, match=name):
        partitions.check(pa.schema([pa.field(name, kind)]), [name])


def test_values_that_are_too_long() -> None:
    batch = pa.record_batch({"k": ["a" * 300, "b", "日" * 40, "é" * 200, None]})
    reasons = partitions.too_long(batch, ["k"])
    assert set(reasons) == {0, 3}
    assert "302 bytes" in reasons[0]


@pytest.mark.parametrize("kind", ["parquet", "delta"])
async def test_a_value_that_is_too_long_for_a_folder(
    js: JetStreamContext, stream: str, tmp_path: Path, kind: str
) -> None:
    """It is kept aside with its reason, and the sink goes on."""
    values = ["eu", "a" * 300, "日" * 40, "日" * 120, "us"]
    for number, value in enumerate(values):
        await js.publish(f"{stream}.a", json.dumps({"id": number, "region": value}).encode())
    sink = (js.to_parquet if kind == "parquet" else js.to_delta)(stream, tmp_path, schema=SCHEMA, partition_by="region")
    result = await sink.run()
    # deltalake writes each byte outside ASCII as three.
    wrong = [2, 4] if kind == "parquet" else [2, 3, 4]
    assert (result.rows, result.corrupt) == (len(values) - len(wrong), len(wrong))
    (path,) = (tmp_path / "_corrupt").rglob("*.parquet")
    aside = pq.read_table(path).to_pylist()
    assert [row["seq"] for row in aside] == wrong
    assert "307 bytes" in aside[0]["_error"]
    assert json.loads(aside[-1]["_corrupt_record"]) == {"id": 3, "region": "日" * 120}


async def test_a_subject_that_is_too_long_for_a_folder(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    for subject in (f"{stream}.{'a' * 260}", f"{stream}.b"):
        await js.publish(subject, b"payload")
    result = await js.to_parquet(stream, tmp_path, partition_by="subject").run()
    assert (result.rows, result.corrupt) == (1, 1)
    (path,) = (tmp_path / "_corrupt").glob("*.parquet")
    (row,) = pq.read_table(path).to_pylist()
    assert (row["data"], row["seq"]) == (b"payload", 1)


@pytest.mark.parametrize("column", ["data", "headers"])
async def test_a_column_that_cannot_be_folders(js: JetStreamContext, stream: str, tmp_path: Path, column: str) -> None:
    """The sink rejects the column at the start, even if there is nothing to write."""
    with pytest.raises(SinkSchemaError, match=f"column '{column}' of type"):
        await js.to_parquet(stream, tmp_path, partition_by=column).run()
    with pytest.raises(SinkSchemaError, match="'tags' of type list"):
        await js.to_parquet(stream, tmp_path, schema="id BIGINT, tags ARRAY<STRING>", partition_by="tags").run()


@pytest.mark.skipif(sys.platform != "linux", reason="it reads the paths of open files from /proc")
async def test_folders_are_durable(
    js: JetStreamContext, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a new folder is in its parent: without its sync a power failure takes the files of a commit."""
    synced: set[str] = set()
    fsync = os.fsync

    def noted(handle: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    await js.publish_batch([f"{stream}.a", f"{stream}.b"], [b"1", b"2"])
    table = tmp_path / "new" / "table"
    await js.to_parquet(stream, table, partition_by="subject").run()
    folders = [Path(folder) for folder, _, _ in os.walk(tmp_path)]
    assert len(folders) > 5
    assert {str(folder) for folder in folders if any(one.parent == folder for one in folders)} <= synced
