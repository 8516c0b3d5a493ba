"""Duration of the import, each time in a new process; the files are in the page cache and compiled."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable

import pytest
from harness import Group, Run

NATIVE = "jetarrow._jetarrow"
SCRIPT = """
import json, time
start, cpu = time.perf_counter(), time.process_time()
{statements}
print(json.dumps([time.perf_counter() - start, time.process_time() - cpu]))
"""
# A "message" is an import here.
IMPORT = Group("import, fresh processes (imports/s)", "core", peer="nats-py", size=0, count=7)


def importing(name: str, statements: str, needs: str | None = None) -> None:
    @IMPORT.row(name, needs=needs)
    def run_all(run: Run) -> int:
        told = [in_fresh_process(statements) for _ in range(run.count)]
        run.seconds = sum(seconds for seconds, _ in told)
        run.client_cpu = sum(cpu for _, cpu in told)
        run.notes["import, ms"] = statistics.median(seconds for seconds, _ in told) * 1000
        return len(told)


def in_fresh_process(statements: str) -> tuple[float, float]:
    """Return the wall time and the CPU time of the statements, in seconds."""
    script = SCRIPT.format(statements=statements)
    # The rounds that do not count compile the files.
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=compiled)
    if ran.returncode:
        raise RuntimeError(f"{statements} failed:\n{ran.stderr}")
    seconds, cpu = json.loads(ran.stdout)
    return seconds, cpu


importing("jetarrow", "import jetarrow", "jetarrow")
# `import jetarrow` loads the client at its first use; nats-py loads it immediately.
importing("jetarrow, client and JetStream", "import jetarrow, jetarrow.js.client\njetarrow.Client", NATIVE)
importing("nats-py", "import nats")


@pytest.mark.parametrize("name", IMPORT.rows)
def test_import(name: str, record: Callable[[Group, str], None]) -> None:
    record(IMPORT, name)
