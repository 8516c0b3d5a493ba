"""Helpers: MIGRATION.md, and programs whose comments name the expected rules."""

from __future__ import annotations

import re
from pathlib import Path

from jetarrow.migrate import Finding, Kind, check_source

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "MIGRATION.md").read_text("utf-8")


def tables(first: str) -> list[list[str]]:
    """Returns the rows of all tables of MIGRATION.md whose first heading is this one, each as its cells."""
    rows: list[list[str]] = []
    lines = PAGE.splitlines()
    inside = False
    for number, line in enumerate(lines):
        if not line.startswith("|"):
            inside = False
        elif number + 1 < len(lines) and lines[number + 1].startswith("|---"):
            inside = line.split("|")[1].strip() == first
        elif inside and not line.startswith("|---"):
            rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def anchors() -> set[str]:
    """Returns the anchors of MIGRATION.md's headings, as GitHub and the site make them."""
    code = re.sub(r"^```.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in re.findall(r"^#+ (.*)$", code, re.MULTILINE)
    }


def findings(program: str, *, as_nats: bool = False) -> list[Finding]:
    """Returns the findings of a program."""
    return check_source(program.encode(), as_nats=as_nats)


def expected(program: str) -> list[tuple[int, str]]:
    """Returns line and rule of each comment `# ! rule rule`."""
    return sorted(
        (number, rule)
        for number, line in enumerate(program.splitlines(), 1)
        for rule in line.partition("# !")[2].split()
    )


def found(program: str) -> list[tuple[int, str]]:
    """Returns line and rule of each finding other than imports."""
    return sorted((one.line, one.rule) for one in findings(program) if one.kind is not Kind.IMPORT)
