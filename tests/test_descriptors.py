"""A closed client releases its file descriptors, sessions and threads."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.core.blocking_session import BlockingSession
from jetarrow.core.loop_session import LoopSession

from .tools import wait_until

OPEN = Path("/proc/self/fd")
pytestmark = pytest.mark.skipif(not OPEN.exists(), reason="counts descriptors as Linux shows them")


def descriptors() -> int:
    return len(os.listdir(OPEN))


def sessions() -> int:
    gc.collect()
    return sum(isinstance(found, LoopSession | BlockingSession) for found in gc.get_objects())


def blocking(url: str) -> None:
    with jetarrow.sync.connect(url) as nc:
        nc.jetstream().account_info()


def on_a_loop(url: str) -> None:
    async def main() -> None:
        async with await jetarrow.connect(url) as nc:
            sub = await nc.subscribe("descriptors")
            await nc.publish("descriptors", b"x")
            await sub.next_msg(timeout=10)
            await nc.jetstream().account_info()

    asyncio.run(main())


@pytest.mark.parametrize("use", [blocking, on_a_loop])
def test_closed_clients_leak_no_descriptors_sessions_or_threads(nats_url: str, use: Callable[[str], None]) -> None:
    use(nats_url)
    opened, held, threads = descriptors(), sessions(), threading.active_count()
    for _ in range(20):
        use(nats_url)
    # The last thread of the engine may still be closing its socket.
    wait_until(lambda: sessions() <= held and descriptors() <= opened)
    wait_until(lambda: threading.active_count() <= threads)
