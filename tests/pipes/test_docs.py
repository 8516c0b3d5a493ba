"""docs/pipes.md: its examples run as they are, one after the other."""

from __future__ import annotations

from pathlib import Path

from jetarrow.server import NatsServer

from ..tools import python_blocks, run_example

BLOCKS = python_blocks((Path(__file__).parents[2] / "docs" / "pipes.md").read_text("utf-8"))
# The expected output of each block.
PRINTED = [
    '200 rows, 99 messages\n{"id":199,"region":"eu","amount":199.0,"tax":37.81}\n',
    "PipeResult(rows=200, messages=1, dead_letters=0, skipped=0, last_seq=200)\n"
    '{"region":"eu","total":19900.0,"orders":200}\n',
    'PipeResult(rows=200, messages=3, dead_letters=0, skipped=0, last_seq=200)\n{"id":2,"region":"Europe"}\n',
]


def test_examples(own_server: NatsServer, tmp_path: Path) -> None:
    assert len(BLOCKS) == len(PRINTED)
    for block, printed in zip(BLOCKS, PRINTED, strict=True):
        assert run_example(block, own_server.url, tmp_path) == printed
