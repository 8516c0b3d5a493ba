"""`jetarrow load --state`, killed at random moments and continued after the duplicate window.

JETARROW_LOAD_ROWS and JETARROW_LOAD_KILLS set a larger load, for a run by hand.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jetarrow.sync
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from jetarrow.server import NatsServer

from tests.cli.tools import command

ROWS = int(os.environ.get("JETARROW_LOAD_ROWS", "200000"))
KILLS = int(os.environ.get("JETARROW_LOAD_KILLS", "3"))
SEED = int(os.environ.get("JETARROW_LOAD_SEED", "28"))

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")


def wait_for_window(js: jetarrow.sync.JetStream, name: str) -> None:
    """Waits until the server has forgotten an id that it stores now."""
    while js.publish("s.probe", "", msg_id=name).duplicate:
        time.sleep(0.1)
    while js.publish("s.probe", "", msg_id=name).duplicate:
        time.sleep(0.1)


def stored(js: jetarrow.sync.JetStream) -> int:
    state = js.stream_info("S", subjects_filter="s.r.*").state
    return sum((state.subjects or {}).values())


@pytest.mark.parametrize("state", ["position", "kv:LOADS"])
@pytest.mark.timeout(3600)
@pytest.mark.slow
def test_a_killed_load_stores_each_row_once_after_the_window(tmp_path: Path, state: str) -> None:
    chance = random.Random(SEED)
    path = tmp_path / "rows.parquet"
    regions = pa.array([f"r{number % 7}" for number in range(ROWS)])
    pq.write_table(pa.table({"id": range(ROWS), "region": regions}), path, row_group_size=100_000)
    place = state if state.startswith("kv:") else str(tmp_path / state)
    with NatsServer() as server, jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["s.>"], duplicate_window=1)
        load = command("load", str(path), "--subject", "s.r.{region}", "--state", place, "--server", server.url)
        targets = sorted(chance.randrange(ROWS) for _ in range(KILLS))
        for kill, target in enumerate(targets):
            with subprocess.Popen(load, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
                while stored(js) < target and process.poll() is None:
                    time.sleep(0.005)
                assert process.poll() is None, process.communicate()[1]
                process.send_signal(signal.SIGKILL)
                process.wait()
            wait_for_window(js, f"probe {kill}")
        done = subprocess.run(load, capture_output=True, text=True, check=False, timeout=3600)
        assert done.returncode == 0, done.stderr
        again = subprocess.run(load, capture_output=True, text=True, check=False, timeout=3600)
        assert "stored 0 of 0 messages" in again.stdout
        seen = [
            batch.column("id") for batch in map(_rows, js.read("S", subjects="s.r.*", schema="id BIGINT", flatten=True))
        ]
        ids = pa.chunked_array(seen)
        assert len(ids) == ROWS
        assert pc.count_distinct(ids).as_py() == ROWS
        assert (pc.min(ids).as_py(), pc.max(ids).as_py()) == (0, ROWS - 1)
        print(f"{ROWS:,} rows, {KILLS} kills at {targets}; {done.stdout.strip()}")


def _rows(batch: jetarrow.sync.MessageBatch) -> pa.RecordBatch:
    return batch.to_pyarrow()
