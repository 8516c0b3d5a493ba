"""Answers: a table for people, JSON for scripts; both on stdout. Remarks and errors on stderr.

Text for people is always escaped (`jetarrow.cli.terminal`), so that a row is one line, also in a pager. JSON and
payloads are escaped on a terminal only.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from jetarrow.cli import terminal
from jetarrow.cli.masking import mask
from jetarrow.cli.units import plain_time, show_count

# Nothing is cut where nobody looks.
_WIDE = 100_000


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table: the rows' key, its heading, and how a value is shown."""

    key: str
    title: str
    show: Callable[[Any], str] | None = None


class _Console(Console):
    """Escapes all texts: also those that rich takes from stdout and stderr while it draws a bar."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=terminal.document(segment.text))


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or without a limit where there is none.

    Args:
        stderr: For progress and what is said beside the answer.
    """
    file = terminal.unguarded(sys.stderr if stderr else sys.stdout)
    return _Console(file=file, width=None if file.isatty() else _WIDE, highlight=False, soft_wrap=False)


def line(text: str) -> None:
    """Writes a line for people to stdout."""
    sys.stdout.write(f"{terminal.one_line(text)}\n")


def remark(text: str) -> None:
    """Writes a line to stderr: what is said beside the answer, warnings, errors. Secrets in URLs are masked."""
    sys.stderr.write(f"{terminal.one_line(mask(text))}\n")
    sys.stderr.flush()


def names(texts: Iterable[str]) -> None:
    """Writes names to stdout, one a line, for people and for scripts."""
    if sys.stdout.isatty():
        texts = map(terminal.one_line, texts)
    sys.stdout.write("".join(f"{text}\n" for text in texts))


def plain(value: Any) -> Any:
    """What JSON can hold: times as RFC 3339, spans as seconds, bytes as text, or base64 where they are none."""
    # Most values are one of these; the patterns below look at abstract classes, which takes long.
    if value is None or type(value) in (str, int, bool):
        return value
    match value:
        case datetime():
            return plain_time(value)
        case date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return text_of(value)
        case Mapping():
            return {str(key): plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case str() | int() | float():
            return value
        case _:
            return str(value)


def text_of(data: bytes) -> str:
    """A payload as text; base64, and `base64:` before it, where it is no UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()


def json_line(value: Any) -> None:
    """Writes one value as a line of JSON."""
    _write_json(json.dumps(plain(value), ensure_ascii=False, separators=(",", ":")))


def json_document(value: Any) -> None:
    """Writes one value as JSON that a person can read too."""
    _write_json(json.dumps(plain(value), ensure_ascii=False, indent=2))


def _write_json(text: str) -> None:
    sys.stdout.write(f"{terminal.json_text(text) if sys.stdout.isatty() else text}\n")


def shown(value: Any) -> str:
    """A value as text for a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return show_count(value)
    if isinstance(value, bytes | datetime | date | time | timedelta):
        return str(plain(value))
    if isinstance(value, Mapping):
        return json.dumps(plain(value), ensure_ascii=False)
    if isinstance(value, list | tuple):
        # Spark's and Arrow's maps are lists of pairs.
        return ", ".join(shown(inner) for inner in value)
    return str(value)


def table_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[Column], title: str | None = None) -> Table:
    """A table; numbers stand at the right.

    Args:
        rows: By the columns' keys.
        columns: What is shown, in this order.
        title: What stands above it.
    """
    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=False)
    for column in columns:
        number = any(isinstance(row[column.key], int | float) for row in rows)
        table.add_column(column.title, justify="right" if number else "left", overflow="fold")
    for row in rows:
        # As Text: what comes from a server is no markup.
        table.add_row(*(Text(terminal.one_line((column.show or shown)(row[column.key]))) for column in columns))
    return table


def facts(pairs: Iterable[tuple[str, Any]]) -> None:
    """Writes names and values, one pair a line; what is empty is left out."""
    shown_pairs = [(name, text) for name, value in pairs if (text := shown(value))]
    width = max((len(name) for name, _ in shown_pairs), default=0)
    for name, text in shown_pairs:
        line(f"{name:>{width}}  {text}")
