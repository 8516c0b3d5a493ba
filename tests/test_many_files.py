"""Processes with many open files: descriptors beyond 1,024, which `select` does not know."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, resource, sys
import jetarrow.sync

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, most), most))
held = []
while not held or held[-1] < 1100:
    held.append(os.open(os.devnull, os.O_RDONLY))
with jetarrow.sync.connect(sys.argv[1]) as nc:
    js = nc.jetstream()
    futures = [js.publish_async(sys.argv[2], b"x") for _ in range(100)]
    print(sum(future.result(20).seq > 0 for future in futures))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors of sockets are other numbers there")
def test_futures_resolve_beyond_descriptor_1024(nats_url: str, stream: str) -> None:
    command = [sys.executable, "-c", PROGRAM, nats_url, f"{stream}.a"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "100"), done.stderr
