"""`evolve=` of the sinks of Delta and Iceberg: rows with other columns than the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SinkSchemaError
from pyiceberg.types import LongType, StringType

from ..tools import store
from .iceberg_tools import NAME, rows, sql_catalog

ID = {"id": int}
WIDE = {"id": int, "name": str}


class Tables:
    """A table of one kind, and its sinks."""

    def __init__(self, js: JetStreamContext, stream: str, folder: Path, kind: str) -> None:
        self.js, self.stream, self.folder, self.kind = js, stream, folder, kind
        self.catalog = sql_catalog(folder) if kind == "iceberg" else None

    async def run(self, schema: Any, **options: Any) -> int:
        if self.catalog is not None:
            sink = self.js.to_iceberg(self.stream, NAME, catalog=self.catalog, schema=schema, **options)
        else:
            sink = self.js.to_delta(self.stream, self.folder / "table", schema=schema, **options)
        return (await sink.run()).rows

    async def store(self, *payloads: str) -> None:
        await store(self.js, f"{self.stream}.a", [payload.encode() for payload in payloads])

    @property
    def rows(self) -> pa.Table:
        if self.catalog is not None:
            return rows(self.catalog)
        return deltalake.DeltaTable(self.folder / "table").to_pyarrow_table().sort_by("seq")

    @property
    def versions(self) -> int:
        """Number of commits with rows."""
        if self.catalog is not None:
            return len(self.catalog.load_table(NAME).metadata.snapshots)
        return deltalake.DeltaTable(self.folder / "table").version()


@pytest.fixture(params=["iceberg", "delta"])
def tables(js: JetStreamContext, stream: str, tmp_path: Path, request: pytest.FixtureRequest) -> Tables:
    return Tables(js, stream, tmp_path, request.param)


async def test_new_column_fails_by_default_and_is_added_with_add(tables: Tables) -> None:
    await tables.store('{"id": 1}')
    await tables.run(ID)
    await tables.store('{"id": 2, "name": "x"}')
    with pytest.raises(SinkSchemaError, match="name is new"):
        await tables.run(WIDE)
    before = tables.versions
    assert await tables.run(WIDE, evolve="add") == 1
    # The columns are added in the transaction of the rows.
    assert tables.versions == before + 1
    assert tables.rows.select(["id", "name"]).to_pylist() == [{"id": 1, "name": None}, {"id": 2, "name": "x"}]
    # A restart with the wider schema needs no evolve=.
    await tables.store('{"id": 3, "name": "y"}')
    assert await tables.run(WIDE) == 1


async def test_column_that_the_rows_lack_is_null_with_add(tables: Tables) -> None:
    await tables.store('{"id": 1, "name": "x"}')
    await tables.run(WIDE)
    await tables.store('{"id": 2}')
    with pytest.raises(SinkSchemaError, match="name is missing"):
        await tables.run(ID)
    assert await tables.run(ID, evolve="add") == 1
    assert tables.rows["name"].to_pylist() == ["x", None]


@pytest.mark.parametrize("evolve", ["fail", "add"])
async def test_changed_type_names_the_column_and_both_types(tables: Tables, evolve: Any) -> None:
    await tables.store('{"id": 1}')
    await tables.run(ID, evolve=evolve)
    await tables.store('{"id": 2}')
    with pytest.raises(SinkSchemaError) as raised:
        await tables.run({"id": float, "name": str}, evolve=evolve)
    text = str(raised.value)
    assert "id" in text
    assert "double" in text
    # Delta has names of its own.
    assert "int64" in text or "long" in text
    assert tables.rows.column_names[-1] == "id"
    assert tables.rows["id"].to_pylist() == [1]


async def test_new_column_is_optional_even_if_the_rows_require_it(tables: Tables) -> None:
    await tables.store('{"id": 1}')
    await tables.run("id BIGINT")
    await tables.store('{"id": 2, "name": "x"}', '{"id": 3}')
    assert await tables.run("id BIGINT, name STRING NOT NULL", evolve="add") == 1
    assert tables.rows["name"].to_pylist() == [None, "x"]


async def test_required_column_that_the_rows_lack_is_an_error(tables: Tables) -> None:
    await tables.store('{"id": 1, "name": "x"}')
    await tables.run("id BIGINT, name STRING NOT NULL")
    await tables.store('{"id": 2}')
    with pytest.raises(SinkSchemaError, match="'name' is required"):
        await tables.run("id BIGINT", evolve="add")
    assert tables.rows["id"].to_pylist() == [1]


async def test_inferred_schema_is_kept(tables: Tables) -> None:
    await tables.store('{"id": 1}')
    await tables.run("infer", evolve="add")
    await tables.store('{"id": 2, "name": "x"}')
    await tables.run("infer", evolve="add")
    assert "name" not in tables.rows.column_names


async def test_iceberg_fields_of_a_struct_are_added(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    tables = Tables(js, stream, tmp_path, "iceberg")
    await tables.store('{"at": {"x": 1}}')
    await tables.run("at STRUCT<x: INT>")
    await tables.store('{"at": {"x": 2, "y": 3}}', '{"at": null}')
    wide = "at STRUCT<x: INT, y: INT>, to ARRAY<STRUCT<z: INT>>"
    with pytest.raises(SinkSchemaError, match="at was struct"):
        await tables.run(wide)
    assert await tables.run(wide, evolve="add") == 2
    assert tables.rows["at"].to_pylist() == [{"x": 1, "y": None}, {"x": 2, "y": 3}, None]
    with pytest.raises(SinkSchemaError, match=r"'at\.y' is int32, and that of the rows is string"):
        await tables.store('{"at": {"x": 2, "y": "3"}}')
        await tables.run("at STRUCT<x: INT, y: STRING>", evolve="add")


async def test_iceberg_table_of_a_user(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    """Wider types, columns that only the table has, and a required column."""
    catalog = sql_catalog(tmp_path)
    first = Tables(js, stream, tmp_path, "iceberg")
    await first.store('{"id": 1}')
    await first.run("id INT")
    table = catalog.load_table(NAME)
    with table.update_schema() as update:
        update.update_column("id", LongType())
        update.add_column("note", StringType())
    await first.store('{"id": 2}', '{"id": null}')
    assert await first.run("id INT") == 2
    assert first.rows.select(["id", "note"]).to_pylist() == [
        {"id": 1, "note": None},
        {"id": 2, "note": None},
        {"id": None, "note": None},
    ]
    with catalog.load_table(NAME).update_schema(allow_incompatible_changes=True) as update:
        update.update_column("id", required=True)
    await first.store('{"id": 4}')
    assert await first.run("id INT") == 1
    await first.store('{"id": null}')
    with pytest.raises(SinkSchemaError, match="'id' is required, and a row has none"):
        await first.run("id INT")
