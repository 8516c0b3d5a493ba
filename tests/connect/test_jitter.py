"""The clients of a restarted server do not reconnect at the same time."""

from __future__ import annotations

import asyncio
from collections import Counter

import jetarrow
import pytest
from jetarrow.server import NatsServer

from ..tools import until

CLIENTS = 500
WAIT, JITTER = 0.5, 1.0
# Bins of the histogram in a second of jitter.
BINS = 10


@pytest.mark.parametrize("jitter", [JITTER, 0.0])
async def test_five_hundred_clients_spread_over_the_jitter(own_server: NatsServer, jitter: float) -> None:
    loop = asyncio.get_running_loop()
    lost, back = [], []

    async def disconnected() -> None:
        lost.append(loop.time())

    async def reconnected() -> None:
        back.append(loop.time())

    begin = loop.time()
    clients = await asyncio.gather(
        *(
            jetarrow.connect(
                own_server.url,
                connect_timeout=30,
                reconnect_time_wait=WAIT,
                reconnect_jitter=jitter,
                max_reconnect_attempts=-1,
                disconnected_cb=disconnected,
                reconnected_cb=reconnected,
            )
            for _ in range(CLIENTS)
        )
    )
    # The machine's part of the spread.
    took = loop.time() - begin
    try:
        await asyncio.to_thread(own_server.kill)
        await until(lambda: len(lost) == CLIENTS)
        # All have found the server closed at least once, at about the same time.
        await asyncio.to_thread(own_server.restart)
        await until(lambda: len(back) == CLIENTS)
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    spread = max(back) - min(back)
    histogram = Counter(int((at - min(back)) * BINS) for at in back)
    print(f"jitter {jitter} s: {spread:.2f} s, {sorted(histogram.items())}")
    if jitter:
        assert spread >= 0.9 * jitter
        # Without jitter nearly all are in one.
        assert max(histogram.values()) < 0.9 * CLIENTS
    else:
        assert spread < JITTER + took
