"""`make bench-compare`: which changes count."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMPARE = Path(__file__).parents[1] / "benches" / "compare.py"


def run(tmp_path: Path, old: list[dict[str, object]], new: list[dict[str, object]]) -> tuple[int, str, str]:
    for name, rows in (("old", old), ("new", new)):
        (tmp_path / name).write_text(json.dumps({"rows": rows}))
    command = [sys.executable, str(COMPARE), str(tmp_path / "old"), str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def row(name: str, ratio: float, spread: float = 1.1) -> dict[str, object]:
    return {"group": "publish", "name": name, "rate": 100.0, "rate_min": 100.0, "rate_max": 100.0 * spread} | {
        "of_baseline": ratio
    }


@pytest.mark.parametrize(
    ("now", "spread", "word"),
    [(0.9, 1.1, "faster"), (0.55, 1.1, "slower"), (0.75, 1.1, None), (0.9, 1.5, None)],
)
def test_a_change_within_the_noise_says_nothing(tmp_path: Path, now: float, spread: float, word: str | None) -> None:
    code, output, _ = run(
        tmp_path, [row("raw socket", 1.0), row("ours", 0.7)], [row("ours", now, spread), row("new", 1)]
    )
    assert code == 0
    [title, line] = output.splitlines()
    assert title == "publish"
    assert line.split()[0] == "ours"
    assert [mark for mark in ("faster", "slower") if mark in line] == ([] if word is None else [word])


def test_nothing_in_common(tmp_path: Path) -> None:
    assert run(tmp_path, [row("a", 0.5)], [row("b", 0.5)]) == (1, "", "the two have no row in common\n")
