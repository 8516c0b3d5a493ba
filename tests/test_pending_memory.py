"""Pending messages of a subscription retain their own bytes, not the read buffers in which they arrived."""

from __future__ import annotations

import sys

import jetarrow
import pytest
from jetarrow.server import NatsServer

from .survive.tools import rss, trimmed_rss

COUNT = 800
# Each message fills a whole read of the connection.
BESIDE = bytes(60_000)


@pytest.mark.skipif(sys.platform != "linux", reason="measures by /proc")
async def test_pending_small_messages_do_not_retain_read_buffers(own_server: NatsServer) -> None:
    """The small messages are not read. With the read buffers in which they arrived they would occupy 50 MiB."""
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
        assert (await slow.next_msg(timeout=10)).data == b"x" * 10
