"""Helpers of the tests of archive and stream as one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jetarrow.polars
import jetarrow.sync
import polars as pl

KINDS = ["parquet", "delta"]
SCHEMA = {"id": int, "region": str, "price": float, "at": "timestamp"}
# A server that refuses every connection: for scans that must not connect.
NOWHERE = "nats://127.0.0.1:1"


def row(id: int) -> dict[str, Any]:
    """Message `id`; some fields are null or missing."""
    found: dict[str, Any] = {
        "id": id,
        "region": ("eu", "us", None, "ap")[id % 4],
        "at": f"2026-11-{id % 28 + 1:02d}T00:00:00Z",
    }
    return found if id % 5 == 0 else {**found, "price": id / 8}


def publish(js: jetarrow.sync.JetStream, stream: str, start: int, end: int, *, tokens: str = "abc") -> None:
    """Publishes the messages start to end - 1; every 10th is no JSON."""
    for id in range(start, end):
        payload = "no JSON" if id % 10 == 7 else json.dumps(row(id))
        js.publish(f"{stream}.{tokens[id % len(tokens)]}", payload.encode())


def sink(js: jetarrow.sync.JetStream, kind: str, stream: str, folder: Path, **options: Any) -> Any:
    to = js.to_parquet if kind == "parquet" else js.to_delta
    return to(stream, folder, **{"schema": SCHEMA, **options})


def archive(js: jetarrow.sync.JetStream, kind: str, stream: str, folder: Path, **options: Any) -> None:
    """Archives all messages that the stream has now."""
    with sink(js, kind, stream, folder, **options) as one:
        one.run()


def collected(lazy: pl.LazyFrame) -> pl.DataFrame:
    """The rows by sequence."""
    return lazy.collect().sort("seq")


def data_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts]
