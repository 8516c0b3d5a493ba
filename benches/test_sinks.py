"""Archiving: seven fields of 110 B of JSON into Parquet, against only reading them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import pytest
import wire
from harness import Group, Run
from test_state import SUBJECTS, filled

NATIVE = "jetarrow._jetarrow"
SCHEMA = "id BIGINT, device STRING, ok BOOLEAN, temperature DOUBLE, count INT, site STRING, at TIMESTAMP"
ALONE = "jetarrow read(schema=), batch by batch"
SINK = Group("to_parquet, JSON, 7 fields", "core", peer=ALONE, count=600_000)


@SINK.row(ALONE, needs="pyarrow")
def read_alone(run: Run) -> int:
    import jetarrow.sync

    name = filled(run, SUBJECTS, run.count)
    rows = 0
    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        with run.clock(), js.read(name, schema=SCHEMA, flatten=True) as reader:
            for batch in reader:
                rows += len(batch)
    return rows


def archived(run: Run, **options: Any) -> int:
    """Rows of some commits, which end where the stream does."""
    import jetarrow.sync
    import pyarrow.dataset as ds

    name, rows = filled(run, SUBJECTS, run.count), 0
    with jetarrow.sync.connect(run.url) as nc, tempfile.TemporaryDirectory() as folder:
        js = nc.jetstream()
        # Full commits only: one that lacks a row would wait for it.
        size = run.count // next(commits for commits in (3, 2, 1) if run.count % commits == 0)
        with run.clock(), js.to_parquet(name, folder, schema=SCHEMA, rows=size, **options) as sink:
            while rows < run.count:
                rows += sink.step().rows
        there = ds.dataset(folder).count_rows()
    if there != rows:
        raise wire.WireError(f"{there} rows in files of {rows}")
    return rows


@SINK.row("jetarrow to_parquet, follow", needs="pyarrow")
def follow(run: Run) -> int:
    return archived(run, follow=True)


@SINK.row("jetarrow to_parquet, follow, lz4", needs="pyarrow")
def follow_lz4(run: Run) -> int:
    return archived(run, follow=True, compression="lz4")


@pytest.mark.parametrize("name", SINK.rows)
def test_to_parquet(name: str, record: Callable[[Group, str], None]) -> None:
    record(SINK, name)
