"""Kills writers with SIGKILL, and checks the archive after the next writer. As a program:

    kill.py each URL STREAM FOLDER KIND EVERY   at each EVERY-th file system call; KIND is partitions, or compact, which
                                                joins the files afterwards
    kill.py random URL STREAM FOLDER KIND N     at N random moments; KIND is parquet, partitions, delta or durable

The stream has the ids from 1 on. Writers are forked from this process, which has imported everything and done nothing.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import deltalake  # imported before the fork
import jetarrow.sync
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset as ds
import pyarrow.parquet
from pyarrow.fs import FileSelector, FileSystemHandler, LocalFileSystem, PyFileSystem

SCHEMA = {"id": int, "region": str}
REGIONS = ("eu", "us")
# Messages that come before each kill.
PIECE = 100
FORK: Any = multiprocessing.get_context("fork")


class Deadly(FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """The local file system; the step of this number is the last thing that the process does."""

    def __init__(self, last: int) -> None:
        self.local, self.last, self.steps = LocalFileSystem(), last, 0

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def get_type_name(self) -> str:
        return "deadly"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        return self.local.get_file_info(paths)

    def get_file_info_selector(self, selector: FileSelector) -> Any:
        return self.local.get_file_info(selector)

    def open_input_stream(self, path: str) -> Any:
        return self.local.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self.local.open_input_file(path)

    def open_output_stream(self, path: str, metadata: object) -> Any:
        self.step()
        return pa.PythonFile(Output(self, path), "w")

    def create_dir(self, path: str, recursive: bool) -> None:
        self.step()
        self.local.create_dir(path, recursive=recursive)

    def delete_file(self, path: str) -> None:
        self.step()
        self.local.delete_file(path)

    def move(self, source: str, target: str) -> None:
        self.step()
        self.local.move(source, target)
        self.step()

    def never(self, *_: object) -> None:
        raise AssertionError("a sink does not do this")

    copy_file = delete_dir = delete_dir_contents = delete_root_dir_contents = open_append_stream = never


class Output:
    """A file that may end in the middle of a write."""

    def __init__(self, system: Deadly, path: str) -> None:
        self._system, self._file = system, open(path, "wb", buffering=0)  # noqa: SIM115
        self.closed = False

    def write(self, data: bytes) -> int:
        half = len(data) // 2
        self._file.write(data[:half])
        self._system.step()
        self._file.write(data[half:])
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
        self._file.close()
        self._system.step()


def write(url: str, stream: str, folder: str, kind: str, *, last: int = 0, steps: Any = None) -> None:
    with jetarrow.sync.connect(url) as nc:
        js = nc.jetstream()
        if kind == "delta":
            js.to_delta(stream, folder, schema=SCHEMA, rows=60).run()
            return
        handler = Deadly(last)
        files = PyFileSystem(handler) if kind in ("partitions", "compact") else None
        options: dict[str, Any] = {"partition_by": "region"} if kind == "partitions" else {}
        if kind == "durable":
            options["durable"] = "archive"
        js.to_parquet(stream, folder, schema=SCHEMA, rows=60, filesystem=files, **options).run()
        if kind == "compact":
            with js.to_parquet(stream, folder, schema=SCHEMA, filesystem=files) as sink:
                sink.compact()
        if steps is not None:
            steps.value = handler.steps


def check(folder: str, kind: str, count: int) -> None:
    """Every sequence once, and nothing besides."""
    if kind == "delta":
        found = deltalake.DeltaTable(folder).to_pyarrow_table()
    else:
        found = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
        place = Path(folder)
        named = set()
        for record in (place / "_jetarrow").glob("*.json"):
            named |= {file["path"] for file in json.loads(record.read_text())["files"]}
            named.add(str(record.relative_to(place)))
        there = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
        assert there == named, f"left behind: {there - named}; lost: {named - there}"
    for column in ("seq", "id"):
        numbers = sorted(found[column].to_pylist())
        assert numbers == list(range(1, count + 1)), (column, len(numbers), count)


def write_and_check(url: str, stream: str, folder: str, kind: str, count: int) -> None:
    write(url, stream, folder, kind)
    check(folder, kind, count)


def run(target: Any, *args: Any, **options: Any) -> Any:
    process = FORK.Process(target=target, args=args, kwargs=options)
    process.start()
    return process


def finished(target: Any, *args: Any, **options: Any) -> None:
    process = run(target, *args, **options)
    process.join()
    assert process.exitcode == 0, f"{target.__name__} ended with {process.exitcode}"


def kill_at(process: Any, at: float) -> float:
    """Kills a process after `at` seconds. Returns an upper limit of the time of a run: `at` if it had ended before."""
    process.join(at)
    most = math.inf if process.exitcode is None else at
    process.kill()
    process.join()
    return most


def each(url: str, stream: str, folder: str, kind: str, every: int) -> int:
    count, killed = PIECE, 0
    steps = FORK.Value("i", 0)
    finished(write, url, stream, folder, kind, steps=steps)
    shutil.rmtree(folder)
    for last in range(random.randint(1, every), steps.value + 1, every):
        process = run(write, url, stream, folder, kind, last=last)
        process.join()
        assert process.exitcode == -signal.SIGKILL, (last, process.exitcode)
        finished(write_and_check, url, stream, folder, kind, count)
        shutil.rmtree(folder)
        killed += 1
    return killed


def at_random(url: str, stream: str, folder: str, kind: str, kills: int) -> int:
    count = PIECE
    begin = time.monotonic()
    finished(write, url, stream, f"{folder}-whole" if kind != "durable" else folder, kind)
    whole = time.monotonic() - begin
    killed = 0
    for number in range(kills):
        finished(publish, url, stream, count + 1)
        count += PIECE
        process = run(write, url, stream, folder, kind)
        whole = min(whole, kill_at(process, random.uniform(0, whole if number % 2 else whole / 3)))
        killed += process.exitcode == -signal.SIGKILL
    finished(write_and_check, url, stream, folder, kind, count)
    return killed


def publish(url: str, stream: str, start: int) -> None:
    payloads = [json.dumps({"id": id, "region": REGIONS[id % 2]}) for id in range(start, start + PIECE)]
    with jetarrow.sync.connect(url) as nc:
        nc.jetstream().publish_batch(f"{stream}.a", payloads).raise_for_errors()


if __name__ == "__main__":
    mode, url, stream, folder, *rest = sys.argv[1:]
    if mode == "each":
        print(each(url, stream, folder, rest[0], int(rest[1])))
    else:
        print(at_random(url, stream, folder, rest[0], int(rest[1])))
