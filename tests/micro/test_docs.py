"""The example of docs/services.md runs unchanged."""

from __future__ import annotations

from pathlib import Path

from jetarrow.server import NatsServer

from tests.tools import python_blocks, run_example


def test_example_of_services_page_runs(own_server: NatsServer, tmp_path: Path) -> None:
    (block,) = python_blocks((Path(__file__).parents[2] / "docs" / "services.md").read_text("utf-8"))
    printed = run_example(block, own_server.url, tmp_path)
    assert printed == "b'42'\n400 not a number\nmath.double 2 1 400:not a number\n"
