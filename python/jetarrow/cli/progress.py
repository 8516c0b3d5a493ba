"""Progress bar on stderr."""

from __future__ import annotations

import sys

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from jetarrow.cli import output, terminal
from jetarrow.cli.units import show_count, show_size


class _Done(ProgressColumn):
    """Column of count, total and rate: `12,000 of 90,000 rows  31,000/s`."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """Return the text of this column."""
        show = show_size if self._unit == "bytes" else show_count
        unit = "" if self._unit == "bytes" else f" {self._unit}"
        total = f" of {show(task.total)}" if task.total is not None else ""
        speed = task.finished_speed or task.speed
        rate = f"  {show(speed)}/s" if speed else ""
        return Text(f"{show(task.completed)}{total}{unit}{rate}")


class _Progress(Progress):
    """Progress that escapes text written by others while it is drawn."""

    def start(self) -> None:
        super().start()
        terminal.guard_proxies()


def bar(unit: str, *, transient: bool = False) -> Progress:
    """Return a progress bar for a `with` block: count, rate and remaining time.

    Args:
        unit: Unit of the count; "bytes" are shown as sizes.
        transient: Whether the bar is erased at its end.
    """
    # Without markup, because a file name in the description may contain brackets.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        _Done(unit),
        TimeRemainingColumn(),
    )
    console = output.console(stderr=True)
    return _Progress(*columns, console=console, disable=not sys.stderr.isatty(), transient=transient)
