"""Helpers of the tests of Iceberg tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

NAME = "db.rows"


def sql_catalog(folder: Path | str) -> SqlCatalog:
    """A catalog in SQLite with tables below a folder; it has the namespace `db`."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("test", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace_if_not_exists("db")
    return catalog


def rows(catalog: Any, name: str = NAME) -> pa.Table:
    return catalog.load_table(name).scan().to_arrow().sort_by("seq")


def seqs(catalog: Any, name: str = NAME) -> list[int]:
    found: list[int] = rows(catalog, name)["seq"].to_pylist()
    return found


def append(table: Table, seq: int = -1) -> None:
    """Append a row as a user does."""
    kinds = table.schema().as_arrow()
    values = {"stream": "other", "seq": seq, "subject": "x", "timestamp": 0, "data": b""}
    table.append(pa.table([pa.array([values.get(field.name)], field.type) for field in kinds], schema=kinds))


def expire(table: Table) -> None:
    """Expire each snapshot but the current one."""
    current = table.metadata.current_snapshot_id
    others = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id != current]
    table.maintenance.expire_snapshots().by_ids(others).commit()


def corrupt_files(catalog: Any) -> list[Path]:
    """The files of undecodable rows."""
    location = Path(catalog.load_table(NAME).location().removeprefix("file://"))
    return sorted(location.with_name(f"{location.name}-corrupt").rglob("*.parquet"))
