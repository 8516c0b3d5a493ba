"""The manual page `jetarrow(1)`, made from the help of the subcommands."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jetarrow.cli.exit_codes import EXIT_CODES
from jetarrow.cli.help_pages import Entry, Group, Page

_FOOTNOTE = (
    "Variables of the environment that replace options are named in CONNECTION OPTIONS. NO_COLOR disables colours."
)


def man_page(groups: Iterable[Group], connection: Iterable[Entry], version: str) -> str:
    """Return the page in the format of man(7).

    Args:
        groups: Help of the groups, as of `read_help`.
        connection: Options of the connection.
        version: Version of jetarrow.
    """
    lines = [
        f'.TH JETARROW 1 "" "jetarrow {_quoted(version)}" "User Commands"',
        ".SH NAME",
        "jetarrow \\- inspect NATS JetStream, publish tables to streams and read streams into tables",
        ".SH SYNOPSIS",
        ".B jetarrow",
        "\\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]",
        ".SH DESCRIPTION",
        "Results are written to stdout, progress and errors to stderr. With",
        ".B \\-\\-json",
        "each command writes the documented keys, for scripts.",
    ]
    for group in groups:
        lines.append(f".SH {_quoted(group.name.upper())}")
        if len(group.pages) > 1:
            lines += _paragraph(group.text)
        for page in group.pages:
            lines += _command(page)
    lines += [".SH CONNECTION OPTIONS", "Commands that connect accept these options.", *_entries(connection)]
    lines += [".SH EXIT STATUS", *_entries((str(code), text.replace("`", "")) for code, text in EXIT_CODES)]
    lines += [".SH ENVIRONMENT", *_paragraph(_FOOTNOTE)]
    return "\n".join(lines) + "\n"


def _command(page: Page) -> list[str]:
    lines = [f".SS {_quoted(page.usage)}", *_paragraph(page.text), *_entries([*page.arguments, *page.options])]
    if page.connects:
        lines += [".PP", "It accepts the options of CONNECTION OPTIONS."]
    for shape in page.shapes:
        lines += [".PP", "\\fB\\-\\-json\\fR:", _quoted(shape.text)]
    return [*lines, ".PP", "Example:", ".PP", ".nf", ".RS", _quoted(page.example), ".RE", ".fi"]


def _paragraph(text: str) -> list[str]:
    paragraphs = [_quoted(" ".join(part.split())) for part in re.split(r"\n\s*\n", text) if part.strip()]
    return [line for part in paragraphs for line in (".PP", part)]


def _entries(entries: Iterable[Entry]) -> list[str]:
    return [line for names, text in entries for line in (".TP", f"\\fB{_quoted(names)}\\fR", _quoted(text))]


def _quoted(text: str) -> str:
    """Return a text in which no character has a meaning in roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\\&" + text if text.startswith((".", "\\(aq")) else text
