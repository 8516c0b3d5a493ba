"""The examples of docs/object-store.md run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from jetarrow.server import NatsServer

from tests.tools import python_blocks, run_example

BLOCKS = python_blocks((Path(__file__).parents[2] / "docs" / "object-store.md").read_text("utf-8"))
PRINTED = [
    "1000000 8 SHA-256=",
    "2024.pdf 4000000 {'state': 'final'}",
    "1000000\n",
    "first 1\nall existing objects were listed\nsecond 1\n",
]


@pytest.mark.parametrize("number", range(len(PRINTED)))
def test_example(number: int, own_server: NatsServer, tmp_path: Path) -> None:
    assert len(BLOCKS) == len(PRINTED)
    assert PRINTED[number] in run_example(BLOCKS[number], own_server.url, tmp_path)
