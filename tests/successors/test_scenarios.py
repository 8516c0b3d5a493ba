"""Each scenario has the same record with the successors of nats-py and with jetarrow, also on an older Python.

Intended differences are in differences.py, and with their reasons in MIGRATION.md.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .differences import DIFFERENCES
from .recorder import without_additions
from .run import modules, scenarios

SCENARIOS = [
    pytest.param(module, name, id=f"{module}.{name}", marks=pytest.mark.xdist_group(f"successors-{module}"))
    for module in modules()
    for name in scenarios(module)
]
MIGRATION = (Path(__file__).parents[2] / "MIGRATION.md").read_text("utf-8")

pytestmark = pytest.mark.timeout(600)


def text_of(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True)


def differing(reference: dict[str, Any], ours: dict[str, Any]) -> dict[str, str]:
    """Return the keys whose values differ, with the lines that differ."""
    found = {}
    for key in reference | ours:
        missing = "(not recorded)"
        there, here = reference.get(key, missing), ours.get(key, missing)
        texts = text_of(there), text_of(without_additions(here, there))
        if texts[0] != texts[1]:
            before, after = (text.splitlines() for text in texts)
            lines = difflib.unified_diff(before, after, "reference", "jetarrow", lineterm="")
            found[key] = "\n".join(lines)
    return found


def notes(record: dict[str, Any], face: str) -> dict[str, Any]:
    assert record["error"] is None, f"the scenario failed with {face}:\n{record['error']}"
    found: dict[str, Any] = record["notes"]
    return found


@pytest.mark.parametrize(("module", "name"), SCENARIOS)
def test_scenario_has_the_same_record_with_both_faces(
    records: Callable[[str], tuple[Any, Any]], module: str, name: str
) -> None:
    reference, ours = records(module)
    expected = notes(reference[name], "the reference")
    assert expected
    found = differing(expected, notes(ours[name], "jetarrow"))
    documented = {key for scenario, key in DIFFERENCES if scenario == f"{module}.{name}"}
    undocumented = {key: lines for key, lines in found.items() if key not in documented}
    assert not undocumented, "\n".join(f"{key}:\n{lines}" for key, lines in undocumented.items())


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name"), SCENARIOS)
def test_scenario_has_the_same_record_on_the_suite_s_python(
    records: Callable[[str], tuple[Any, Any]], records_here: Callable[[str], Any], module: str, name: str
) -> None:
    ours, here = records(module)[1][name], records_here(module)[name]
    assert not differing(notes(ours, "jetarrow"), notes(here, "jetarrow on the suite's Python"))


@pytest.mark.parametrize(
    ("scenario", "key"),
    [
        pytest.param(*entry, marks=pytest.mark.xdist_group(f"successors-{entry[0].partition('.')[0]}"))
        for entry in DIFFERENCES
    ],
)
def test_documented_difference_exists(records: Callable[[str], tuple[Any, Any]], scenario: str, key: str) -> None:
    module, _, name = scenario.partition(".")
    reference, ours = records(module)
    assert key in differing(notes(reference[name], "the reference"), notes(ours[name], "jetarrow"))


def test_migration_guide_has_the_reason_of_each_difference() -> None:
    section = MIGRATION.partition("\n## Successors of nats-py\n")[2].partition("\n## ")[0]
    assert section
    assert not [reason for reason in DIFFERENCES.values() if f"| {reason} |" not in section]
