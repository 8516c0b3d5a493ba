"""Rows whose ratio fell, against the figures of the repository; `make bench-compare` runs it through compare.py.

A row regresses if its ratio is more than 10 % below the repository's figure in at least two of three runs. One run
below is noise of the machine. Ratios are compared, not rates, because a rate depends on the machine.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Largest part of a ratio that a row may lose.
ALLOWED_FALL = 0.10
RUNS = 3
# Runs below the limit that make a regression.
RUNS_BELOW = 2
# Rows of other programs, which this repository does not change.
OTHERS = ("raw socket", "nats-py", "natsrpy", "nats bench", "nats object", "polars ", "Spark, Python")
YARDSTICKS = ("of_baseline", "of_peer")

Key = tuple[str, str]
# Ratios by yardstick, by group and name of the row.
Ratios = dict[Key, dict[str, float]]


def ratios(results: dict[str, Any]) -> Ratios:
    """Return the ratios of our rows; a row that is a yardstick of its group has none for it."""
    found: Ratios = {}
    for row in results["rows"]:
        if row.get("rate") and not row["name"].startswith(OTHERS):
            own = {by: float(row[by]) for by in YARDSTICKS if row.get(by) and row[by] != 1}
            if own:
                found[row["group"], row["name"]] = own
    return found


@dataclass(frozen=True)
class Fall:
    """A row that regressed.

    Attributes:
        key: Its group and name.
        yardstick: The yardstick of its ratio.
        figure: The repository's ratio.
        seen: The ratio in each run; None for a run without the row.
    """

    key: Key
    yardstick: str
    figure: float
    seen: tuple[float | None, ...]

    @property
    def limit(self) -> float:
        """The lowest ratio that is no fall."""
        return self.figure * (1 - ALLOWED_FALL)


@dataclass(frozen=True)
class Judgement:
    """Result of the comparison.

    Attributes:
        compared: Number of rows with enough runs for a decision.
        fallen: Rows that regressed.
        missing: Rows of the repository with fewer than two runs, and how many they have.
        new: Rows that the repository has no figure for.
    """

    compared: int
    fallen: list[Fall]
    missing: list[tuple[Key, int]]
    new: list[Key]


def judge(figures: Ratios, runs: Sequence[Ratios]) -> Judgement:
    """Compare runs with the repository's figures.

    Args:
        figures: Ratios of the repository.
        runs: Ratios of the runs.
    """
    fallen, missing, compared = [], [], 0
    for key, by_yardstick in figures.items():
        # The same yardstick on both sides: a run without a raw socket has only ratios to the peer.
        yardstick = next(by for by in YARDSTICKS if by in by_yardstick)
        seen = tuple(run.get(key, {}).get(yardstick) for run in runs)
        known = [ratio for ratio in seen if ratio is not None]
        if len(known) < RUNS_BELOW:
            missing.append((key, len(known)))
            continue
        compared += 1
        row = Fall(key, yardstick, by_yardstick[yardstick], seen)
        if sum(ratio < row.limit for ratio in known) >= RUNS_BELOW:
            fallen.append(row)
    new = list(dict.fromkeys(key for run in runs for key in run if key not in figures))
    return Judgement(compared, fallen, missing, new)


@dataclass(frozen=True)
class Entry:
    """A run in the history of the repository, with the commit that added it."""

    when: str
    commit: str
    subject: str
    ratios: Ratios

    def __str__(self) -> str:
        return f"{self.commit} ({self.when[:10]}, {self.subject})"


def history(root: Path) -> list[Entry]:
    """Return all committed runs, the oldest first: a file that several commits wrote is as many runs.

    Args:
        root: The checkout.
    """
    listed = _git(root, "log", "--format=%x1e%h%x1f%s", "--name-only", "--", "benches/history/*.json")
    entries = []
    for block in listed.split("\x1e")[1:]:
        title, *paths = block.split("\n")
        commit, subject = title.split("\x1f")
        for path in filter(None, paths):
            shown = _git(root, "show", f"{commit}:{path}", may_fail=True)
            # A commit that deletes a file has no version of it.
            if shown:
                results = json.loads(shown)
                entries.append(Entry(results.get("when", ""), commit, subject, ratios(results)))
    return sorted(entries, key=lambda entry: entry.when)


def since(fall: Fall, entries: Sequence[Entry], when: str) -> str:
    """Return the commit since which a row is below its limit, as far as the history has it.

    Args:
        fall: The row.
        entries: The history, the oldest run first.
        when: Time of the run with the repository's figure; older runs do not count.
    """
    known = [
        (entry, ratio)
        for entry in entries
        if entry.when >= when and (ratio := entry.ratios.get(fall.key, {}).get(fall.yardstick)) is not None
    ]
    first = len(known)
    # From the newest run back, so that a fall that was mended in between does not count.
    while first and known[first - 1][1] < fall.limit:
        first -= 1
    above = f"after {known[first - 1][0]}" if first else ""
    if first == len(known):
        return f"in no committed run yet; {above}" if above else "no committed run has this row"
    entry, ratio = known[first]
    return f"since {entry}, which has {ratio:.2f}" + (f"; {above}" if above else "")


def _git(root: Path, *arguments: str, may_fail: bool = False) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode and not may_fail:
        raise RuntimeError(f"git {arguments[0]} failed: {done.stderr.strip()}; run it in a checkout with its history")
    return "" if done.returncode else done.stdout


def figures_file(root: Path) -> Path:
    """Return the run whose figures benches/README.md shows.

    Args:
        root: The checkout.
    """
    page = (root / "benches" / "README.md").read_text("utf-8")
    [name] = set(re.findall(r"\(history/([\d.]+-[\d-]+)\.md\)", page))
    return root / "benches" / "history" / f"{name}.json"


def newest_runs(folder: Path, scale: float) -> list[Path]:
    """Return the three newest runs of one build.

    Args:
        folder: Folder with the results of `make bench`.
        scale: Scale of the message counts; runs of another scale are no repetitions.

    Raises:
        RuntimeError: The build of the newest run has fewer than three.
    """
    found = [(json.loads(path.read_text("utf-8")), path) for path in folder.glob("*.json")]
    found = sorted((pair for pair in found if pair[0].get("scale") == scale), key=lambda pair: str(pair[0]["when"]))
    build = found[-1][0].get("commit") if found else None
    same = [path for results, path in found if results.get("commit") == build][-RUNS:]
    if len(same) < RUNS:
        raise RuntimeError(
            f"{folder} has {len(same)} of {RUNS} runs of {build or 'this build'}: run `make bench`"
            f" {RUNS - len(same)} more times, or name three files: make bench-compare RUNS='a.json b.json c.json'"
        )
    return same


def report(root: Path, figures: Path, runs: Sequence[Path]) -> int:
    """Print the comparison and return the exit code: 1 if a row regressed or nothing could be compared.

    Args:
        root: The checkout.
        figures: The run with the repository's figures.
        runs: Three runs.
    """
    known = json.loads(figures.read_text("utf-8"))
    results = [json.loads(path.read_text("utf-8")) for path in runs]
    for path, result in zip(runs, results, strict=True):
        if result.get("scale") != known.get("scale"):
            raise RuntimeError(
                f"{path} has scale {result.get('scale')}, {figures} {known.get('scale')}: run `make bench`"
            )
    found = judge(ratios(known), [ratios(result) for result in results])
    entries = history(root) if found.fallen else []
    for fall in found.fallen:
        seen = ", ".join("none" if ratio is None else f"{ratio:.2f}" for ratio in fall.seen)
        print(f"regressed: {fall.key[0]}: {fall.key[1]}: {fall.yardstick} {fall.figure:.2f} -> {seen}")
        print(f"  {since(fall, entries, known.get('when', ''))}")
    for (group, name), count in found.missing:
        print(f"not compared: {group}: {name}: {count} of {len(runs)} runs have it")
    for group, name in found.new:
        print(f"new: {group}: {name}")
    print(f"{len(found.fallen)} of {found.compared} rows regressed, compared with {figures.name}")
    return 1 if found.fallen or not found.compared else 0
