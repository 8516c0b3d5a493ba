"""A file of any size goes through a bounded amount of memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

MIB = 1024 * 1024
# Several times what it may take.
SIZE = 256 * MIB


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_memory_is_bounded(own_server: NatsServer, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    with source.open("wb") as file:
        file.truncate(SIZE)
    with jetarrow.sync.connect(own_server.url) as nc:
        nc.jetstream().create_object_store("b")
    script = str(Path(__file__).with_name("memory.py"))
    done = subprocess.run(
        [sys.executable, script, own_server.url, "b", str(source), str(target)],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
        timeout=110,
    )
    put, both = map(int, done.stdout.split())
    assert target.stat().st_size == SIZE
    assert put < 64 * MIB
    assert both < 64 * MIB
