"""`make bench-compare`: a row regresses if its ratio fell by more than 10 % in two of three runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMPARE = Path(__file__).parents[1] / "benches" / "compare.py"
NAME = "jetarrow publish_batch"
Row = dict[str, Any]


def row(name: str, ratio: float | None, by: str = "of_baseline") -> Row:
    return {"group": "publish", "name": name, "rate": 100.0, by: ratio}


def run_of(day: int, *rows: Row, scale: float = 1.0, commit: str = "abc") -> dict[str, Any]:
    when = f"2026-11-{day:02d}T00:00:00Z"
    return {"when": when, "scale": scale, "commit": commit, "rows": [row("raw socket", 1.0), *rows]}


class Checkout:
    """A repository with kept runs, whose page names the first of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "benches" / "history").mkdir(parents=True)
        (root / ".benchmarks" / "runs").mkdir(parents=True)
        (root / "benches" / "README.md").write_text("[run](history/0.1.0-2026-11-01.md)", "utf-8")
        self.git("init", "--quiet")

    def git(self, *arguments: str) -> str:
        settings = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(self.root), *settings, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def keep(self, results: dict[str, Any], subject: str, name: str = "") -> str:
        """Commits a run; returns the commit."""
        path = f"benches/history/{name or '0.1.0-' + results['when'][:10]}.json"
        (self.root / path).write_text(json.dumps(results), "utf-8")
        self.git("add", path)
        self.git("commit", "--quiet", "-m", subject)
        return self.git("log", "-1", "--format=%h").strip()

    def ran(self, *runs: dict[str, Any]) -> None:
        """Writes results of `make bench`."""
        for results in runs:
            (self.root / ".benchmarks" / "runs" / f"{results['when'][:10]}.json").write_text(json.dumps(results))

    def gate(self, *files: str) -> tuple[int, list[str]]:
        command = [sys.executable, str(COMPARE), "--gate", "--root", str(self.root), *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, (done.stdout + done.stderr).splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize(
    ("seen", "is_fallen"),
    [
        ([0.80, 0.80, 0.80], False),
        ([0.60, 0.80, 0.80], False),
        ([0.71, 0.60, 0.71], True),
        ([0.80, 0.71, 0.71], True),
        # Not more than 10 %.
        ([0.721, 0.721, 0.721], False),
        ([0.73, 0.73, 0.60], False),
        ([0.90, 0.90, 0.60], False),
    ],
)
def test_a_row_regresses_if_it_fell_in_two_of_three_runs(
    checkout: Checkout, seen: list[float], is_fallen: bool
) -> None:
    commit = checkout.keep(run_of(1, row(NAME, 0.80)), "first")
    checkout.ran(*[run_of(10 + at, row(NAME, ratio)) for at, ratio in enumerate(seen)])
    code, lines = checkout.gate()
    assert code == int(is_fallen)
    assert lines[-1] == f"{int(is_fallen)} of 1 rows regressed, compared with 0.1.0-2026-11-01.json"
    if is_fallen:
        shown = ", ".join(f"{ratio:.2f}" for ratio in seen)
        assert lines[0] == f"regressed: publish: {NAME}: of_baseline 0.80 -> {shown}"
        assert lines[1] == f"  in no committed run yet; after {commit} (2026-11-01, first)"


def test_a_row_of_one_run_is_not_compared_and_two_runs_decide(checkout: Checkout) -> None:
    checkout.keep(run_of(1, row(NAME, 0.8), row("jetarrow a", 0.8), row("jetarrow b", 0.8)), "first")
    checkout.ran(
        run_of(10, row(NAME, 0.5), row("jetarrow a", 0.8)),
        run_of(11, row(NAME, 0.5)),
        run_of(12, row("jetarrow a", 0.5)),
    )
    code, lines = checkout.gate()
    assert code == 1
    assert [line for line in lines if line.startswith(("regressed", "not compared"))] == [
        f"regressed: publish: {NAME}: of_baseline 0.80 -> 0.50, 0.50, none",
        "not compared: publish: jetarrow b: 0 of 3 runs have it",
    ]


def test_a_missing_and_a_new_row_are_listed_and_are_no_failure(checkout: Checkout) -> None:
    checkout.keep(run_of(1, row(NAME, 0.8), row("jetarrow gone", 0.8)), "first")
    checkout.ran(*[run_of(day, row(NAME, 0.8), row("jetarrow new", 0.1)) for day in (10, 11, 12)])
    assert checkout.gate() == (
        0,
        [
            "not compared: publish: jetarrow gone: 0 of 3 runs have it",
            "new: publish: jetarrow new",
            "0 of 1 rows regressed, compared with 0.1.0-2026-11-01.json",
        ],
    )


def test_runs_without_a_common_row_fail(checkout: Checkout) -> None:
    checkout.keep(run_of(1, row(NAME, 0.8)), "first")
    checkout.ran(*[run_of(day, row("jetarrow new", 0.8)) for day in (10, 11, 12)])
    assert checkout.gate()[0] == 1


def test_rows_of_other_programs_do_not_count(checkout: Checkout) -> None:
    checkout.keep(run_of(1, row(NAME, 0.8), row("nats-py publish", 0.8)), "first")
    checkout.ran(*[run_of(day, row(NAME, 0.8), row("nats-py publish", 0.1)) for day in (10, 11, 12)])
    assert checkout.gate() == (0, ["0 of 1 rows regressed, compared with 0.1.0-2026-11-01.json"])


def test_only_ratios_to_the_same_yardstick_are_compared(checkout: Checkout) -> None:
    checkout.keep(run_of(1, row(NAME, 0.8) | {"of_peer": 9.0}, row("jetarrow b", 2.0, "of_peer")), "first")
    # A run without a raw socket has only the ratio to the peer, which is another number.
    runs = [run_of(day, row(NAME, 9.0, "of_peer"), row("jetarrow b", 1.0001, "of_peer")) for day in (10, 11, 12)]
    checkout.ran(*runs)
    code, lines = checkout.gate()
    assert code == 1
    assert [line.partition(" 2.00")[0] for line in lines if not line.startswith(" ")][:2] == [
        "regressed: publish: jetarrow b: of_peer",
        f"not compared: publish: {NAME}: 0 of 3 runs have it",
    ]


def test_the_commit_since_which_a_row_is_below_is_the_first_of_the_newest_series(checkout: Checkout) -> None:
    checkout.keep(run_of(1, row(NAME, 0.8)), "first")
    # Older than the figure, below it, then above it again: none of them began the fall.
    checkout.keep(run_of(2, row(NAME, 0.5)), "slow")
    mended = checkout.keep(run_of(3, row(NAME, 0.78)), "mended")
    slow = checkout.keep(run_of(4, row(NAME, 0.6)), "slow again")
    # The same file, written again by a later commit, is one more run.
    checkout.keep(run_of(5, row(NAME, 0.61)), "slower still", name="0.1.0-2026-11-04")
    checkout.ran(*[run_of(day, row(NAME, 0.6)) for day in (10, 11, 12)])
    code, lines = checkout.gate()
    assert code == 1
    assert lines[1] == (f"  since {slow} (2026-11-04, slow again), which has 0.60; after {mended} (2026-11-03, mended)")


def test_a_run_older_than_the_figure_does_not_date_a_fall(checkout: Checkout) -> None:
    results = run_of(1, row(NAME, 0.8))
    checkout.keep(run_of(1, row(NAME, 0.3)) | {"when": "2026-10-01T00:00:00Z"}, "older", name="0.0.9-2026-10-01")
    first = checkout.keep(results, "first")
    checkout.ran(*[run_of(day, row(NAME, 0.6)) for day in (10, 11, 12)])
    assert checkout.gate()[1][1] == f"  in no committed run yet; after {first} (2026-11-01, first)"


def test_the_three_newest_runs_of_the_newest_build_are_compared(checkout: Checkout) -> None:
    checkout.keep(run_of(1, row(NAME, 0.8)), "first")
    slow = [run_of(day, row(NAME, 0.1), commit="old") for day in (8, 9)]
    quick = [run_of(day, row(NAME, 0.1), scale=0.1) for day in (20, 21)]
    checkout.ran(*slow, *quick, *[run_of(day, row(NAME, 0.8)) for day in (10, 11)])
    code, lines = checkout.gate()
    assert code == 2
    assert lines[0].endswith(
        "has 2 of 3 runs of abc: run `make bench` 1 more times, or name three files:"
        " make bench-compare RUNS='a.json b.json c.json'"
    )
    checkout.ran(run_of(12, row(NAME, 0.8)))
    assert checkout.gate()[0] == 0


def test_runs_can_be_named_and_need_the_scale_of_the_figures(checkout: Checkout) -> None:
    checkout.keep(run_of(1, row(NAME, 0.8)), "first")
    folder = checkout.root / ".benchmarks" / "runs"
    checkout.ran(*[run_of(day, row(NAME, 0.1), commit=f"c{day}") for day in (10, 11, 12)])
    files = sorted(map(str, folder.iterdir()))
    assert checkout.gate(*files)[0] == 1
    assert checkout.gate(*files[:2])[0] == 2
    checkout.ran(run_of(12, row(NAME, 0.8), scale=0.1))
    code, lines = checkout.gate(*files)
    assert code == 2
    assert "has scale 0.1" in lines[0]


def test_the_figures_of_this_repository_do_not_regress_against_themselves() -> None:
    root = COMPARE.parents[1]
    page = (root / "benches" / "README.md").read_text("utf-8")
    [name] = set(re.findall(r"\(history/([\d.]+-[\d-]+)\.md\)", page))
    figures = root / "benches" / "history" / f"{name}.json"
    command = [sys.executable, str(COMPARE), "--gate", *[str(figures)] * 3]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = int(done.stdout.splitlines()[-1].split()[2])
    assert found > 80
