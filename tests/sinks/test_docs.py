"""docs/sinks.md, docs/operations.md and docs/tables-with-keys.md: their examples run as they stand."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jetarrow.server import NatsServer

from ..tools import python_blocks, run_example

DOCS = Path(__file__).parents[2] / "docs"
SINKS = python_blocks((DOCS / "sinks.md").read_text("utf-8"))
KEYS = python_blocks((DOCS / "tables-with-keys.md").read_text("utf-8"))
CONTEXT, *OPERATIONS = python_blocks((DOCS / "operations.md").read_text("utf-8"))
# The expected output of each block.
SAID = [
    "10000 rows in 2 files, up to 10000\n5 more\n10005\n",
    "1000 rows up to 1000\n[{'seq': 1001, 'id': 1000, 'region': 'eu'}]\n",
    "1000 rows; 0 left in the stream\n",
    "billing          990               10",
    "1000 rows\n1000 rows\n500 rows\n",
    "'reason': 'no such account', 'subject': 'payments.1', 'data': b'{\"amount\": 12}'}]\n1 1\n",
    "4 messages of 2 spans\n",
    "5 messages merged, up to 5\n$KV.LIMITS.ap 5\n$KV.LIMITS.eu 30\n$KV.LIMITS.us 40\n",
]


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


def test_all_examples_are_here() -> None:
    assert len(SINKS) + len(OPERATIONS) + len(KEYS) == len(SAID)


@pytest.mark.parametrize("number", range(len(SAID)))
def test_example(server: NatsServer, tmp_path: Path, number: int) -> None:
    printed = run_example([*SINKS, *OPERATIONS, *KEYS][number], server.url, tmp_path)
    assert SAID[number] in printed


def test_context(server: NatsServer, nats_tool: str, tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    subprocess.run([nats_tool, "context", "save", "prod", "-s", server.url], env=environment, check=True)
    done = subprocess.run([sys.executable, "-c", CONTEXT], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.endswith("streams\n"), done.stderr
