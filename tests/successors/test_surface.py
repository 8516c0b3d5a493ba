"""Every public module, name, signature, field, value and base class of the successors of nats-py exists in ours too.

Ours may have more: modules, names, bases, and fields and keyword parameters with a default.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run
from .differences import LEFT_OUT

MIGRATION = (Path(__file__).parents[2] / "MIGRATION.md").read_text("utf-8")

pytestmark = pytest.mark.xdist_group("successors-surface")


def parameter_differences(reference: list[list[str]], ours: list[list[str]]) -> Iterator[str]:
    """Yield the differences between two signatures: ours may have more keyword parameters with a default."""
    known = [parameter[0] for parameter in reference]
    shared = [parameter for parameter in ours if parameter[0] in known]
    if shared != reference:
        yield f"signature {ours}, not {reference}"
    for name, kind, default in ours:
        variadic = kind.startswith("VAR_")
        if name not in known and not variadic and (kind != "KEYWORD_ONLY" or not default):
            yield f"additional parameter {name} is not a keyword with a default"


def differences(path: str, reference: Any, ours: Any) -> Iterator[tuple[str, str]]:
    """Yield path and text of each difference between two things."""
    if ours is None:
        yield path, "missing"
        return
    for key in ("kind", "binding", "value"):
        if reference.get(key) != ours.get(key):
            yield path, f"{key} {ours.get(key)}, not {reference.get(key)}"
    if "signature" in reference and "signature" in ours:
        yield from ((path, text) for text in parameter_differences(reference["signature"], ours["signature"]))
    if reference["kind"] != "class" or ours["kind"] != "class":
        return
    if missing := set(reference["bases"]) - set(ours["bases"]):
        yield path, f"missing bases {sorted(missing)}"
    fields = reference["fields"]
    if ours["fields"][: len(fields)] != fields:
        yield path, f"fields {ours['fields']}, not {fields}"
    for name, member in reference["members"].items():
        yield from differences(f"{path}.{name}", member, ours["members"].get(name))


@pytest.fixture(scope="session")
def reference_surface(run: Run, reference_python: str) -> Any:
    return run(reference_python, "surface", "nats")


@pytest.fixture(scope="session", params=["3.13", "the suite's"])
def found(request: pytest.FixtureRequest, run: Run, reference_python: str, reference_surface: Any) -> dict[str, str]:
    """All differences by path, on the reference's Python and on the suite's."""
    python = reference_python if request.param == "3.13" else sys.executable
    ours = run(python, "surface", "jetarrow.nats", *reference_surface)
    result: dict[str, str] = {}
    for module, names in reference_surface.items():
        if module not in ours:
            result[module] = "missing"
            continue
        for name, thing in names.items():
            for path, text in differences(f"{module}.{name}", thing, ours[module].get(name)):
                result[path] = "; ".join(filter(None, (result.get(path), text)))
    return result


def covers(left_out: str, path: str) -> bool:
    return path == left_out or path.startswith(f"{left_out}.")


def test_surface_of_the_reference_is_seen(reference_surface: Any) -> None:
    assert {
        "client",
        "jetstream",
        "jetstream.consumer.pull",
        "jetstream.stream",
        "key_value",
    } <= reference_surface.keys()
    assert sum(map(len, reference_surface.values())) > 150
    assert {"connect", "Client", "SlowConsumerError", "NkeyHandlers"} <= reference_surface["client"].keys()
    assert ["timeout", "KEYWORD_ONLY", "2.0"] in reference_surface["client"]["connect"]["signature"]
    assert ["history", "1", "False"] in reference_surface["key_value"]["KeyValueConfig"]["fields"]


@pytest.mark.parametrize("part", ["client", "jetstream", "key_value"])
def test_public_surface_is_the_reference_s(found: dict[str, str], part: str) -> None:
    missing = {
        path: text
        for path, text in found.items()
        if covers(part, path) and not any(covers(name, path) for name in LEFT_OUT)
    }
    assert not missing, "\n".join(f"{path}: {text}" for path, text in missing.items())


@pytest.mark.parametrize("name", LEFT_OUT)
def test_left_out_name_differs(found: dict[str, str], name: str) -> None:
    assert any(covers(name, path) for path in found)


def test_migration_guide_has_the_reason_of_each_left_out_name() -> None:
    section = MIGRATION.partition("\n## Successors of nats-py\n")[2].partition("\n## ")[0]
    assert not [name for name, reason in LEFT_OUT.items() if f"`nats.{name}`" not in section or reason not in section]
