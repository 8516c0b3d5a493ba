"""Memory of a large fetch in addition to its result."""

from __future__ import annotations

import subprocess
import sys

import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

# Large enough that fixed costs are a small part: 12 MB that the allocator keeps, and up to 10 MB of one request that
# are buffered while another process uses the core.
COUNT, SIZE = 150_000, 1024
# Most bytes that the server may have sent and the client not read, for any size of the fetch.
ON_THE_WAY = 16 << 20

FETCH = """
import asyncio, sys
from pathlib import Path
import jetarrow

def memory(name):
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(name + ":"))

async def main():
    url, verb, count, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    async with await jetarrow.connect(url) as nc:
        sub = await nc.jetstream().pull_subscribe("s.>", max_ack_pending=count)
        # The peak is measured from here.
        Path("/proc/self/clear_refs").write_text("5")
        before = memory("VmRSS")
        got = await getattr(sub, verb)(count, timeout=30)
        print(len(got), (memory("VmHWM") - before) / (len(got) * size))

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="measures by /proc")
@pytest.mark.parametrize("verb", [pytest.param("fetch", marks=pytest.mark.slow), "fetch_batch"])
def test_large_fetch_memory_is_bounded_by_its_result(
    own_server: NatsServer, own_sync: jetarrow.sync.JetStream, verb: str
) -> None:
    own_sync.add_stream(name="S", subjects=["s.>"])
    own_sync.publish_batch("s.a", [bytes(SIZE)] * COUNT).raise_for_errors()
    child = subprocess.run(
        [sys.executable, "-c", FETCH, own_server.url, verb, str(COUNT), str(SIZE)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    count, ratio = child.stdout.split()
    assert int(count) > COUNT // 4
    assert float(ratio) <= 1.5, f"{ratio} times the payload"


@pytest.mark.skipif(sys.platform != "linux", reason="measures by /proc")
@pytest.mark.parametrize(("verb", "size"), [("fetch", 512), pytest.param("fetch_batch", 256, marks=pytest.mark.slow)])
def test_fetch_of_small_messages_memory_is_bounded(
    own_server: NatsServer, own_sync: jetarrow.sync.JetStream, verb: str, size: int
) -> None:
    """The smallest size with this bound: ack subjects and Python objects have a fixed size."""
    payload = 75_000_000
    own_sync.add_stream(name="S", subjects=["s.>"])
    own_sync.publish_batch("s.a", [bytes(size)] * (payload // size)).raise_for_errors()
    child = subprocess.run(
        [sys.executable, "-c", FETCH, own_server.url, verb, str(payload // size), str(size)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    count, ratio = child.stdout.split()
    assert int(count) == payload // size
    grown = float(ratio) - ON_THE_WAY / payload
    assert grown <= 1.5, f"{grown} times the payload"
