"""Peak memory of moving 1,000,000 messages of 1 KiB, each time in a fresh process; one round."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Group, Run

NATIVE = "jetarrow._jetarrow"
PUBLISH = Group("memory: publish, 1 KiB", "publish", size=1024, count=1_000_000, rounds=1)
READ = Group("memory: read, 1 KiB", "read", size=1024, count=1_000_000, rounds=1)


@PUBLISH.row("jetarrow publish_batch of an Arrow stream", needs=NATIVE)
def publish_stream(run: Run) -> int:
    return in_fresh_process(run, "publish")


@READ.row("jetarrow read, batch by batch", needs=NATIVE)
def read_batches(run: Run) -> int:
    return in_fresh_process(run, "read")


def in_fresh_process(run: Run, what: str) -> int:
    script = str(Path(__file__).with_name("memory.py"))
    given = [run.url, what, run.stream, run.subject, str(run.count), str(run.size)]
    with run.clock():  # for the server's CPU; the rest is better known by the process itself
        ran = subprocess.run([sys.executable, script, *given], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"memory.py failed:\n{ran.stderr}")
    told = json.loads(ran.stdout)
    run.seconds, run.client_cpu = told["seconds"], told["cpu"]
    run.notes["RSS growth, MiB"] = told["growth"]
    return int(told["done"])


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize("name", PUBLISH.rows)
def test_memory_publish(name: str, record: Callable[[Group, str], None]) -> None:
    record(PUBLISH, name)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize("name", READ.rows)
def test_memory_read(name: str, record: Callable[[Group, str], None]) -> None:
    record(READ, name)
