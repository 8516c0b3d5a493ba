"""Results of an experiment: numbers, some of them with an upper bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One number of an experiment."""

    name: str
    value: float
    # Upper bound; None: the number is reported without a verdict.
    most: float | None = None
    # Printed after the number: a unit, or why there is no bound.
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.passed_by(1)

    def passed_by(self, busy: float) -> bool:
        """Like `passed`, but a value in seconds may be `busy` times its bound."""
        return self.most is None or self.value <= self.most * (busy if self.note == "s" else 1)

    def __str__(self) -> str:
        value = f"{self.value:,.0f}" if float(self.value).is_integer() else f"{self.value:,.2f}"
        bound = "" if self.most is None else f" (≤ {self.most:g})"
        return f"{self.name} {value}{' ' + self.note if self.note else ''}{bound}"


def said(name: str, value: float, note: str = "") -> Figure:
    """A number without a bound."""
    return Figure(name, value, None, note)


# Factor for times in the test suite, whose machine is busy: a time there shows only that no call hangs.
# The yardstick itself runs on an idle machine, with the bounds unchanged.
BUSY = 6


def check(figures: Sequence[Figure]) -> None:
    """Asserts that all numbers are within their bounds, on a busy machine."""
    failed = [str(figure) for figure in figures if not figure.passed_by(BUSY)]
    assert not failed, "; ".join(failed)
