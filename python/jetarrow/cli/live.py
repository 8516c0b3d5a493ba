"""Screens that are redrawn until q is pressed."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from jetarrow.cli import output, terminal
from jetarrow.cli.output import Column
from jetarrow.cli.rates import Sample, take_sample
from jetarrow.cli.units import span

if TYPE_CHECKING:
    from rich.console import RenderableType

    from jetarrow.sync import JetStream

_T = TypeVar("_T")
# Shortest interval in seconds.
_SHORTEST = 0.1


def interval(text: str) -> float:
    """Parse the option `--every` into seconds.

    Args:
        text: The option's value.

    Raises:
        BadParameter: It is not a duration, or shorter than 100 ms.
    """
    seconds = span(text)
    if seconds < _SHORTEST:
        raise typer.BadParameter("the minimum is 100ms.", param_hint="--every")
    return seconds


def measure_once(js: JetStream, seconds: float) -> tuple[Sample, Sample]:
    """Return two samples.

    Args:
        js: A blocking context.
        seconds: Time between them.
    """
    before = take_sample(js)
    time.sleep(seconds)
    return before, take_sample(js)


def redraw(js: JetStream, seconds: float, screen: Callable[[Sample, Sample, int], RenderableType]) -> None:
    """Draw the screen of the last two samples until q is pressed.

    Args:
        js: A blocking context.
        seconds: Time between two samples.
        screen: Returns the screen of two samples for a terminal of the given number of lines.
    """
    redraw_states(lambda: take_sample(js), seconds, screen)


def redraw_states(take: Callable[[], _T], seconds: float, screen: Callable[[_T, _T, int], RenderableType]) -> None:
    """Draw the screen of the last two states until q is pressed.

    Args:
        take: Returns the state.
        seconds: Time between two states.
        screen: Returns the screen of two states for a terminal of the given number of lines.
    """
    from rich.live import Live

    before = after = take()
    console = output.console()
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        terminal.guard_proxies()
        while True:
            live.update(screen(before, after, console.height), refresh=True)
            if pressed(seconds) == "q":
                return
            before, after = after, take()


def table_parts(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], most: int | None) -> list[RenderableType]:
    """Return a table as parts of a screen, followed by the number of omitted rows; nothing without rows.

    Args:
        rows: Rows by the columns' keys.
        columns: Columns in display order.
        most: Number of rows that fit; None for all.
    """
    from rich.text import Text

    if not rows:
        return []
    parts: list[RenderableType] = [output.table_of(rows[:most], columns)]
    if most is not None and len(rows) > most:
        parts.append(Text(f"and {len(rows) - most:,} more", style="dim"))
    return [*parts, Text()]


@contextlib.contextmanager
def _keys() -> Iterator[Any]:
    """Provide a function that waits for a key press for a number of seconds; the terminal does not wait for Enter."""
    if sys.platform == "win32":
        yield _windows_key
        return
    if not sys.stdin.isatty():
        yield lambda seconds: time.sleep(seconds)
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    former = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)

    def pressed(seconds: float) -> str | None:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        # End of input counts as q.
        return (os.read(descriptor, 1) or b"q").decode("latin-1") if ready else None

    try:
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, former)


def _windows_key(seconds: float) -> str | None:
    import msvcrt

    keys: Any = msvcrt  # its functions exist on Windows only, for type checkers as well
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if keys.kbhit():
            return str(keys.getwch())
        time.sleep(0.02)
    return None
