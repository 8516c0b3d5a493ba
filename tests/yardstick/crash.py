"""CRASH: verbs that change more than one thing, killed or cut at each request and file operation, in full.

These are tests: sinks, object put, rename, delete and link, backup, restore, dead-letter replay; two writers of one
folder in random schedules, and three clients of one bucket whose requests fail at random.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from .figures import Figure, said

FULL: dict[str, Any] = {"schedules": 1_000, "seconds": 120}
TESTS = (
    "tests/sinks/test_crashes.py",
    "tests/sinks/test_two_writers.py",
    "tests/sinks/test_kill.py",
    "tests/sinks/test_kill_iceberg.py",
    "tests/objects/test_crashes.py",
    "tests/objects/test_model.py",
    "tests/test_backup_crash.py",
)
ROOT = Path(__file__).parents[2]


async def measure(schedules: int, seconds: int) -> list[Figure]:
    env = {
        **os.environ,
        "JETARROW_CRASH_FULL": "1",
        "JETARROW_SCHEDULES": str(schedules),
        "JETARROW_MODEL_SECONDS": str(seconds),
    }
    command = [sys.executable, "-m", "pytest", *TESTS, "-n", "2", "--timeout", "1800"]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    counts = {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    return [
        said("random schedules of two writers", 2 * schedules),
        said("tests", counts.get("passed", 0)),
        Figure("too few", max(0, 20 - counts.get("passed", 0)), 0),
        Figure("failed", counts.get("failed", 0) + counts.get("error", 0) + (done.returncode not in (0, 1)), 0),
    ]
