"""`jetarrow stream report`: storage, rates and lag of all streams."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import stream
from jetarrow.cli.json_shape import array_of
from jetarrow.cli.live import interval, measure_once, redraw, table_parts
from jetarrow.cli.output import Column
from jetarrow.cli.rates import Sample, rates_of
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import counted, show_change, show_rate, show_size, show_time

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = (
    Column("name", "Stream"),
    Column("storage", "Storage"),
    Column("replicas", "Replicas"),
    Column("messages", "Messages"),
    Column("bytes", "Size", show_size),
    Column("bytes_per_second", "Size/s", show_change),
    Column("full", "Full", lambda full: "" if full is None else f"{full:.0%}"),
    Column("in_per_second", "In/s", show_rate),
    Column("out_per_second", "Out/s", show_rate),
    Column("lag", "Lag"),
    Column("last_time", "Last message", show_time),
)
_RATES = ("in_per_second", "out_per_second", "bytes_per_second", "lag", "max_bytes")
# Lines of the screen that are not rows: headings, omitted rows, totals and the last line.
_OTHER_LINES = 7
_KEYS = f"{stream.ROW} in_per_second out_per_second bytes_per_second lag max_bytes full"


@verb(stream.group, "report", example="jetarrow stream report --follow", json=array_of(_KEYS))
def report(
    session: Session,
    every: Annotated[str, typer.Option(help="Interval of the measurement.", metavar="SPAN")] = "1s",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Redraw the report until q is pressed.")] = False,
) -> None:
    """Lists the streams, the largest first: storage, rates in the interval, lag of the slowest consumer, and totals."""
    seconds, js = interval(every), session.js
    if follow and not session.as_json and sys.stdout.isatty():
        redraw(js, seconds, _screen)
        return
    rows = _rows(*measure_once(js, seconds))
    session.rows(rows, _COLUMNS, "no streams")
    if rows and not session.as_json:
        session.say(_totals(rows))


def _rows(before: Sample, after: Sample) -> list[dict[str, Any]]:
    rows = []
    for rates in rates_of(before, after)[0]:
        row = {**after.streams[rates["stream"]], **{key: rates[key] for key in _RATES}}
        row["full"] = row["bytes"] / row["max_bytes"] if row["max_bytes"] else None
        rows.append(row)
    return sorted(rows, key=lambda one: (-int(one["bytes"]), one["name"]))


def _totals(rows: list[dict[str, Any]]) -> str:
    messages, held = (sum(int(one[key]) for one in rows) for key in ("messages", "bytes"))
    return f"{counted(len(rows), 'stream')}, {counted(messages, 'message')}, {show_size(held)}"


def _screen(before: Sample, after: Sample, height: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    rows = _rows(before, after)
    last = Text("q quits", style="dim")
    if not rows:
        return Group(Text("no streams"), last)
    return Group(*table_parts(rows, _COLUMNS, max(height - _OTHER_LINES, 4)), Text(_totals(rows)), last)
