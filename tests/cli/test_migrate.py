"""`jetarrow migrate`: lines, JSON, exit codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jetarrow.migrate.finding import Finding

from tests.cli.tools import Command

PAGE = (Path(__file__).parents[2] / "MIGRATION.md").read_text("utf-8")
SERVICE = """import asyncio

import nats


async def main() -> None:
    # Subscribes for ever.
    nc = await nats.connect("nats://localhost:4222")
    await nc.subscribe("orders.*", cb=print)
    await asyncio.Event().wait()


asyncio.run(main())
"""


def test_the_example_of_the_page(cli: Command, away: Path) -> None:
    Path("service.py").write_text(SERVICE, "utf-8")
    done = cli("migrate", "service.py")
    shown = re.search(r"```text\n\$ jetarrow migrate service.py\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    assert (done.code, done.out + done.err) == (1, shown[1])


def test_a_program_without_findings_needs_no_attention(cli: Command, away: Path) -> None:
    Path("service.py").write_text(SERVICE.replace("import nats", "import jetarrow as nats"), "utf-8")
    Path("other.py").write_text("", "utf-8")
    assert cli("migrate", ".") == (0, "", "nothing needs attention in 2 Python files\n")
    assert cli("migrate", "service.py", "--json").json == {"findings": [], "files": 1, "as_nats": None}


def test_json_has_the_documented_keys_and_the_same_exit_code(cli: Command, away: Path) -> None:
    Path("service.py").write_text(SERVICE, "utf-8")
    done = cli("migrate", "service.py", "--json")
    assert done.code == 1
    assert done.err == ""
    found = done._replace(code=0).json
    assert list(found) == ["findings", "files", "as_nats"]
    assert list(found["findings"][0]) == list(Finding.__dataclass_fields__)
    assert [(one["line"], one["rule"]) for one in found["findings"]] == [
        (3, "import"),
        (8, "connect-attempts"),
        (8, "ping-interval"),
    ]


def test_as_nats_leaves_out_imports(cli: Command, away: Path) -> None:
    Path("service.py").write_text("import nats\n", "utf-8")
    assert cli("migrate", "service.py", "--as-nats") == (0, "", "nothing needs attention in 1 Python file\n")
    Path("main.py").write_text("import jetarrow.as_nats\n", "utf-8")
    assert cli("migrate", "service.py", "main.py").err == (
        "imports of nats are not listed, because main.py imports jetarrow.as_nats\n"
        "nothing needs attention in 2 Python files\n"
    )


@pytest.mark.parametrize("arguments", [["nix"], [".", "nix"], []])
def test_a_path_that_does_not_exist_is_wrong_usage(arguments: list[str], cli: Command, away: Path) -> None:
    done = cli("migrate", *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "PATH" in done.err


def test_a_file_that_is_no_python_is_a_line_with_its_error(cli: Command, away: Path) -> None:
    Path("bad.py").write_text("x = (\n", "utf-8")
    done = cli("migrate", ".")
    assert done.code == 1
    reason = "cannot be read as Python: '(' was never closed; check it by hand"
    assert done.out == f"./bad.py:1:5: {reason} (MIGRATION.md#checklist)\n"


def test_it_needs_no_server(cli: Command, away: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    Path("service.py").write_text("", "utf-8")
    assert cli("migrate", "service.py").code == 0
    assert cli("migrate", "service.py", "--server", "x").code == 2
