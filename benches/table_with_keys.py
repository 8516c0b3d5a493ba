"""Measures `merge="upsert"` of Delta and Iceberg sinks: 1,000,000 rows over 100,000 keys, and tables of other sizes.

    python benches/table_with_keys.py [ROWS]

Prints the time of each commit, rows per second, and the size of the table, as docs/tables-with-keys.md has them.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import deltalake
import jetarrow.sync
import pyarrow as pa
from jetarrow.server import NatsServer
from pyiceberg.catalog.sql import SqlCatalog

SCHEMA = {"id": int, "price": float, "note": str}
# Messages of a commit.
COMMIT = 50_000


def publish(js: Any, stream: str, ids: list[int]) -> None:
    """Publish a row for each id, on a subject of the id."""
    for start in range(0, len(ids), 100_000):
        part = ids[start : start + 100_000]
        rows = pa.table(
            {"id": part, "price": [random.random() for _ in part], "note": [f"note {id % 1000}" for id in part]}
        )
        js.publish_table(rows, f"{stream}.{{id}}").raise_for_errors()


def sizes(folder: Path) -> tuple[float, float, int]:
    """Return MB of the table's files, MB of all files with the old ones, and the number of the table's files."""
    table = deltalake.DeltaTable(folder)
    sizes = pa.table(table.get_add_actions(flatten=True))["size_bytes"].to_pylist()
    return sum(sizes) / 1e6, sum(path.stat().st_size for path in folder.rglob("*.parquet")) / 1e6, len(sizes)


def run(js: Any, stream: str, **options: Any) -> None:
    """Archive a stream and print the time of its commits."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        times = []
        begin = time.perf_counter()
        with js.to_delta(stream, folder, schema=SCHEMA, rows=COMMIT, **options) as sink:
            while True:
                start = time.perf_counter()
                if not sink.step().rows:
                    break
                times.append(time.perf_counter() - start)
        total = time.perf_counter() - begin
        rows = js.stream_info(stream).state.messages
        count = deltalake.DeltaTable(folder).to_pyarrow_table(columns=["seq"]).num_rows
        live, stored, files = sizes(folder)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        mean = sum(times) / len(times)
        for line in (
            f"{options or 'append'}: {rows:,} messages, {count:,} rows, {total:.1f} s, {rows / total:,.0f} rows/s",
            f"  commits {times[0]:.2f} (first), {times[-1]:.2f} (last), {mean:.2f} s (mean)",
            f"  table {live:.1f} MB in {files} files, with old files {stored:.1f} MB; {memory:.0f} MB of memory",
        ):
            print(line, flush=True)


def iceberg(js: Any, stream: str, **options: Any) -> None:
    """Archive a stream in an Iceberg table and print the time of its commits."""
    with tempfile.TemporaryDirectory() as place:
        catalog = SqlCatalog("bench", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}/tables")
        catalog.create_namespace("db")
        times = []
        with js.to_iceberg(stream, "db.rows", catalog=catalog, schema=SCHEMA, rows=COMMIT, **options) as sink:
            while True:
                start = time.perf_counter()
                if not sink.step().rows:
                    break
                times.append(time.perf_counter() - start)
        files = [task.file for task in catalog.load_table("db.rows").scan().plan_files()]
        live, count = sum(file.file_size_in_bytes for file in files) / 1e6, sum(file.record_count for file in files)
        stored = sum(path.stat().st_size for path in Path(place).rglob("*.parquet")) / 1e6
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        total, rows = sum(times), js.stream_info(stream).state.messages
        for line in (
            f"iceberg {options or 'append'}: {count:,} rows, {total:.1f} s, {rows / total:,.0f} rows/s",
            f"  commits {times[0]:.2f} (first), {times[-1]:.2f} (last), {total / len(times):.2f} s (mean)",
            f"  table {live:.1f} MB in {len(files)} files, with old files {stored:.1f} MB; {memory:.0f} MB of memory",
        ):
            print(line, flush=True)


def grow(js: Any, keys: int) -> None:
    """Print the time of one commit to a table of a number of keys."""
    stream = f"K{keys}"
    js.add_stream(name=stream, subjects=[f"{stream}.>"])
    publish(js, stream, list(range(keys)))
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"schema": SCHEMA, "merge": "upsert", "key": "subject"}
        js.to_delta(stream, folder, **options).run()
        times = []
        for _ in range(4):
            publish(js, stream, random.sample(range(keys), min(10_000, keys)))
            with js.to_delta(stream, folder, **options) as sink:
                start = time.perf_counter()
                assert sink.step().rows == min(10_000, keys)
                times.append(time.perf_counter() - start)
        live, _, files = sizes(Path(folder))
    print(f"{keys:,} keys: commit of 10,000 rows {min(times):.2f} s; table {live:.1f} MB in {files} files", flush=True)
    js.delete_stream(stream)


def main() -> None:
    """Run all measurements."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    random.seed(1)
    with NatsServer() as server, jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["S.>"])
        publish(js, "S", [random.randrange(max(count // 10, 1)) for _ in range(count)])
        run(js, "S")
        run(js, "S", merge="upsert", key="subject")
        run(js, "S", merge="upsert", key=["id"])
        iceberg(js, "S")
        iceberg(js, "S", merge="upsert", key="subject")
        iceberg(js, "S", merge="upsert", key=["id"])
        for keys in (10_000, 100_000, 1_000_000):
            grow(js, min(keys, count))


if __name__ == "__main__":
    main()
