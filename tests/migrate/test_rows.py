"""The rules are those of MIGRATION.md: every row of its tables has a rule, or a reason why no source shows it."""

from __future__ import annotations

import pytest
from jetarrow.migrate.check import CHECKLIST
from jetarrow.migrate.imports import FRAMEWORKS, IMPORTS, SUCCESSORS_ANCHOR
from jetarrow.migrate.imports import NAMES as NAMES_ANCHOR
from jetarrow.migrate.rules import RULES

from tests.migrate.rows import NAMES, ROWS
from tests.migrate.tools import anchors, tables


def test_every_row_of_the_page_has_a_rule_or_a_reason() -> None:
    rows = tables("nats-py")
    assert len(rows) > 100
    unknown = [
        row[0]
        for row in rows
        if not any(row[0].startswith(key) for key in ROWS) and not row[1].startswith(("same", "`jetarrow.sync`"))
    ]
    assert unknown == [], "add these rows to ROWS in tests/migrate/rows.py, with their rules or a reason"


@pytest.mark.parametrize("key", ROWS)
def test_every_entry_is_one_row_of_the_page(key: str) -> None:
    assert len([row for row in tables("nats-py") if row[0].startswith(key)]) == 1


def test_every_rule_has_a_row() -> None:
    mapped = {name for rules in ROWS.values() if isinstance(rules, tuple) for name in rules} | NAMES
    rules = {rule.name for rule in RULES}
    assert rules == mapped - {"missing", "constructor"}
    assert len(rules) == len(RULES)


def test_the_anchors_of_findings_are_headings_of_the_page() -> None:
    used = {rule.anchor for rule in RULES} | {CHECKLIST, FRAMEWORKS, IMPORTS, NAMES_ANCHOR, SUCCESSORS_ANCHOR}
    assert used <= anchors()


def test_rules_have_short_texts() -> None:
    for rule in RULES:
        assert rule.check.__doc__, rule.name
        assert len(rule.remedy) < 90, rule.name
        assert not rule.remedy.endswith("."), rule.name
