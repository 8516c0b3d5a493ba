"""Rows of nats.go: `nats bench` of its command line tool (natscli), if `nats` is on PATH.

Each run is a process. The time is the one that the tool reports; the CPU time includes the start of the process.
"""

from __future__ import annotations

import csv
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import wire
from harness import Run

COMMAND = "nats"
# Both have the values of the other rows, and are faster than its default of 500.
WINDOW = 5_000
PULL = wire.PULL_MESSAGES
CONSUMER = "nats-bench"  # its default, and the only name for which it creates a consumer


def publish(run: Run) -> int:
    """Publish in batches of `WINDOW` messages: the tool awaits the acks of a batch before it sends the next one."""
    return bench(run, "pub", *publishes_async(), f"--batch={WINDOW}", run.subject)


@cache
def publishes_async() -> list[str]:
    """Return the argument `async` if the tool has it; older versions (v0.2.4) publish in batches without it."""
    help_text = subprocess.run([COMMAND, "bench", "js", "pub", "--help"], capture_output=True, text=True, check=False)
    return ["async"] if "pub async" in help_text.stdout + help_text.stderr else []


def consume(run: Run) -> int:
    """Consume the messages. Its clock starts at the first message, that of the other rows at the first request."""
    try:
        return bench(run, "consume", "--acks=none", f"--batch={PULL}")
    finally:
        # With these acks the tool does not delete its consumer, and the next run would wait at the end of the stream.
        wire.delete_consumer(run.url, run.stream, CONSUMER)


def bench(run: Run, *arguments: str) -> int:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.csv"
        given = [f"--server={run.url}", "--no-context", "--no-progress", f"--csv={path}", f"--stream={run.stream}"]
        given += [f"--msgs={run.count}", f"--size={run.size}"]
        before = children_cpu()
        with run.clock():  # for the server's CPU
            ran = subprocess.run(
                [COMMAND, "bench", "js", *arguments, *given],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
        if ran.returncode or not path.exists():
            raise RuntimeError(f"nats bench js {' '.join(arguments)} failed:\n{ran.stdout}{ran.stderr}")
        (told,) = csv.DictReader(path.read_text().splitlines())
    run.seconds, run.client_cpu = float(told["DurationSecs"]), children_cpu() - before
    if int(told["MsgCount"]) < run.count:  # messages in and out of its connection
        raise wire.WireError(f"nats bench moved {told['MsgCount']} messages of {run.count}")
    return run.count


def object_put(run: Run, bucket: str, path: str) -> None:
    """Put an object. The time is that of the whole process, because the tool reports none."""
    objects(run, "put", bucket, path, "--name=other", "--force", "--no-progress")


def object_get(run: Run, bucket: str, path: str) -> None:
    objects(run, "get", bucket, "object", f"--output={path}", "--force", "--no-progress")


def objects(run: Run, *arguments: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
    command = [COMMAND, "object", *arguments, f"--server={run.url}", "--no-context"]
    before = children_cpu()
    with run.clock():
        subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=300)
    run.client_cpu = children_cpu() - before


def children_cpu() -> float:
    used = os.times()
    return used.children_user + used.children_system
