"""benches/tables.py: the figures in benches/README.md are those of the run that the page names."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

BENCHES = Path(__file__).parents[1] / "benches"


def test_tables_of_the_readme_are_those_of_the_run() -> None:
    spec = importlib.util.spec_from_file_location("bench_tables", BENCHES / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    page = (BENCHES / "README.md").read_text("utf-8")
    shown = page.partition(tables.BEGIN)[2].partition(tables.END)[0]
    [run] = set(re.findall(r"\(history/([\d.]+-[\d-]+)\.md\)", page))
    results = json.loads((BENCHES / "history" / f"{run}.json").read_text("utf-8"))
    assert shown == tables.readme(results)
    assert (BENCHES / "history" / f"{run}.md").read_text("utf-8") == tables.full(results)
