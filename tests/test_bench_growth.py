"""benches/growth_page.py: tables and picture of a run, and the section of docs/performance.md."""

from __future__ import annotations

import importlib
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benches"))
    return importlib.import_module("growth_page")


def row(work: str, size: int, us: float, **further: Any) -> dict[str, Any]:
    row = {"dimension": "rows", "work": work, "size": size, "us": us, "client_us": us / 2, "server_us": us}
    return {**row, "memory": None, **further}


RESULTS: dict[str, Any] = {
    "when": "2026-01-02T03:04:05Z",
    "cpus": 2,
    "cpu": "a processor",
    "load_average": 0.1,
    "python": "3.11.7",
    "rounds": 3,
    "versions": {"jetarrow": "0.1.0"},
    "rows": [
        row("publish_rows", 10_000, 2.0, of_raw=0.9, memory=10.0),
        row("publish_rows", 1_000_000, 2.5, of_raw=0.8, memory=11.0),
        row("raw_publish", 10_000, 1.8),
        row("raw_publish", 1_000_000, 2.0),
        row("latest", 10_000, 2_500.0),
        row("latest", 1_000_000, 5_000.0),
    ],
}


def test_table_has_cost_ratio_memory_and_growth(page: ModuleType) -> None:
    lines = page.tables(RESULTS).splitlines()
    assert "| rows | 10 k | 1 M | growth | client CPU | server CPU |" in lines
    assert "| publish_batch | 2.00 (0.90) | 2.50 (0.80) | 1.25 | 1.25 | 1.25 |" in lines
    assert "| publish_batch, peak MiB | 10.0 | 11.0 | 1.10 |  |  |" in lines
    assert "| raw socket, publish | 1.80 | 2.00 | 1.11 | 1.11 | 1.11 |" in lines
    assert "| js.latest, ms per call | 2.50 | 5.00 | 2.00 | 2.00 |  |" in lines


def test_picture_has_a_line_per_work_and_a_panel_of_memory(page: ModuleType) -> None:
    picture = ElementTree.fromstring(page.draw(RESULTS))
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Rows: µs per message", "Rows: peak memory, MiB", "publish_batch", "raw, publish"} <= set(texts)
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}polyline"))) == 3


def test_section_replaces_the_former_one(page: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "performance.md"
    before = (ROOT / "docs" / "performance.md").read_text("utf-8")
    path.write_text(before, "utf-8")
    page.write(RESULTS, tmp_path)
    once = path.read_text("utf-8")
    page.write(RESULTS, tmp_path)
    assert path.read_text("utf-8") == once
    assert page.tables(RESULTS) in once
    assert once.partition(page.BEGIN)[0] == before.partition(page.BEGIN)[0]
    assert once.partition(page.END)[2] == before.partition(page.END)[2]
    assert (tmp_path / "growth.svg").read_text("utf-8") == page.draw(RESULTS)
