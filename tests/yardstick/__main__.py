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
}
DOCS = Path(__file__).parents[2] / "docs" / "reliability.md"
# Seconds until an experiment counts as hung.
PATIENCE = 3_600


def one(module: str, form: str) -> None:
    """In the child: the figures as JSON."""
    experiment = importlib.import_module(f"tests.yardstick.{module}")
    figures = asyncio.run(experiment.measure(**getattr(experiment, form)))
    print("\n" + json.dumps([asdict(figure) for figure in figures]))


def run(name: str, form: str) -> str:
    """A row of the table."""
    load, begin = os.getloadavg()[0], time.monotonic()
    command = [sys.executable, "-m", "tests.yardstick", "--child", EXPERIMENTS[name], form]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        found, verdict = f"it hung for {PATIENCE} s", "FAILED"
    else:
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no word"]
            found, verdict = f"ended with {lines[-1][:200]}", "FAILED"
        else:
            figures = [Figure(**entry) for entry in json.loads(done.stdout.strip().splitlines()[-1])]
            found = "; ".join(str(figure) for figure in figures)
            wrong = [figure for figure in figures if not figure.passed]
            verdict = "passed" if not wrong else "FAILED: " + "; ".join(str(figure) for figure in wrong)
    took = time.monotonic() - begin
    found = found.replace("|", "\\|")
    number = list(EXPERIMENTS).index(name) + 1
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    return f"| {number} {name} | {form.lower()} | {when} | {took:.0f} s, load {load:.0f} | {verdict} | {found} |"


def write(row: str) -> None:
    """The row takes the place of the last one of the same experiment and form."""
    begin, end = "<!-- yardstick -->\n", "<!-- /yardstick -->"
    head, _, rest = DOCS.read_text("utf-8").partition(begin)
    table, _, tail = rest.partition(end)
    lines = table.strip().splitlines()
    key = row.split(" | ")[:2]
    lines = [line for line in lines if line.split(" | ")[:2] != key] + [row]
    title, rows = lines[:2], lines[2:]
    # By number; the full form before the short one.
    rows.sort(key=lambda line: (int(line.split()[1]), line.split(" | ")[1]))
    DOCS.write_text(head + begin + "\n".join(title + rows) + "\n" + end + tail, "utf-8")


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
        row = run(name, form)
        print(row, flush=True)
        failed |= "| passed |" not in row
        if "--write" in arguments:
            write(row)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
