"""kill -9: what a killed writer leaves is as if it had never been, and every message is archived once.

`make yardstick` does it at every step, and at 50 random moments.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jetarrow.sync
import pytest

from .kill import publish

PROGRAM = Path(__file__).with_name("kill.py")


@pytest.fixture
def begun(nats_url: str, stream: str) -> str:
    publish(nats_url, stream, 1)
    return stream


def killed(*args: object) -> int:
    command = [sys.executable, str(PROGRAM), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("kind", ["partitions", "compact"])
def test_at_each_step(nats_url: str, begun: str, tmp_path: Path, kind: str) -> None:
    """At each write (in its middle), rename, delete: before it and after it; here at some of them."""
    assert killed("each", nats_url, begun, tmp_path / "x", kind, 25) > 2


@pytest.mark.parametrize("kind", ["parquet", "partitions", "delta"])
def test_at_random_moments(nats_url: str, begun: str, tmp_path: Path, kind: str) -> None:
    assert killed("random", nats_url, begun, tmp_path / "x", kind, 8) > 0


def test_of_a_work_queue(sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path) -> None:
    """Messages that were committed and not acknowledged are redelivered, and recognised by their sequence."""
    sync_js.delete_stream(stream)
    sync_js.add_stream(name=stream, subjects=[f"{stream}.>"], retention="workqueue")
    sync_js.add_consumer(stream, durable_name="archive", ack_policy="explicit", ack_wait=1)
    publish(nats_url, stream, 1)
    assert killed("random", nats_url, stream, tmp_path / "x", "durable", 8) > 0
    assert sync_js.stream_info(stream).state.messages == 0
