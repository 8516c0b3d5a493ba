"""Runs the experiments one after another, each in a process of its own, and writes what they found into docs.

`python -m tests.yardstick [--short] [--write] [name ...]`; without names all of them.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from jetarrow._spawn import find_executable

from .figures import Figure
from .page import Result, with_result

# Number in the yardstick, name, module.
EXPERIMENTS = {
    "KILL-PUB": "kill_pub",
    "KILL-FETCH": "kill_fetch",
    "ORDERED": "ordered",
    "LEADER": "leader",
    "HALF-OPEN": "half_open",
    "STALLED": "stalled",
    "SOAK": "soak",
    "BULK": "bulk",
    "SLOW-SUB": "slow_sub",
    "DEDUP": "dedup",
    "BAD-INPUT": "bad_input",
    "HOSTILE-SERVER": "hostile",
    "TLS-AUTH": "tls_auth",
    "SECRETS": "canaries",
    "CTRL-C": "ctrl_c",
    "SHUTDOWN": "shutdown",
    "FORK-SPARK": "fork_spark",
    "RESOLVES": "resolves",
    "KILL-SINK": "kill_sink",
    "ATTRIBUTION": "attribution",
    "NEIGHBOUR": "neighbour",
    "ROLLBACK": "rollback",
    "STORES": "stores",
    "CRASH": "crash",
    "CLUSTER-SOAK": "cluster_soak",
}
DOCS = Path(__file__).parents[2] / "docs" / "reliability.md"
# Seconds until an experiment counts as hung.
PATIENCE = 3_600


def one(module: str, form: str) -> None:
    """In the child: the figures as JSON."""
    experiment = importlib.import_module(f"tests.yardstick.{module}")
    figures = asyncio.run(experiment.measure(**getattr(experiment, form)))
    print("\n" + json.dumps([asdict(figure) for figure in figures]))


def run(name: str, form: str) -> Result:
    """Runs an experiment in a child process."""
    load, begin = os.getloadavg()[0], time.monotonic()
    command = [sys.executable, "-m", "tests.yardstick", "--child", EXPERIMENTS[name], form]
    found: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        failed = (f"it hung for {PATIENCE} s",)
    else:
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no word"]
            failed = (f"ended with {lines[-1][:200]}",)
        else:
            figures = [Figure(**entry) for entry in json.loads(done.stdout.strip().splitlines()[-1])]
            found = tuple(map(str, figures))
            failed = tuple(str(figure) for figure in figures if not figure.passed)
    took = time.monotonic() - begin
    number = list(EXPERIMENTS).index(name) + 1
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    return Result(number, name, form.lower(), when, f"{took:.0f} s, load {load:.0f}", found, failed)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--child"]:
        one(*arguments[1:])
        return 0
    form = "SHORT" if "--short" in arguments else "FULL"
    names = [name for name in arguments if not name.startswith("--")] or list(EXPERIMENTS)
    version = subprocess.run(
        [find_executable(), "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    print(f"{version}, Python {sys.version.split()[0]}", flush=True)
    failed = False
    for name in names:
        result = run(name, form)
        print(result.row, result.section, sep="\n", flush=True)
        failed |= bool(result.failed)
        if "--write" in arguments:
            DOCS.write_text(with_result(DOCS.read_text("utf-8"), result), "utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
