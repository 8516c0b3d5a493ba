"""Unresponsive servers, and clients that are deleted."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.server import NatsServer

from ..tools import connections, free_port, time_without_processor, until

# Seconds. A connection is found dead within two; five more are left to the machine.
INTERVAL = 1.0
MOST = 2 * INTERVAL + 5


async def test_half_open_connection_is_detected_within_two_ping_intervals(own_server: NatsServer, record: Any) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=INTERVAL, **record.options()) as nc:
        await nc.flush()
        own_server.pause()
        begin = time.monotonic()
        try:
            await record.wait_for("disconnected", timeout=30)
            assert time.monotonic() - begin < MOST
            assert isinstance(record.errors[0], errors.StaleConnectionError)
        finally:
            own_server.resume()
        await record.wait_for("reconnected", timeout=30)
        await nc.flush()


async def test_half_open_connection_is_detected_while_publishing(own_server: NatsServer, record: Any) -> None:
    """All socket buffers are full then."""
    async with await jetarrow.connect(own_server.url, ping_interval=INTERVAL, **record.options()) as nc:
        await nc.flush()
        own_server.pause()
        begin = time.monotonic()

        async def pour() -> None:
            while True:
                await nc.publish("a", b"x" * 500_000)

        pouring = asyncio.create_task(pour())
        try:
            await record.wait_for("disconnected", timeout=30)
            assert time.monotonic() - begin < MOST
        finally:
            own_server.resume()
            pouring.cancel()
        with pytest.raises((asyncio.CancelledError, errors.OutboundBufferLimitError)):
            await pouring
        await record.wait_for("reconnected", timeout=30)


async def test_idle_connection_remains_connected(own_server: NatsServer, record: Any) -> None:
    async with await jetarrow.connect(
        own_server.url, ping_interval=3, max_outstanding_pings=1, **record.options()
    ) as nc:
        await asyncio.sleep(9)
        assert record.seen == []
        assert nc.is_connected


async def test_close_waits_for_slow_server_and_not_for_unresponsive_one(own_server: NatsServer) -> None:
    nc = await jetarrow.connect(own_server.url, ping_interval=30)
    own_server.pause()
    await nc.publish("a", b"x")
    begin, waited = time.monotonic(), time_without_processor(os.getpid())
    await asyncio.wait_for(nc.close(), 20)
    took = time.monotonic() - begin
    assert took > 1.5
    assert took - (time_without_processor(os.getpid()) - waited) < 4
    own_server.resume()


async def test_deleted_client_disconnects_from_server() -> None:
    monitor = free_port()
    with NatsServer(config=f"http: 127.0.0.1:{monitor}", jetstream=False) as server:

        async def count() -> int:
            return len(await asyncio.to_thread(connections, monitor))

        nc = await jetarrow.connect(server.url)
        other = await jetarrow.connect(server.url)
        sub = await other.subscribe("a")
        await other.flush()
        with pytest.raises(errors.NoRespondersError):
            await nc.request("no.service", timeout=30)
        assert await count() == 2
        for _ in range(1_000):
            await nc.publish("a", b"x" * 1_000)
        del nc

        async def gone() -> bool:
            gc.collect()
            return await count() == 1

        await until(gone)
        # Its published messages were sent.
        for _ in range(1_000):
            await sub.next_msg(5)
        await other.close()
