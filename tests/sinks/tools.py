"""Helpers of the sink tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from jetarrow.js.client import JetStreamContext

from ..tools import store

SCHEMA = {"id": int, "region": str}
REGIONS = ("eu", "us", "ap")


def readings(start: int, end: int) -> list[bytes]:
    return [json.dumps({"id": id, "region": REGIONS[id % 3]}).encode() for id in range(start, end)]


async def fill(js: JetStreamContext, stream: str, end: int, start: int = 1) -> None:
    """Message n of a new stream has the id n."""
    await store(js, f"{stream}.a", readings(start, end))


def table(folder: Path | str, **options: Any) -> pa.Table:
    """Reads the folder as a dataset."""
    found = ds.dataset(str(folder), format="parquet", partitioning="hive", **options).to_table()
    return found.sort_by("seq")


def seqs(folder: Path | str) -> list[int]:
    return table(folder)["seq"].to_pylist()


def names(folder: Path) -> set[str]:
    """The files below a folder, but for what is different each time."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def data(folder: Path) -> set[str]:
    return {name for name in names(folder) if name.endswith(".parquet")}


def record_of(number: int) -> str:
    """The path of a commit's record."""
    return f"_jetarrow/{number:020d}.json"


def records(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in (folder / "_jetarrow").glob("[0-9]*.json")]
    return sorted(found, key=lambda record: record["number"])
