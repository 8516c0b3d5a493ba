"""Two runs of the benches side by side: `python benches/compare.py OLD.json NEW.json`.

`python benches/compare.py --gate [RUN.json RUN.json RUN.json]` instead fails if a row regressed (regressions.py),
by default in the three newest runs of .benchmarks/runs.

Prints for each row of both runs: the ratio of its rate to its yardstick (the group's raw socket, else its peer), which
cancels the speed of the machine; the change of the ratio; and the band of noise, from the extreme rounds of either
run. A change within the band is not significant.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

# The script's own folder is on the path.
import regressions

ROOT = Path(__file__).resolve().parents[1]


class Change(NamedTuple):
    """One row of both runs."""

    group: str
    name: str
    before: float
    after: float
    # Largest factor by which noise alone can change the ratio.
    noise: float

    @property
    def factor(self) -> float:
        return self.after / self.before

    @property
    def says_something(self) -> bool:
        return not 1 / self.noise <= self.factor <= self.noise


def rows(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the rows with figures, by group and name."""
    found = json.loads(path.read_text())["rows"]
    return {(row["group"], row["name"]): row for row in found if row.get("rate")}


def measure(row: dict[str, Any]) -> float | None:
    """Return the ratio of a row to its yardstick; None for a yardstick itself."""
    ratio = row.get("of_baseline") or row.get("of_peer")
    return None if ratio is None or ratio == 1 else float(ratio)


def spread(row: dict[str, Any], of: dict[tuple[str, str], dict[str, Any]]) -> float:
    """Return the maximum divided by the minimum of the ratio's rounds, or of the rate if the rounds are not known."""
    by = "of_baseline" if row.get("of_baseline") else "of_peer"
    beside = [other for (group, _), other in of.items() if group == row["group"] and other.get(by) == 1]
    rounds = list(zip(row.get("seconds", ()), *(other.get("seconds", ()) for other in beside), strict=False))
    if len(beside) != 1 or not rounds:
        return float(row["rate_max"] / row["rate_min"])
    ratios = [theirs / ours for ours, theirs in rounds]
    return float(max(ratios) / min(ratios))


def changes(old: Path, new: Path) -> list[Change]:
    """Return the rows that both runs have, in the order of the new run."""
    before, after, found = rows(old), rows(new), []
    for key, row in after.items():
        other = before.get(key)
        if other is None or (was := measure(other)) is None or (now := measure(row)) is None:
            continue
        found.append(Change(*key, was, now, max(spread(other, before), spread(row, after))))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gate", action="store_true", help="fail if a row regressed in two of three runs")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout, with its history")
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="OLD NEW, or with --gate three runs")
    given = parser.parse_args()
    if given.gate:
        gate(parser, given)
    elif len(given.files) == 2:
        side_by_side(parser, *given.files)
    else:
        parser.error("give two files, or --gate with three or none")


def gate(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    if len(given.files) not in (0, regressions.RUNS):
        parser.error(f"give {regressions.RUNS} runs, or none for the newest ones")
    try:
        figures = regressions.figures_file(given.root)
        scale = json.loads(figures.read_text("utf-8")).get("scale", 1.0)
        runs = given.files or regressions.newest_runs(given.root / ".benchmarks" / "runs", scale)
        parser.exit(regressions.report(given.root, figures, runs))
    except RuntimeError as error:
        parser.exit(2, f"{error}\n")


def side_by_side(parser: argparse.ArgumentParser, old: Path, new: Path) -> None:
    found, group = changes(old, new), None
    if not found:
        parser.exit(1, "the two have no row in common\n")
    for change in found:
        if change.group != group:
            group = change.group
            print(group)
        mark = "" if not change.says_something else "  slower" if change.factor < 1 else "  faster"
        print(
            f"  {change.name:44} {change.before:7.2f} -> {change.after:7.2f}   x {change.factor:.2f}"
            f"   noise x {change.noise:.2f}{mark}"
        )


if __name__ == "__main__":
    main()
