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
import jetarrow.sync
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

def blocking() -> None:
    with jetarrow.sync.connect("nats://localhost:4222") as nc:
        for msg in nc.request_many("a", sentinel=lambda last: not last.data):
            msg.ack()
            msg.respond(b"").close()  # wrong
"""


def test_mypy(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG, "utf-8")
    files = sorted(SCRIPTS.glob("*.py"))
    assert len(files) >= 8
    place = Path(jetarrow.__file__).parents[1]
    # An installed package is found without MYPYPATH.
    found_by = {} if place.name == "site-packages" else {"MYPYPATH": str(place)}
    # Kept: without it mypy reads all of pyarrow's and our sources each time.
    cache = Path(__file__).parents[2] / ".mypy_cache" / "scripts"
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-error-summary",
            f"--cache-dir={cache}",
            *map(str, files),
            str(wrong),
        ],
        # A folder without a configuration, as a user's project may be.
        cwd=tmp_path,
        env={**os.environ, **found_by},
        capture_output=True,
        text=True,
        timeout=110,
    )
    lines = run.stdout.splitlines()
    assert run.stderr == ""
    assert [line for line in lines if not line.startswith("wrong.py")] == []
    found = sorted({int(line.split(":")[1]) for line in lines if ": error:" in line})
    expected = [number for number, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# wrong")]
    assert len(expected) > 5
    assert found == expected, run.stdout
