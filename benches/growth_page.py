"""Draws and tabulates the results of growth.py: python benches/growth_page.py .benchmarks/growth.json

Writes docs/growth.svg, and the part of docs/performance.md between its markers.
"""

from __future__ import annotations

import json
import math
import sys
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from plot import STYLE
from tables import about, table

DOCS = Path(__file__).resolve().parents[1] / "docs"
BEGIN, END = "<!-- growth -->\n", "<!-- /growth -->"
PICTURE = "![Microseconds per message as rows, subjects, streams, subscriptions and consumers grow](growth.svg)"
Row = dict[str, Any]

NAMES = {
    "publish_rows": "publish_batch",
    "publish_subjects": "publish_batch",
    "read": "js.read",
    "read_ranges": "js.read, 1,000 calls",
    "read_streams": "js.read, one call per stream",
    "read_streams_in_tasks": "js.read, one call per stream, 16 tasks",
    "latest": "js.latest, ms per call",
    "callbacks": "callback",
    "iterations": "async for",
    "fetch": "fetch_batch, 1,000 calls",
    "raw_publish": "raw socket, publish",
    "raw_read": "raw socket, read",
    "raw_read_ranges": "raw socket, 1,000 reads",
    "raw_receive": "raw socket",
    "raw_fetch": "raw socket, 1,000 pulls",
}
PER_CALL = {"latest"}
# Works that only the tables have: their unit differs, or they repeat a line of the picture.
NOT_DRAWN = {"latest", "read_streams", "read_streams_in_tasks"}
DASHED = {"read", "raw_read", "read_ranges", "raw_read_ranges", "iterations"}
# Labels of the picture, if they differ.
SHORT = {
    "read_ranges": "js.read",
    "fetch": "fetch_batch",
    "raw_publish": "raw, publish",
    "raw_read": "raw, read",
    "raw_read_ranges": "raw, read",
    "raw_fetch": "raw socket",
}

WIDTH, PANEL, HEIGHT = 860, 430, 190  # of the picture, and of a panel with its title
LEFT, RIGHT, TOP, BOTTOM = 34, 110, 30, 24  # space around the lines of a panel
LABEL_STEP = 14  # least distance of two labels

LINES = """
.line { fill: none; stroke: #e8590c; stroke-width: 2; }
.line-raw { stroke: #b6bfc9; }
.dashed { stroke-dasharray: 5 3; }
.dot { fill: #e8590c; }
.dot-raw { fill: #b6bfc9; }
.axis { stroke: #d9dee3; stroke-width: 1; }
@media (prefers-color-scheme: dark) {
  .line { stroke: #ff922b; }
  .line-raw { stroke: #59636e; }
  .dot { fill: #ff922b; }
  .dot-raw { fill: #59636e; }
  .axis { stroke: #3d444d; }
}
"""


class Line(NamedTuple):
    label: str
    kind: str  # "" or "-raw"
    dashed: bool
    points: list[tuple[int, float]]  # size and value


def grouped(rows: list[Row]) -> dict[str, dict[str, list[Row]]]:
    """The rows by dimension and work, in their order."""
    found: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        found.setdefault(row["dimension"], {}).setdefault(row["work"], []).append(row)
    return found


def count_text(number: int) -> str:
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= 10 * unit or (number >= unit and unit > 1_000):
            return f"{number // unit} {letter}"
    return f"{number:,}"


def figure(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.1f}" if value < 1_000 else f"{value:,.0f}"


def growth(rows: list[Row], key: str) -> str:
    """The value at the largest size relative to that at the smallest one."""
    first, last = rows[0].get(key), rows[-1].get(key)
    return f"{last / first:.2f}" if first and last else ""


def work_lines(work: str, rows: list[Row]) -> list[list[str]]:
    """The lines of a work: cost with the ratio to the raw socket, and memory."""
    name, unit = NAMES[work], 1_000 if work in PER_CALL else 1
    cells = [figure(row["us"] / unit) + (f" ({row['of_raw']:.2f})" if "of_raw" in row else "") for row in rows]
    # The server's CPU time has steps of 10 ms, which are longer than a call.
    servers = "" if work in PER_CALL else growth(rows, "server_us")
    found = [[name, *cells, growth(rows, "us"), growth(rows, "client_us"), servers]]
    if rows[0].get("memory") is not None:
        found.append([f"{name.removesuffix(', ms per call')}, peak MiB", *[f"{row['memory']:.1f}" for row in rows]])
        found[-1] += [growth(rows, "memory"), "", ""]
    return found


def tables(results: dict[str, Any]) -> str:
    """One table per dimension, in Markdown."""
    parts = [about(results)]
    for dimension, works in grouped(results["rows"]).items():
        sizes = [count_text(row["size"]) for row in next(iter(works.values()))]
        body = [line for work, rows in works.items() for line in work_lines(work, rows)]
        titles = [dimension, *sizes, "growth", "client CPU", "server CPU"]
        parts += ["", *table(titles, body)]
    return "\n".join(parts) + "\n"


def lines_of(works: dict[str, list[Row]]) -> list[Line]:
    return [
        Line(
            SHORT.get(work, NAMES[work]),
            "-raw" if work.startswith("raw") else "",
            work in DASHED,
            [(row["size"], row["us"]) for row in rows],
        )
        for work, rows in sorted(works.items(), key=lambda item: not item[0].startswith("raw"))
        if work not in NOT_DRAWN
    ]


def memory_lines(works: dict[str, list[Row]]) -> list[Line]:
    return [
        Line(NAMES[work], "", work in DASHED, [(row["size"], row["memory"]) for row in rows])
        for work, rows in works.items()
        if rows[0].get("memory") is not None
    ]


def ceiling(value: float) -> float:
    """The next of 1, 2, 3, 4, 5, 6, 8, 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next((step * power for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * power >= value), 10 * power)


def panel(title: str, lines: list[Line], x: int, y: int) -> list[str]:
    """A panel with its upper left corner at x, y: sizes on a logarithmic axis, values from 0."""
    left, right, top, bottom = x + LEFT, x + PANEL - RIGHT, y + TOP, y + HEIGHT - BOTTOM
    sizes = sorted({size for line in lines for size, _ in line.points})
    most = ceiling(max(value for line in lines for _, value in line.points))
    span = math.log(sizes[-1] / sizes[0]) or 1.0

    def place(size: int, value: float) -> tuple[float, float]:
        across = math.log(size / sizes[0]) / span
        return left + across * (right - left), bottom - value / most * (bottom - top)

    found = [f'<text class="title" x="{x}" y="{y + 14}">{escape(title)}</text>']
    for value in (0.0, most / 2, most):
        at = place(sizes[0], value)[1]
        found.append(f'<line class="axis" x1="{left}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}"/>')
        found.append(f'<text class="note" x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>')
    for size in sizes:
        at = place(size, 0)[0]
        found.append(
            f'<text class="note" x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{count_text(size)}</text>'
        )
    for line in lines:
        points = [place(*point) for point in line.points]
        style = f"line line{line.kind}" + (" dashed" if line.dashed else "")
        text = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
        found.append(f'<polyline class="{style}" points="{text}"/>')
        found += [f'<circle class="dot dot{line.kind}" cx="{a:.1f}" cy="{d:.1f}" r="3"/>' for a, d in points]
    return found + labels([(line, place(*line.points[-1])[1]) for line in lines], right + 8, bottom)


def labels(lines: list[tuple[Line, float]], x: float, bottom: float) -> list[str]:
    """The labels beside the ends of the lines, moved up until none covers another."""
    found, free = [], bottom + LABEL_STEP
    for line, y in sorted(lines, key=lambda item: -item[1]):
        free = min(y, free - LABEL_STEP)
        style = "other" if line.kind else "ours"
        found.append(f'<text class="{style}" x="{x}" y="{free + 4:.1f}">{escape(line.label)}</text>')
    return found


def draw(results: dict[str, Any]) -> str:
    """The picture: a panel per dimension, and the memory of the first one."""
    found = grouped(results["rows"])
    panels = [(f"{name.capitalize()}: µs per message", lines_of(works)) for name, works in found.items()]
    if "rows" in found:
        panels.append(("Rows: peak memory, MiB", memory_lines(found["rows"])))
    body: list[str] = []
    for number, (title, lines) in enumerate(panels):
        body += panel(title, lines, number % 2 * PANEL, number // 2 * (HEIGHT + 12))
    y = math.ceil(len(panels) / 2) * (HEIGHT + 12)
    machine = f"{results['cpus']} CPUs ({results['cpu']}) shared with the server"
    note = f"128 B, medians of {results['rounds']} interleaved rounds, file store. {machine}."
    body.append(f'<text class="note" x="0" y="{y + 10}">{escape(note)}</text>')
    size = f'width="{WIDTH}" height="{y + 18}" viewBox="0 0 {WIDTH} {y + 18}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="Microseconds per message">'
    return "\n".join([head, f"<style>{STYLE}{LINES}</style>", *body, "</svg>"]) + "\n"


def section(results: dict[str, Any]) -> str:
    """The part of docs/performance.md between the markers."""
    return f"\n{PICTURE}\n\n{tables(results)}\n"


def write(results: dict[str, Any], docs: Path = DOCS) -> None:
    """Write picture and section."""
    page = docs / "performance.md"
    head, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no section between {BEGIN.strip()} and {END}")
    page.write_text(head + begin + section(results) + end + tail, "utf-8")
    (docs / "growth.svg").write_text(draw(results), "utf-8")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python benches/growth_page.py RESULTS.json")
    write(json.loads(Path(sys.argv[1]).read_text("utf-8")))


if __name__ == "__main__":
    main()
