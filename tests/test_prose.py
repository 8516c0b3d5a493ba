"""The prose linter finds planted violations; the glossary names existing types."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose", ROOT / ".ci" / "prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_prose_linter_scans_every_language_of_the_checkout(prose: ModuleType) -> None:
    found = prose.scan(ROOT)
    suffixes = {suffix: sum(name.endswith(suffix) for name in found) for suffix in prose.LANGUAGES}
    assert suffixes[".md"] > 20
    assert suffixes[".py"] > 200
    assert suffixes[".pyi"] >= 1
    assert suffixes[".rs"] > 100
    assert {"README.md", "docs/glossary.md", ".ci/prose.py"} <= set(found)
    assert not any(name.startswith((".venv", "target")) for name in found)


@pytest.mark.parametrize(
    ("suffix", "text", "expected"),
    [
        (".md", "# Title\n\nWhat was not written is lost.\n", ["3: What"]),
        (".md", "The page says which.\n\n| a | Nobody |\n", ["1: says", "3: Nobody"]),
        (
            ".md",
            "Plain.\n\n```python\nWhat = 1\n```\n\n`told`, [text](What.md)\n\n    Where it is\n\nOf that.\n",
            ["11: Of"],
        ),
        (".py", '"""A module.\n\nWhoever calls it.\n"""\n\nx = "# What" \n# How many\n', ["3: Whoever", "7: How many"]),
        (".py", 'x = """\n# What\n"""\n\n\ndef f():\n    r"""Tells of it."""\n', ["7: Tells"]),
        (".py", "x = 'it''s'  # So many\ny = '#'\n", ["1: So many"]),
        (".pyi", "class A:  # it lies\n    ...\n", ["1: lies"]),
        (
            ".rs",
            '//! Purpose.\n//! So many\n\nlet x = "// What";\n/// gives\n/// back\n',
            ["2: So many", "5: gives back"],
        ),
        (".rs", 'let quote = \'"\'; // told\nlet raw = r#"// " What"#; // the way\n', ["1: told"]),
        (".rs", "fn f<'a>(x: &'a str) {} // Who\n", ["1: Who"]),
    ],
)
def test_prose_linter_finds_excluded_wording_outside_code(
    prose: ModuleType, suffix: str, text: str, expected: list[str]
) -> None:
    assert prose.findings(text, suffix) == expected


def test_prose_linter_fails_on_a_planted_violation(
    prose: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "README.md").write_text("Clean.\n", "utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "new.md").write_text("Clean.\n", "utf-8")
    assert prose.main([], tmp_path) == 0
    (tmp_path / "docs" / "new.md").write_text("Clean.\nNobody reads it.\n", "utf-8")
    assert prose.main(["README.md"], tmp_path) == 0
    assert capsys.readouterr().out == ""
    assert prose.main([], tmp_path) == 1
    assert capsys.readouterr().out == "docs/new.md:2: Nobody\n"


def test_glossary_names_types_of_the_crate_that_it_lists() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text("utf-8").partition("## Internal names")[2]
    rows = re.findall(r"^\| (`.*?) \|.*\| (\w+) \|$", page, re.MULTILINE)
    names = [(name, crate) for cell, crate in rows for name in re.findall(r"`(\w+)`", cell)]
    assert len(names) > 20
    crates = {
        crate: "".join(path.read_text("utf-8") for path in (ROOT / "rust" / crate).rglob("*.rs")) for _, crate in names
    }
    missing = [name for name, crate in names if not re.search(rf"\b(?:struct|enum|trait) {name}\b", crates[crate])]
    assert missing == []
