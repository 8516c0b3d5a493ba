"""Findings: lines of a program that need attention."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """Kind of a finding."""

    IMPORT = "import"
    MISSING = "missing"
    DIFFERENCE = "difference"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, order=True)
class Finding:
    """A line that needs attention.

    Attributes:
        path: The file, as its folder was given.
        line: Line, from 1.
        column: Character in the line, from 1.
        kind: An import of nats-py, a name that jetarrow does not have, a documented difference, or a file that cannot
            be read as Python.
        rule: Name of the rule, for example `connect-attempts`.
        what: The use that was found, and its effect.
        remedy: The change to make.
        anchor: Heading of MIGRATION.md that describes it.
    """

    path: str
    line: int
    column: int
    kind: Kind
    rule: str
    what: str
    remedy: str
    anchor: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.what}; {self.remedy} (MIGRATION.md#{self.anchor})"

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes by name, with the kind as text."""
        return {**asdict(self), "kind": str(self.kind)}


@dataclass(frozen=True)
class Report:
    """Result of `check`.

    Attributes:
        findings: Findings in the order of path, line and column.
        files: Number of files that were read.
        as_nats: First file that imports `jetarrow.as_nats`, which makes changes of imports unnecessary; None if no file
            does.
    """

    findings: tuple[Finding, ...]
    files: int
    as_nats: str | None = None
