"""kill -9 of a writer of an Iceberg table: each message is archived once, also after the expiry of snapshots.

`make yardstick` does it at each write.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .kill_iceberg import publish

FULL = "JETARROW_CRASH_FULL" in os.environ
ROOT = Path(__file__).parents[2]


@pytest.fixture
def begun(nats_url: str, stream: str) -> str:
    publish(nats_url, stream, 1)
    return stream


def killed(*args: object) -> int:
    command = [sys.executable, "-m", "tests.sinks.kill_iceberg", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900 if FULL else 110, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("kind", [pytest.param("partitions", marks=pytest.mark.slow), "evolve"])
def test_writer_killed_at_a_write_loses_and_repeats_nothing(
    nats_url: str, begun: str, tmp_path: Path, kind: str
) -> None:
    """In the middle of writes, before and after commits; by default at some of them."""
    assert killed("each", nats_url, begun, tmp_path / "x", kind, 1 if FULL else 9) > 2


@pytest.mark.parametrize("kind", ["partitions"])
def test_writer_killed_at_random_moments_loses_and_repeats_nothing(
    nats_url: str, begun: str, tmp_path: Path, kind: str
) -> None:
    assert killed("random", nats_url, begun, tmp_path / "x", kind, 8) > 0
