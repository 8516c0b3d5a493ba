"""Memory of polars' streaming engine during a scan."""

from __future__ import annotations

import subprocess
import sys

import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

COUNT, SIZE = 160_000, 1024
COLLECT = """
import sys
from pathlib import Path
import jetarrow.polars, polars

def memory(name):
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(name + ":"))

def collected(lazy):
    size = polars.col("data").bin.size().cast(polars.Int64).sum().alias("size")
    groups = lazy.group_by("subject").agg(polars.len(), size).collect(engine="streaming")
    return groups["len"].sum()

lazy = jetarrow.polars.scan(sys.argv[1], "S").select("seq", "subject", "data")
# What is loaded once, whatever is read.
collected(lazy.head(10_000))
# The peak counts from here.
Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
rows = collected(lazy)
print(rows, memory("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="measures by /proc")
def test_streaming_is_bounded(own_server: NatsServer, own_sync: jetarrow.sync.JetStream) -> None:
    """The growth of the process is less than two thirds of the payloads.

    Measured: 47 to 63 MB, with 160 MB and with 320 MB of payloads; 77 to 160 MB if malloc retains freed memory.
    A batch is 16 MiB.
    """
    own_sync.add_stream(name="S", subjects=["s.*"])
    payload = bytes(SIZE)
    for part in range(8):
        own_sync.publish_batch(f"s.{part}", [payload] * (COUNT // 8)).raise_for_errors()
    command = [sys.executable, "-c", COLLECT, own_server.url]
    child = subprocess.run(command, capture_output=True, text=True, check=True, timeout=90)
    rows, grown = map(int, child.stdout.split())
    assert rows == COUNT
    assert grown <= COUNT * SIZE * 2 / 3, f"{grown / (COUNT * SIZE):.2f} times the data"
