"""Kills writers of an Iceberg table with SIGKILL, and checks the table after the next writer. As a program:

    kill_iceberg.py each URL STREAM FOLDER KIND EVERY   at each EVERY-th write of a file or commit; KIND is partitions,
                                                        or evolve, where the killed writer adds a column
    kill_iceberg.py random URL STREAM FOLDER KIND N     at N random moments

Each tenth message of the stream is not JSON. Writers are forked from this process, which has imported everything.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import jetarrow.sync
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import PyFileSystem
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.sinks.iceberg_tools import NAME, expire
from tests.sinks.kill import FORK, PIECE, REGIONS, Deadly, finished, kill_at, run

NARROW = {"id": int}
WIDE = {"id": int, "region": str}


class Files(Deadly):
    """The local file system with the folders that a write needs."""

    def open_output_stream(self, path: str, metadata: object) -> Any:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return super().open_output_stream(path, metadata)


FILES = Files(0)


class DeadlyIO(PyArrowFileIO):
    """The files of a table, on `FILES`."""

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> Any:
        return PyFileSystem(FILES)


class DeadlyCatalog(SqlCatalog):
    """A catalog that may end before and after a commit."""

    def commit_table(self, *args: Any) -> Any:
        FILES.step()
        answer = super().commit_table(*args)
        FILES.step()
        return answer


def catalog_of(folder: str) -> SqlCatalog:
    Path(folder).mkdir(parents=True, exist_ok=True)
    io = {"py-io-impl": f"{DeadlyIO.__module__}.DeadlyIO"}
    catalog = DeadlyCatalog("test", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/tables", **io)
    catalog.create_namespace_if_not_exists("db")
    return catalog


def write(
    url: str, stream: str, folder: str, kind: str, *, last: int = 0, steps: Any = None, is_first: bool = False
) -> None:
    FILES.steps, FILES.last = 0, last
    options: dict[str, Any] = {"partition_by": "region"} if kind == "partitions" else {"evolve": "add"}
    schema = NARROW if is_first else WIDE
    with jetarrow.sync.connect(url) as nc:
        js = nc.jetstream()
        if kind == "evolve" and is_first:
            js.to_iceberg(stream, NAME, catalog=catalog_of(folder), schema=schema, rows=10, **options).step()
        else:
            js.to_iceberg(stream, NAME, catalog=catalog_of(folder), schema=schema, rows=60, **options).run()
    if steps is not None:
        steps.value = FILES.steps


def check(folder: str, kind: str, count: int) -> None:
    """Each sequence once, in the table or beside it."""
    table = catalog_of(folder).load_table(NAME)
    found = table.scan().to_arrow()
    corrupt = [pq.read_table(path, partitioning=None) for path in Path(folder).rglob("*-corrupt/*/*.parquet")]
    seqs = sorted(found["seq"].to_pylist() + [seq for each in corrupt for seq in each["seq"].to_pylist()])
    assert seqs == list(range(1, count + 1)), (len(seqs), count)
    assert sorted(found["id"].to_pylist()) == [seq for seq in range(1, count + 1) if seq % 10]
    assert found.schema.field("region").type in (pa.string(), pa.large_string())
    # The position is not lost with the snapshots.
    expire(table)


def write_and_check(url: str, stream: str, folder: str, kind: str, count: int) -> None:
    write(url, stream, folder, kind)
    check(folder, kind, count)
    write(url, stream, folder, kind)
    check(folder, kind, count)


def each(url: str, stream: str, folder: str, kind: str, every: int) -> int:
    killed = 0
    steps = FORK.Value("i", 0)
    begun = f"{folder}-begun"
    if kind == "evolve":
        finished(write, url, stream, folder, kind, is_first=True)
        shutil.copytree(folder, begun)
    finished(write, url, stream, folder, kind, steps=steps)
    for last in range(random.randint(1, every), steps.value + 1, every):
        shutil.rmtree(folder)
        if kind == "evolve":
            # The paths in the metadata are those of the folder.
            shutil.copytree(begun, folder)
        process = run(write, url, stream, folder, kind, last=last)
        process.join()
        # The number of writes of a file varies with the sizes of its parts.
        assert process.exitcode == -9 or (process.exitcode == 0 and last > steps.value - 5), (last, process.exitcode)
        finished(write_and_check, url, stream, folder, kind, PIECE)
        killed += process.exitcode == -9
    return killed


def at_random(url: str, stream: str, folder: str, kind: str, kills: int) -> int:
    count, killed = PIECE, 0
    begin = time.monotonic()
    finished(write, url, stream, f"{folder}-whole", kind)
    whole = time.monotonic() - begin
    for number in range(kills):
        finished(publish, url, stream, count + 1)
        count += PIECE
        process = run(write, url, stream, folder, kind)
        whole = min(whole, kill_at(process, random.uniform(0, whole if number % 2 else whole / 3)))
        killed += process.exitcode == -9
    finished(write_and_check, url, stream, folder, kind, count)
    return killed


def publish(url: str, stream: str, start: int) -> None:
    payloads = [
        f'{{"id": {seq}, "region": "{REGIONS[seq % 2]}"}}' if seq % 10 else "no JSON"
        for seq in range(start, start + PIECE)
    ]
    with jetarrow.sync.connect(url) as nc:
        nc.jetstream().publish_batch(f"{stream}.a", payloads).raise_for_errors()


if __name__ == "__main__":
    # The catalog loads `DeadlyIO` by its name: from this module, not from another copy.
    sys.modules["tests.sinks.kill_iceberg"] = sys.modules["__main__"]
    DeadlyIO.__module__ = "tests.sinks.kill_iceberg"
    mode, url, stream, folder, kind, number = sys.argv[1:]
    assert os.path.isabs(folder)
    print((each if mode == "each" else at_random)(url, stream, folder, kind, int(number)))
