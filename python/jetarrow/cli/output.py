"""Output: tables for people and JSON for scripts on stdout, remarks and errors on stderr.

Text for people is always escaped (`jetarrow.cli.terminal`), so a row is one line in a pager too. JSON and payloads are
escaped on a terminal only.
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

# Columns of a console that is not a terminal, so that no output is truncated.
_WIDE = 100_000


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table: key in the rows, heading, and the function that formats a value."""

    key: str
    title: str
    show: Callable[[Any], str] | None = None


class _Console(Console):
    """Console that escapes all text, including text that rich captures from stdout and stderr under a progress bar."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=terminal.document(segment.text))


def console(*, stderr: bool = False) -> Console:
    """Return a console of the terminal's width, or of unlimited width if the stream is not a terminal.

    Args:
        stderr: Whether it writes to stderr, for progress and remarks.
    """
    file = terminal.unguarded(sys.stderr if stderr else sys.stdout)
    return _Console(file=file, width=None if file.isatty() else _WIDE, highlight=False, soft_wrap=False)


def line(text: str) -> None:
    """Write a line for people to stdout."""
    sys.stdout.write(f"{terminal.one_line(text)}\n")


def remark(text: str) -> None:
    """Write a remark, warning or error as a line to stderr, with secrets masked."""
    sys.stderr.write(f"{terminal.one_line(mask(text))}\n")
    sys.stderr.flush()


def names(texts: Iterable[str]) -> None:
    """Write names to stdout, one per line, for people and for scripts."""
    if sys.stdout.isatty():
        texts = map(terminal.one_line, texts)
    sys.stdout.write("".join(f"{text}\n" for text in texts))


def plain(value: Any) -> Any:
    """Return a value as JSON types: times as RFC 3339, durations in seconds, bytes as text or base64."""
    # Fast path for most values: the patterns below check abstract classes, which is slow.
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
    """Return a payload as text, or as `base64:` and base64 if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()


def json_line(value: Any) -> None:
    """Write a value as one line of JSON."""
    _write_json(json.dumps(plain(value), ensure_ascii=False, separators=(",", ":")))


def json_document(value: Any) -> None:
    """Write a value as indented JSON."""
    _write_json(json.dumps(plain(value), ensure_ascii=False, indent=2))


def _write_json(text: str) -> None:
    sys.stdout.write(f"{terminal.json_text(text) if sys.stdout.isatty() else text}\n")


def shown(value: Any) -> str:
    """Return a value as text for a table."""
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
        # Maps of Spark and Arrow are lists of pairs.
        return ", ".join(shown(inner) for inner in value)
    return str(value)


def table_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[Column], title: str | None = None) -> Table:
    """Return a table with numbers aligned to the right.

    Args:
        rows: Rows by the columns' keys.
        columns: Columns in display order.
        title: Title of the table.
    """
    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=False)
    for column in columns:
        number = any(isinstance(row[column.key], int | float) for row in rows)
        table.add_column(column.title, justify="right" if number else "left", overflow="fold")
    for row in rows:
        # As Text, because data from a server must not be parsed as markup.
        table.add_row(*(Text(terminal.one_line((column.show or shown)(row[column.key]))) for column in columns))
    return table


def facts(pairs: Iterable[tuple[str, Any]]) -> None:
    """Write names and values, one pair per line, without empty values."""
    shown_pairs = [(name, text) for name, value in pairs if (text := shown(value))]
    width = max((len(name) for name, _ in shown_pairs), default=0)
    for name, text in shown_pairs:
        line(f"{name:>{width}}  {text}")
