"""A user's program passes mypy --strict, and a wrong one does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jetarrow

SCRIPTS = Path(__file__).parent / "scripts"

WRONG = """
import jetarrow
from jetarrow.js.api import StreamConfig

async def main() -> None:
    nc = await jetarrow.connect("nats://localhost:4222")
    await nc.publish("a", 5)  # wrong
    await nc.publich("a", b"")  # wrong
    seq: str = (await nc.jetstream().publish("a", b"")).seq  # wrong
    StreamConfig(name="S", max_mgs=5)  # wrong
    jetarrow.js.nothing  # wrong
    msg = await nc.request("a", b"", timeout="1")  # wrong
    size: str = msg.data  # wrong
"""


def check(folder: Path, *files: Path) -> tuple[int, list[str]]:
    """What mypy --strict says: the exit status, and its lines."""
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(folder), *map(str, files)],
        # Somewhere without a configuration: as in a user's project.
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(Path(jetarrow.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=110,
    )
    return run.returncode, run.stdout.splitlines() + run.stderr.splitlines()


def test_mypy(tmp_path: Path) -> None:
    files = sorted(SCRIPTS.glob("*.py"))
    assert len(files) >= 8
    assert check(tmp_path, *files) == (0, [])

    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG, "utf-8")
    status, lines = check(tmp_path, wrong)
    found = sorted({int(line.split(":")[1]) for line in lines if ": error:" in line})
    expected = [number for number, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# wrong")]
    assert len(expected) > 5
    assert (status, found) == (1, expected), "\n".join(lines)
