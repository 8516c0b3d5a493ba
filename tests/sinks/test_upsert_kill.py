"""kill -9 of a sink with keys: each version of the table is that of its position, whenever its writer was killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from .kill_upsert import KEYS

# One of each table format; the other keys are among the slow tests.
ALWAYS = ("columns", "iceberg")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in ALWAYS else pytest.mark.slow) for kind in KEYS]
)
def test_versions_of_killed_writers_equal_the_messages_up_to_their_positions(
    nats_url: str, stream: str, tmp_path: Path, kind: str
) -> None:
    kills, seed = int(os.environ.get("JETARROW_KILLS", "6")), random.randrange(1 << 32)
    program = [sys.executable, "-m", "tests.sinks.kill_upsert"]
    arguments = [nats_url, stream, str(tmp_path / "t"), kind, str(kills), str(seed)]
    root = Path(__file__).parents[2]
    done = subprocess.run([*program, *arguments], capture_output=True, text=True, timeout=110, cwd=root)
    assert done.returncode == 0, (seed, done.stderr)
    killed, versions = map(int, done.stdout.split())
    assert killed > 0
    # More commits than the runs that ended.
    assert versions > kills
