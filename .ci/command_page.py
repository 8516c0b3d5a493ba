"""The reference of the command in Markdown, made from the help of the subcommands, for `.ci/site.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

# The page describes this checkout, whatever is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from jetarrow.cli.app import application
from jetarrow.cli.exit_codes import EXIT_CODES
from jetarrow.cli.help_pages import Entry, Page, read_help


def command_reference() -> str:
    """Return the page without its title."""
    groups, connection = read_help(application())
    parts = []
    for group in groups:
        is_group = len(group.pages) > 1
        parts.append(f"## {group.name}\n" + (f"\n{group.text}\n" if is_group else ""))
        parts += [_page(page, level="###" if is_group else "") for page in group.pages]
    options = _table("Option", connection)
    parts.append(f"## Connection options\n\nCommands that connect to a server accept:\n\n{options}")
    codes = "".join(f"| {code} | {text} |\n" for code, text in EXIT_CODES)
    parts.append(f"## Exit codes\n\n| Code | Meaning |\n|---|---|\n{codes}")
    return "\n".join(parts)


def _page(page: Page, level: str) -> str:
    heading = f"{level} {' '.join(page.path)}\n\n" if level else ""
    parts = [f"{heading}```text\n{page.usage}\n```\n\n{page.text}\n"]
    if page.arguments:
        parts.append(_table("Argument", page.arguments))
    if page.options:
        parts.append(_table("Option", page.options))
    if page.connects:
        parts.append("Also the [connection options](#connection-options).\n")
    if page.shapes:
        parts.append("".join(f"- `--json`: {_keys(shape.text)}\n" for shape in page.shapes))
    parts.append(f"```text\n{page.example}\n```\n")
    return "\n".join(parts)


def _keys(text: str) -> str:
    """Return a shape with its keys as code, so that `_` is not emphasis."""
    start, separator, keys = text.rpartition(" with ")
    if not separator or " of " in keys:
        return text
    return f"{start}{separator}" + ", ".join(f"`{key}`" for key in keys.split(", "))


def _table(head: str, entries: Iterable[Entry]) -> str:
    rows = "".join(f"| `{names.replace('|', chr(92) + '|')}` | {_cell(text)} |\n" for names, text in entries)
    return f"| {head} | Meaning |\n|---|---|\n{rows}"


def _cell(text: str) -> str:
    for sign in "\\|<>{}*_$[]":
        text = text.replace(sign, f"\\{sign}")
    return text
