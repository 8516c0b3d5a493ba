"""Kills pipes with SIGKILL at random moments, and checks the target after the last one. As a program:

    kill.py URL SOURCE TARGET KILLS ROWS

The source has ROWS messages with the ids from 0 on. Pipes are forked from this process, which has done nothing yet.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from typing import Any

import jetarrow.sync
import pyarrow as pa
import pyarrow.compute as pc

FORK: Any = multiprocessing.get_context("fork")
KEYS = 7


def halves(rows: pa.Table) -> pa.Table:
    """Two messages for each third row, one for another third, none for the last."""
    once = rows.filter(pc.not_equal(pc.subtract(rows["id"], pc.multiply(pc.divide(rows["id"], 3), 3)), 2))
    twice = rows.filter(pc.equal(pc.subtract(rows["id"], pc.multiply(pc.divide(rows["id"], 3), 3)), 0))
    both = pa.concat_tables(
        [once.append_column("copy", pa.repeat(1, len(once))), twice.append_column("copy", pa.repeat(2, len(twice)))]
    )
    return both.sort_by([("id", "ascending"), ("copy", "ascending")]).select(["id", "key", "copy"])


def expected(rows: int) -> list[tuple[int, int]]:
    return [(number, copy) for number in range(rows) for copy in {0: (1, 2), 1: (1,), 2: ()}[number % 3]]


def pipe(url: str, source: str, target: str, rows: int) -> None:
    with jetarrow.sync.connect(url) as nc:
        schema = {"id": "int64", "key": "string"}
        nc.jetstream().pipe(
            source, target, halves, name="killed", subject=f"{target}.out.{{key}}", schema=schema, rows=rows
        ).run()


def main(url: str, source: str, target: str, kills: int, rows: int) -> int:
    random.seed(7)
    begun = 0
    step = max(rows // (2 * kills), 1_000)
    for _ in range(kills):
        child = FORK.Process(target=pipe, args=(url, source, target, step))
        child.start()
        time.sleep(random.uniform(0.0, 0.6))
        if child.is_alive():
            os.kill(child.pid, signal.SIGKILL)
            begun += 1
        child.join()
        assert child.exitcode in (0, -signal.SIGKILL), child.exitcode
    pipe(url, source, target, step)
    with jetarrow.sync.connect(url) as nc:
        found = nc.jetstream().read(target, subjects=f"{target}.out.>").read_all()
        values = [json.loads(data) for data in found["data"].to_pylist()]
        assert [(value["id"], value["copy"]) for value in values] == expected(rows)
        tokens = [subject.rpartition(".")[2] for subject in found["subject"].to_pylist()]
        assert tokens == [value["key"] for value in values]
    return begun


if __name__ == "__main__":
    print(main(*sys.argv[1:4], *map(int, sys.argv[4:])))
