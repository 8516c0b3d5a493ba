"""The names that jetarrow does not have: compared with the installed nats-py, with jetarrow, and with MIGRATION.md."""

from __future__ import annotations

import importlib
import re

import pytest
from jetarrow.migrate.missing import CONSTRUCTORS, MISSING, SUCCESSORS

from tests.compat.left_out import left_out
from tests.compat.test_surface import module_problems, nats_modules, signature_problems
from tests.migrate.tools import findings, tables


def resolve(path: str) -> object:
    """Returns the object of a dotted name, by the longest module path in it."""
    parts = path.split(".")
    for number in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:number]))
        except ModuleNotFoundError:
            continue
        for name in parts[number:]:
            value = getattr(value, name)
        return value
    raise ModuleNotFoundError(path)


def test_the_missing_names_are_those_of_the_comparison_with_nats_py() -> None:
    missing = {where for path in nats_modules() for where, what in module_problems(path) if what == "missing"}
    assert set(MISSING) == missing
    assert len(MISSING) > 60
    assert all(left_out(path) for path in MISSING)


@pytest.mark.parametrize("path", MISSING)
def test_a_missing_name_is_in_nats_py_and_not_in_jetarrow(path: str) -> None:
    resolve(path)
    with pytest.raises((AttributeError, ImportError)):
        resolve("jetarrow" + path.removeprefix("nats"))


@pytest.mark.parametrize("path", CONSTRUCTORS)
def test_a_class_of_the_client_has_another_constructor(path: str) -> None:
    assert list(signature_problems(path, resolve(path), resolve("jetarrow" + path.removeprefix("nats"))))


def test_the_page_lists_these_names() -> None:
    rows = [row for row in tables("module") if len(row) == 3]
    listed = {f"{module.strip('`')}.{name}" for module, names, _ in rows for name in re.findall(r"`(.*?)`", names)}
    assert listed == {*MISSING, *(f"{path}(...)" for path in CONSTRUCTORS), "nats.js.kv.KeyValue.keys(...)"}


@pytest.mark.parametrize("path", MISSING)
def test_an_import_and_a_use_of_a_missing_name_are_found(path: str) -> None:
    module = next(one for one in sorted(nats_modules(), key=len, reverse=True) if path.startswith(f"{one}."))
    used = [one for one in findings(f"import {module}\nx = {path}\n") if one.rule == "missing"]
    assert [(one.line, one.what) for one in used] == [(2, f"jetarrow has no {path}")]
    name = path.removeprefix(f"{module}.")
    if "." not in name:
        (imported,) = findings(f"from {module} import {name}")
        assert (imported.kind, imported.column) == ("missing", len(f"from {module} import ") + 1)
        (kept,) = [one for one in findings(f"from {module} import {name}, Error") if one.kind == "import"]
        assert kept.remedy.endswith("import Error`")


def test_the_missing_names_of_the_successors_are_those_that_the_page_lists_as_not_there() -> None:
    rows = [row for row in tables("successors of nats-py") if row[1] == "not there"]
    assert {name for row in rows for name in re.findall(r"`(.*?)`", row[0])} == set(SUCCESSORS)


@pytest.mark.parametrize("path", SUCCESSORS)
def test_a_missing_name_of_a_successor_is_not_in_jetarrow(path: str) -> None:
    with pytest.raises((AttributeError, ImportError)):
        resolve(f"jetarrow.{path}")
