"""kill -9: every message of the function is in the target once, in order, after any number of kills."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jetarrow.sync
import pyarrow as pa
import pytest

from .kill import KEYS

PROGRAM = Path(__file__).with_name("kill.py")


@pytest.mark.parametrize(
    ("kills", "rows"),
    [(8, 60_000), pytest.param(100, 2_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])],
)
def test_at_random_moments(sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, kills: int, rows: int) -> None:
    target = f"{stream}_OUT"
    sync_js.add_stream(name=target, subjects=[f"{target}.>"], allow_atomic=True)
    numbers = range(rows)
    table = pa.table({"id": pa.array(numbers, pa.int64()), "key": [f"k{number % KEYS}" for number in numbers]})
    sync_js.publish_table(table, f"{stream}.{{key}}").raise_for_errors()
    command = [sys.executable, str(PROGRAM), nats_url, stream, target, str(kills), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1_700, check=False)
    sync_js.delete_stream(target)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > kills // 4
