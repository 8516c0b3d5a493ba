"""KILL-SINK: writers of an archive are killed at every step and at random moments."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jetarrow
from jetarrow.server import NatsServer

from ..sinks.kill import publish
from .figures import Figure, said

FULL: dict[str, Any] = {"every": 1, "kills": 50}
SHORT: dict[str, Any] = {"every": 20, "kills": 3}
PROGRAM = Path(__file__).parents[1] / "sinks" / "kill.py"


async def measure(every: int, kills: int) -> list[Figure]:
    forms: dict[str, tuple[object, ...]] = {
        "at each step": ("each", "partitions", every),
        "at each step and of compact": ("each", "compact", every),
        "parquet": ("random", "parquet", kills),
        "partitions": ("random", "partitions", kills),
        "delta": ("random", "delta", kills),
        "work queue": ("random", "durable", kills),
    }
    figures = []
    for name, (mode, *rest) in forms.items():
        found = await asyncio.to_thread(_killed, mode, rest, name == "work queue")
        figures.append(said(f"killed, {name}", found))
    return figures


def _killed(mode: object, rest: list[object], queue: bool) -> int:
    """Returns the number of kills. The program fails if anything is lost, duplicated or left behind."""
    with NatsServer() as server, tempfile.TemporaryDirectory() as folder:
        with jetarrow.sync.connect(server.url) as nc:
            js = nc.jetstream()
            js.add_stream(name="S", subjects=["S.>"], retention="workqueue" if queue else "limits")
            if queue:
                js.add_consumer("S", durable_name="archive", ack_policy="explicit", ack_wait=1)
        publish(server.url, "S", 1)
        command = [sys.executable, str(PROGRAM), str(mode), server.url, "S", f"{folder}/x", *map(str, rest)]
        return int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
