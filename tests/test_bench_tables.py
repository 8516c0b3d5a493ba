"""benches/tables.py and median_run.py: the figures in benches/README.md are those of the run that the page names."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

BENCHES = Path(__file__).parents[1] / "benches"


def module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCHES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_tables_of_the_readme_are_those_of_the_run() -> None:
    tables = module("tables")
    page = (BENCHES / "README.md").read_text("utf-8")
    shown = page.partition(tables.BEGIN)[2].partition(tables.END)[0]
    [run] = set(re.findall(r"\(history/([\d.]+-[\d-]+)\.md\)", page))
    results = json.loads((BENCHES / "history" / f"{run}.json").read_text("utf-8"))
    assert shown == tables.readme(results)
    assert (BENCHES / "history" / f"{run}.md").read_text("utf-8") == tables.full(results)


def a_run(**figures: float) -> dict[str, Any]:
    row = {"group": "publish", "name": "ours", "count": 10, "seconds": [1.0], **figures}
    empty = {"group": "publish", "name": "skipped", "skipped": "no server"}
    about = {"cpu": "a processor", "load_average": 0.5, "slow_consumer_lines": 1}
    return {**about, "rows": [row, empty]}


def test_several_runs_are_one_with_their_medians() -> None:
    runs = [
        a_run(rate=100.0, rate_min=90.0, rate_max=110.0, of_baseline=0.5),
        a_run(rate=300.0, rate_min=200.0, rate_max=310.0, of_baseline=0.9),
        a_run(rate=200.0, rate_min=80.0, rate_max=210.0, of_baseline=0.6),
    ]
    merged = module("median_run").median_run(runs)
    assert merged["runs"] == 3
    assert merged["slow_consumer_lines"] == 3
    [row] = merged["rows"]
    assert row == {
        "group": "publish",
        "name": "ours",
        "count": 10,
        "seconds": [1.0, 1.0, 1.0],
        "rate": 200.0,
        "rate_min": 80.0,
        "rate_max": 310.0,
        "of_baseline": 0.6,
        "runs": 3,
    }


def test_runs_of_different_machines_are_not_one() -> None:
    other = {**a_run(rate=1.0), "cpu": "another processor"}
    with pytest.raises(ValueError, match="differ in cpu"):
        module("median_run").median_run([a_run(rate=1.0), other])
