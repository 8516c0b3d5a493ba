"""What waits in a subscription costs what it has, not what it came with."""

from __future__ import annotations

import sys

import jetarrow
import pytest
from jetarrow.server import NatsServer

from .survive.tools import rss, trimmed_rss

COUNT = 800
# A whole read of the connection each.
BESIDE = bytes(60_000)


@pytest.mark.skipif(sys.platform != "linux", reason="measures by /proc")
async def test_small_messages_among_large_ones(own_server: NatsServer) -> None:
    """Nobody reads the small ones. With the reads in which they came they would be 50 MiB."""
    async with await jetarrow.connect(own_server.url) as nc:
        slow, fast = await nc.subscribe("slow"), await nc.subscribe("fast")
        await nc.flush()
        before = trimmed_rss()
        for _ in range(COUNT):
            await nc.publish("slow", b"x" * 10)
            await nc.publish("fast", BESIDE)
            await fast.next_msg(timeout=30)
        assert slow.pending_msgs == COUNT
        assert rss() - before < 20
        assert (await slow.next_msg()).data == b"x" * 10
