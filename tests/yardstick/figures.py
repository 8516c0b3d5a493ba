"""What an experiment finds: numbers, and for those that are judged the most that they may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One number of an experiment."""

    name: str
    value: float
    # The most that it may be; None: it is only said.
    most: float | None = None
    # Beside the number: a unit, or why it is not judged.
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.passed_by(1)

    def passed_by(self, busy: float) -> bool:
        """As `passed`, where a time may be so many times longer."""
        return self.most is None or self.value <= self.most * (busy if self.note == "s" else 1)

    def __str__(self) -> str:
        value = f"{self.value:,.0f}" if float(self.value).is_integer() else f"{self.value:,.2f}"
        bound = "" if self.most is None else f" (≤ {self.most:g})"
        return f"{self.name} {value}{' ' + self.note if self.note else ''}{bound}"


def said(name: str, value: float, note: str = "") -> Figure:
    """A number that is not judged."""
    return Figure(name, value, None, note)


# How much longer anything may take in the suite: its machine is busy, and there a time says only that nothing hangs.
# The yardstick itself, on a machine that does nothing else, allows no more than what is promised.
BUSY = 6


def check(figures: Sequence[Figure]) -> None:
    """All that is judged has passed, on a busy machine."""
    failed = [str(figure) for figure in figures if not figure.passed_by(BUSY)]
    assert not failed, "; ".join(failed)
