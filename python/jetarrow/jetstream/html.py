"""HTML tables for notebooks. All text is escaped, and a cell has at most 200 characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

LONGEST = 200
# Most rows of a batch that are shown.
ROWS = 10


def cell(value: object) -> str:
    """A value as the text of a cell, truncated."""
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray | memoryview):
        head = bytes(value[: LONGEST + 1])
        text = head.decode("utf-8", "replace")
        text = text if text.isprintable() or text.replace("\n", " ").isprintable() else repr(head)[2:-1]
    else:
        text = str(value)
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return escape(text)


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a caption, an optional row of names, and rows of values."""
    head = "".join(f"<th>{cell(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return (
        f"<table><caption>{cell(caption)}</caption>"
        f"{f'<thead><tr>{head}</tr></thead>' if header else ''}<tbody>{body}</tbody></table>"
    )


def facts(caption: str, values: Mapping[str, object]) -> str:
    """A table of names and values, without those that are None."""
    return table(caption, (), ((name, value) for name, value in values.items() if value is not None))


def batch(caption: str, rows: Any, names: Sequence[str], count: int) -> str:
    """The first rows of a record batch of pyarrow. Headers are shown without values, which may be credentials."""
    found = rows.slice(0, ROWS).to_pylist()
    shown = [[_value(name, row[name]) for name in names] for row in found]
    more = "" if count <= ROWS else f", the first {ROWS}"
    return table(f"{caption}: {count:,} rows{more}", names, shown)


def _value(name: str, value: Any) -> object:
    if name == "headers" and value is not None:
        return ", ".join(key for key, _ in value)
    return value
