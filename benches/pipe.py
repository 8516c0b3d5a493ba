"""Measures pipes against reading and atomic publishing of the same rows, in one run.

    python benches/pipe.py [ROWS]

Prints rows per second, their ratio within a round (medians of three) to the slower of `js.read` and
`publish_batch(mode="atomic", chunk=1000)`, the time of a step without rows, and the growth of memory, as docs/pipes.md
has them.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jetarrow.sync
import pyarrow as pa
import pyarrow.compute as pc
from jetarrow.server import NatsServer

SCHEMA = {"id": "int64", "region": "string", "amount": "float64", "pad": "string"}


def passed(rows: pa.Table) -> pa.Table:
    """Pass payloads on."""
    subjects = pc.replace_substring(rows["subject"], "source.", "target.")
    return rows.select(["seq", "data"]).append_column("subject", subjects)


def doubled(rows: pa.Table) -> pa.Table:
    """Add a column to decoded rows."""
    return rows.append_column("double", pc.multiply(rows["amount"], 2))


def timed(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main(count: int = 500_000) -> None:
    numbers = range(count)
    rows = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "region": [("eu", "us")[number % 2] for number in numbers],
            "amount": [number * 0.5 for number in numbers],
            "pad": ["x" * 64] * count,
        }
    )
    rates: dict[str, list[float]] = {"read": [], "atomic": [], "pass": [], "decode": []}
    with NatsServer() as server, jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="SOURCE", subjects=["source.>"])
        js.publish_table(rows, "source.{region}").raise_for_errors()
        for turn in range(3):
            rates["read"].append(count / timed(js.read("SOURCE").read_all))
            messages = passed(js.read("SOURCE").read_all()).select(["subject", "data"])
            decode: dict[str, Any] = {"subject": "target.{region}", "schema": SCHEMA}
            works: dict[str, Callable[[], Any]] = {
                "atomic": partial(js.publish_batch, None, messages, mode="atomic", chunk=1000),
                "pass": js.pipe("SOURCE", "TARGET", passed, name=f"pass-{turn}").run,
                "decode": js.pipe("SOURCE", "TARGET", doubled, name=f"decode-{turn}", **decode).run,
            }
            for name, work in works.items():
                js.add_stream(name="TARGET", subjects=["target.>"], allow_atomic=True)
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                rates[name].append(count / timed(work))
                grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
                print(f"{name}: {rates[name][-1]:,.0f} rows/s, {grown} MB more memory")
                assert js.stream_info("TARGET").state.messages >= count
                js.delete_stream("TARGET")
        js.add_stream(name="TARGET", subjects=["target.>"], allow_atomic=True)
        with js.pipe("SOURCE", "TARGET", passed, name="idle", follow=True, seconds=0.000_1) as pipe:
            pipe.reset(count + 1)
            pipe.step()
            idle = timed(lambda: [pipe.step() for _ in range(100)]) / 100
    # Ratios within a round, so that a slow minute of the machine cancels out.
    slower = [min(pair) for pair in zip(rates["read"], rates["atomic"], strict=True)]
    for name, values in rates.items():
        ratio = statistics.median(rate / least for rate, least in zip(values, slower, strict=True))
        print(f"{name}: {statistics.median(values):,.0f} rows/s, {ratio:.2f} of the slower of read and atomic publish")
    print(f"a step without rows: {idle * 1000:.2f} ms")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
