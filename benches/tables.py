"""Writes the tables of a run: python benches/tables.py benches/history/0.1.0-2026-11-23.json

All of its rows go into a Markdown file beside the results, the main ones into README.md between its markers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->"
Row = dict[str, Any]

# Groups in README.md, in this order. Long links are a table of their own.
MAIN = [
    "publish, 128 B",
    "publish with message ids, 128 B",
    "publish into a stream with allow_batched, 128 B",
    "100 tasks awaiting publish, 128 B",
    "one awaited publish after another, 128 B",
    "read, 128 B",
    "read JSON",
    "fetch, 128 B",
    "fetch, 16 KiB",
    "ordered push, 128 B",
    "core publish, 128 B",
    "core subscription, async for, 128 B",
    "core subscription, callback, 128 B",
    "core requests, one after another, 128 B",
    "core requests, 100 tasks, 128 B",
    "key-value get, 100 tasks, 128 B",
    "key-value put, 100 tasks, 128 B",
    "key-value, all values, 128 B",
    "object put, 256 MiB",
    "object get, 256 MiB",
    "to_parquet, JSON, 7 fields",
    "publish_table, JSON, 7 fields",
    "Spark: slope of a batch read, 128 B",
    "Spark: slope of a batch write with ids, 128 B",
]
LINKS = ", long links"
# Fields that each row has; all others are columns of some groups.
COMMON = {"group", "kind", "name", "size", "count", "seconds", "rate", "rate_min", "rate_max", "of_baseline"}
COMMON |= {"of_peer", "client_cpu_us", "server_cpu_us", "skipped", "error"}


def number(value: float | None) -> str:
    """A figure as text; nothing if there is none."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1_000 or isinstance(value, int) else f"{value:.2f}"


def table(titles: Iterable[str], lines: Iterable[Iterable[str]]) -> list[str]:
    """The lines of a Markdown table; the first column is text."""
    titles = list(titles)
    head = ["| " + " | ".join(titles) + " |", "|---|" + "---:|" * (len(titles) - 1)]
    return head + ["| " + " | ".join(line) + " |" for line in lines]


def groups(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows that have figures, by group, in alphabetical order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("rate"):
            found.setdefault(row["group"], []).append(row)
    return dict(sorted(found.items()))


def full(results: dict[str, Any]) -> str:
    """All rows with all columns."""
    lines = [f"# Benches of {results['when'][:10]}", "", about(results), ""]
    for name, rows in groups(results["rows"]).items():
        further = list(dict.fromkeys(key for row in rows for key in row if key not in COMMON))
        titles = ["row", "msg/s", "min - max", "of baseline", "of peer", "client CPU, µs", "server CPU, µs", *further]
        fixed = ("of_baseline", "of_peer", "client_cpu_us", "server_cpu_us", *further)
        body = [
            [row["name"], f"{row['rate']:,.0f}", f"{row['rate_min']:,.0f} - {row['rate_max']:,.0f}"]
            + [number(row.get(key)) for key in fixed]
            for row in rows
        ]
        lines += [f"**{name}**", "", *table(titles, body), ""]
    return "\n".join(lines)


def main_rows(found: dict[str, list[Row]]) -> list[str]:
    """The rows of README.md, without the raw sockets, to which the others are compared."""
    titles = ["row", "msg/s", "of baseline", "of peer", "client CPU, µs", "server CPU, µs"]
    body = []
    for name in MAIN:
        body.append([f"**{name}**", *[""] * 5])
        for row in found.get(name, []):
            if not row["name"].startswith("raw socket"):
                keys = ("of_baseline", "of_peer", "client_cpu_us", "server_cpu_us")
                body.append([row["name"], f"{row['rate']:,.0f}", *[number(row.get(key)) for key in keys]])
    return table(titles, body)


def long_links(found: dict[str, list[Row]]) -> list[str]:
    """Each verb over a delay: messages a second, and the part of the rate without delay."""
    body, delays = [], []
    for name, rows in found.items():
        if name.endswith(LINKS):
            delays = [row["name"] for row in rows]
            cells = [f"{row['rate']:,.0f} ({row['of_baseline']:.2f})" for row in rows]
            body.append([name.removesuffix(LINKS), *cells])
    return table(["verb", *delays], body)


def about(results: dict[str, Any]) -> str:
    """The machine and the versions of a run."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    when = results["when"][:16].replace("T", " ")
    machine = f"{results['cpus']} CPUs ({results['cpu']}), shared with the server"
    load = f"load average {results['load_average'] or 0:.2f} at the start"
    rounds = f"{results['rounds']} interleaved rounds"
    if results.get("runs"):
        rounds = f"at most {results['runs']} runs of {rounds}"
    rounds = f"Python {results['python']}; medians of {rounds}"
    return f"{when} UTC; {machine};\n{load}; {rounds};\n{versions}."


def readme(results: dict[str, Any]) -> str:
    """The part of README.md between the markers."""
    found = groups(results["rows"])
    return "\n".join([about(results), "", *main_rows(found), "", *long_links(found), ""])


def main() -> None:
    """Writes both files."""
    if len(sys.argv) != 2:
        sys.exit("usage: python benches/tables.py RESULTS.json")
    path = Path(sys.argv[1])
    results = json.loads(path.read_text("utf-8"))
    path.with_suffix(".md").write_text(full(results), "utf-8")
    head, _, rest = README.read_text("utf-8").partition(BEGIN)
    README.write_text(head + BEGIN + readme(results) + END + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    main()
