"""The README's Python blocks run unchanged, except for the address of a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

README = Path(__file__).parent.parent / "README.md"
# Each program, and its output, if the page shows it.
FOUND = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", README.read_text("utf-8"), re.DOTALL)
BLOCKS = [program for program, _ in FOUND]


def test_the_readme_has_examples() -> None:
    assert len(BLOCKS) >= 2
    assert any("publish_batch" in block for block in BLOCKS)
    assert sum(bool(said) for _, said in FOUND) >= 4


def test_readme_sections_are_in_order() -> None:
    """Installation and a table in and out with the printed output precede Spark, figures and building."""
    page = README.read_text("utf-8")
    order = [
        "make demo",
        "## A table in, a table out",
        "publish_batch",
        "```text",
        "## Spark",
        "## Measured",
        "make test",
    ]
    places = [page.index(text) for text in order]
    assert places == sorted(places)
    assert page[: places[1]].count("\n") < 12


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block_runs(number: int, tmp_path: Path) -> None:
    """Each block runs as a program of its own; only the server's address is replaced."""
    with NatsServer() as server:
        with jetarrow.sync.connect(server.url) as nc:
            js = nc.jetstream()
            js.add_stream(name="EVENTS", subjects=["events.>"])
            js.publish_batch("events.before", [b'{"id": 1}'] * 10).raise_for_errors()
        script = tmp_path / "block.py"
        assert "nats://localhost:4222" in BLOCKS[number] or "NatsServer" in BLOCKS[number]
        script.write_text(BLOCKS[number].replace("nats://localhost:4222", server.url), "utf-8")
        # The workers use this Python too, whichever is first on PATH.
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        command = [sys.executable, str(script)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        assert FOUND[number][1].strip() in done.stdout
