"""Results of a diagnosis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Severity of a finding.

    `error`: messages are rejected, unavailable or about to be lost now. `warning`: they will be after one failure, or
    if nothing changes. `info`: a state or a sign that needs no action if it is intended.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True)
class Finding:
    """One problem.

    Attributes:
        severity: Its severity.
        object: The stream, consumer, account or server: `stream ORDERS`, `consumer ORDERS > billing`, `server n1`.
        problem: The problem and its consequence.
        evidence: The values that show it.
        remedy: The next step.
    """

    severity: Severity
    object: str
    problem: str
    evidence: str
    remedy: str

    def as_dict(self) -> dict[str, str]:
        """Return the finding as text by name."""
        return {
            "severity": str(self.severity),
            "object": self.object,
            "problem": self.problem,
            "remedy": self.remedy,
            "evidence": self.evidence,
        }


@dataclass(frozen=True)
class Findings:
    """Findings of a diagnosis, the most severe first, and the checks that were not made. Iterable.

    Attributes:
        findings: The findings.
        not_checked: The checks that were not made, each with the reason.
    """

    findings: tuple[Finding, ...] = ()
    not_checked: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def worst(self) -> Severity | None:
        """The highest severity; None without findings."""
        return self.findings[0].severity if self.findings else None


def sorted_findings(found: Sequence[Finding], not_checked: Sequence[str]) -> Findings:
    """Return findings sorted by severity and object.

    Args:
        found: The findings.
        not_checked: The checks that were not made.
    """
    return Findings(tuple(sorted(found, key=lambda one: (_ORDER[one.severity], one.object))), tuple(not_checked))


def error(thing: str, problem: str, *, evidence: str, remedy: str) -> Finding:
    """Return a finding of severity error."""
    return Finding(Severity.ERROR, thing, problem, evidence, remedy)


def warning(thing: str, problem: str, *, evidence: str, remedy: str) -> Finding:
    """Return a finding of severity warning."""
    return Finding(Severity.WARNING, thing, problem, evidence, remedy)


def info(thing: str, problem: str, *, evidence: str, remedy: str) -> Finding:
    """Return a finding of severity info."""
    return Finding(Severity.INFO, thing, problem, evidence, remedy)
