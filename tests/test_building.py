"""`.ci/building.py` shows how far a build is."""

from __future__ import annotations

import io
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
CARGO = """
import sys, time
for name in ("a", "b", "c"):
    print(f"   Compiling {name} v1.0.0", flush=True)
    print("warning: something", file=sys.stderr, flush=True)
sys.exit(int(sys.argv[1]))
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def building() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / ".ci" / "building.py"))


@pytest.mark.parametrize("out", [io.StringIO, Terminal])
@pytest.mark.parametrize("code", [0, 3])
def test_result_of_a_build_is_shown(
    building: dict[str, Any], tmp_path: Path, out: type[io.StringIO], code: int
) -> None:
    log, shown = tmp_path / "build.log", out()
    assert building["build"](log, [sys.executable, "-c", CARGO, str(code)], shown) == code
    text = shown.getvalue()
    assert ("3 crates" in text) == (code == 0)
    assert ("warning: something" in text) == (code != 0)
    assert "warning: something" in log.read_text("utf-8")


def test_number_of_crates_is_that_of_the_lock_file(building: dict[str, Any]) -> None:
    locked = (ROOT / "Cargo.lock").read_text("utf-8").count("[[package]]")
    assert 100 < building["crates"]() <= locked
