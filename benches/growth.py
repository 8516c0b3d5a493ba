"""Measures how the cost of a message grows with rows, subjects, streams, subscriptions and consumers.

    python benches/growth.py [--scale 0.01] [--rounds 1] [--only subjects]

Each point is measured in a new process, beside a raw socket that does the same. Writes .benchmarks/growth.json and
prints the tables. A run of everything at full scale also writes docs/growth.svg and the section of docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import growth_page
import report
import wire
from growth_point import CALLS, Point

RESULTS = Path(__file__).resolve().parents[1] / ".benchmarks" / "growth.json"
COUNT = 300_000  # messages of every dimension but rows
TIMEOUT = 600.0  # seconds of one child; against a hang only


@dataclass(frozen=True)
class Dimension:
    """Sizes of one axis, and the works of a point. A work is named with the raw socket that it is compared with."""

    name: str
    sizes: tuple[int, ...]
    works: dict[str, str | None]


DIMENSIONS = [
    Dimension("rows", (10_000, 100_000, 1_000_000, 10_000_000), {"publish_rows": "raw_publish", "read": "raw_read"}),
    Dimension(
        "subjects",
        (1, 10, 100, 1_000),
        {"publish_subjects": "raw_publish", "read": "raw_read", "latest": None},
    ),
    Dimension(
        "streams",
        (1, 10, 100, 1_000),
        {
            "publish_subjects": "raw_publish",
            "read_ranges": "raw_read_ranges",
            "read_streams": None,
            "read_streams_in_tasks": None,
        },
    ),
    Dimension(
        "subscriptions",
        (1, 10, 100, 1_000, 10_000),
        {"callbacks": "raw_receive", "iterations": "raw_receive"},
    ),
    Dimension("consumers", (1, 10, 100, 1_000), {"fetch": "raw_fetch"}),
]


class Bench:
    """Runs all points against one server and collects the rounds of each."""

    def __init__(self, url: str, server_pid: int, scale: float) -> None:
        self.url = url
        self.server_pid = server_pid
        self.scale = scale
        self.rounds: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
        self.counts: dict[tuple[str, int], int] = {}

    def round(self, dimension: Dimension, number: int) -> None:
        """Measure all sizes once, each round beginning with another size and with the other kind of client."""
        at = number % len(dimension.sizes)
        for size in dimension.sizes[at:] + dimension.sizes[:at]:
            start = time.perf_counter()
            self._size(dimension, size, raw_first=number % 2 == 1)
            seconds = time.perf_counter() - start
            print(f"round {number + 1}: {dimension.name} {size:,}, {seconds:.1f} s", file=sys.stderr, flush=True)

    def _size(self, dimension: Dimension, size: int, *, raw_first: bool) -> None:
        count = round((size if dimension.name == "rows" else COUNT) * self.scale)
        # Every subject, stream or call has the same number of messages.
        unit = 100 if dimension.name == "rows" else CALLS if dimension.name == "consumers" else math.lcm(CALLS, size)
        count = max(1, round(count / unit)) * unit
        self.counts[dimension.name, size] = count
        blank = Point(self.url, self.server_pid, "", "", streams=1, parts=1, count=count)
        ours = list(dimension.works)
        raw = list(dict.fromkeys(name for name in dimension.works.values() if name))
        order = [*raw, *ours] if raw_first else [*ours, *raw]
        if dimension.name == "subscriptions":
            for work in order:
                self._measure(dimension, size, replace(blank, work=work, token=new_token(), parts=size))
            return
        if dimension.name == "consumers":
            with self._streams(replace(blank, token=new_token(), count=2 * count)) as point:
                growth = replace(point, parts=size, count=count)
                fill(replace(growth, parts=1, count=2 * count))
                add_consumers(growth)
                for work in order:
                    self._measure(dimension, size, replace(growth, work=work))
            return
        parts = 1 if dimension.name == "rows" else size
        streams = size if dimension.name == "streams" else 1
        point = replace(blank, parts=parts, streams=streams)
        # The verb's publish fills the streams that are read; the raw socket's publish has streams of its own.
        publish, *reads = ours
        reads += [name for name in raw if name != "raw_publish"]
        for mine in (False, True) if raw_first else (True, False):
            with self._streams(replace(point, token=new_token())) as made:
                self._measure(dimension, size, replace(made, work=publish if mine else "raw_publish"))
                for work in (reads[::-1] if raw_first else reads) if mine else []:
                    # One call of `latest` is its unit; its rows are one per subject.
                    counted = replace(made, count=1) if work == "latest" else made
                    self._measure(dimension, size, replace(counted, work=work))

    def _measure(self, dimension: Dimension, size: int, point: Point) -> None:
        script = str(Path(__file__).with_name("growth_work.py"))
        given = [sys.executable, script, json.dumps(asdict(point))]
        ran = subprocess.run(given, capture_output=True, text=True, check=False, timeout=TIMEOUT)
        if ran.returncode:
            raise RuntimeError(f"{dimension.name} {size}, {point.work}:\n{ran.stderr}")
        found = json.loads(ran.stdout.splitlines()[-1])
        self.rounds.setdefault((dimension.name, size, point.work), []).append(found)

    @contextmanager
    def _streams(self, point: Point) -> Iterator[Point]:
        """Create the streams of a point, and delete them at the end."""
        subjects = [f"{point.token}.>"] if point.streams == 1 else point.subjects
        with wire.Wire(self.url) as connection:
            for name, subject in zip(point.stream_names, subjects, strict=True):
                body = {"name": name, "subjects": [subject], "storage": "file", "num_replicas": 1}
                connection.request(f"$JS.API.STREAM.CREATE.{name}", body)
        try:
            yield point
        finally:
            with wire.Wire(self.url) as connection:
                for name in point.stream_names:
                    connection.request(f"$JS.API.STREAM.DELETE.{name}")

    def rows(self, dimensions: list[Dimension]) -> list[dict[str, Any]]:
        """Return one row per dimension, work and size."""
        found = []
        for dimension in dimensions:
            raws = dict.fromkeys(name for name in dimension.works.values() if name)
            for work in [*dimension.works, *raws]:
                for size in dimension.sizes:
                    row = self._row(dimension, size, work)
                    found.append({"dimension": dimension.name, "work": work, "size": size, **row})
        return found

    def _row(self, dimension: Dimension, size: int, work: str) -> dict[str, Any]:
        rounds = self.rounds[dimension.name, size, work]
        costs = [cost(one, 0) for one in rounds]
        row: dict[str, Any] = {"count": self.counts[dimension.name, size], "costs": costs}
        row["us"] = statistics.median(costs)
        row["client_us"] = statistics.median(cost(one, 1) for one in rounds)
        servers = [server_cost(one) for one in rounds if one["calls"][0][2] is not None]
        row["server_us"] = statistics.median(servers) if servers else None
        for key in ("memory", "setup"):
            values = [one[key] for one in rounds if one[key] is not None]
            row[key] = statistics.median(values) if values else None
        if raw := dimension.works.get(work):
            others = [cost(one, 0) for one in self.rounds[dimension.name, size, raw]]
            row["of_raw"] = statistics.median(other / mine for mine, other in zip(costs, others, strict=True))
        return row


def server_cost(found: dict[str, Any]) -> float:
    """Return the server's CPU per message. It has steps of 10 ms, so it is the mean of the calls without a slope."""
    return float(statistics.mean(call[2] for call in found["calls"]) / found["rows"] * 1e6)


def cost(found: dict[str, Any], field: int) -> float:
    """Return microseconds per message: the slope from the fixed cost if that was measured. Field 0 is time, 1 CPU."""
    seconds = statistics.median(call[field] for call in found["calls"])
    fixed = statistics.median(call[field] for call in found["fixed"]) if found["fixed"] else 0.0
    return float((seconds - fixed) / (found["rows"] - found["fixed_rows"]) * 1e6)


def new_token() -> str:
    return uuid.uuid4().hex[:12]


def fill(point: Point) -> None:
    wire.publish(point.url, point.subjects[0], point.size, point.count)


def add_consumers(point: Point) -> None:
    stream = point.stream_names[0]
    config = {"ack_policy": "none", "deliver_policy": "all", "mem_storage": True, "inactive_threshold": 600 * 10**9}
    with wire.Wire(point.url) as connection:
        for name in point.consumers:
            body = {"stream_name": stream, "config": {**config, "name": name}, "action": "create"}
            connection.request(f"$JS.API.CONSUMER.CREATE.{stream}.{name}", body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on all message counts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=[one.name for one in DIMENSIONS], help="may be repeated")
    args = parser.parse_args()
    import jetarrow._jetarrow
    from jetarrow.server import NatsServer

    if jetarrow._jetarrow.__debug_build__:
        sys.exit("benches need a release build: run make bench-growth")
    dimensions = [one for one in DIMENSIONS if not args.only or one.name in args.only]
    about = report.machine() | {"rounds": args.rounds, "scale": args.scale}
    begin = time.perf_counter()
    with NatsServer() as server:
        bench = Bench(server.url, server.pid, args.scale)
        for number in range(args.rounds):
            for dimension in dimensions:
                bench.round(dimension, number)
        about["slow_consumer_lines"] = server.log.lower().count("slow consumer")
    results = about | {"seconds": time.perf_counter() - begin, "rows": bench.rows(dimensions)}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    print(growth_page.tables(results))
    print(f"written to {RESULTS}", file=sys.stderr)
    if args.scale == 1.0 and not args.only:
        growth_page.write(results)


if __name__ == "__main__":
    main()
