"""docs/successors.md: its examples run as they are, one after the other."""

from __future__ import annotations

from pathlib import Path

from jetarrow.server import NatsServer

from ..tools import python_blocks, run_example

BLOCKS = python_blocks((Path(__file__).parents[2] / "docs" / "successors.md").read_text("utf-8"))
# The expected output of each block.
PRINTED = [
    "1 b'{\"id\": 0}'\n2 b'{\"id\": 1}'\n3 b'{\"id\": 2}'\n1 b'0.2'\n",
    "<PublishResult: 1000 rows, 1000 stored, 0 duplicates, 0 errors>\n1003 [('id', 999)]\n1000 None\n",
    "b'hello' True\n",
]


def test_examples(own_server: NatsServer, tmp_path: Path) -> None:
    assert len(BLOCKS) == len(PRINTED)
    for block, printed in zip(BLOCKS, PRINTED, strict=True):
        assert run_example(block, own_server.url, tmp_path) == printed
