"""Servers that are paused or killed while all buffers towards them are full."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import jetarrow
import pytest
from jetarrow import errors
from jetarrow.aio.client import Client
from jetarrow.server import NatsServer

from ..tools import PATIENCE, until
from .tools import rss, trimmed_rss

# More than all sockets and buffers between the client and a server hold.
FLOOD = 24 * 1024 * 1024
MESSAGE = b"x" * 256 * 1024
MIB = 2**20
# Seconds of each call to the paused server.
TIMEOUT = 0.5


class Stalled:
    """A connection to a paused server, with all buffers full and core messages queued behind them."""

    def __init__(self, server: NatsServer, nc: Client) -> None:
        self.server = server
        self.nc = nc
        self.js = nc.jetstream()
        self.pouring: list[asyncio.Task[None]] = []
        # A pull subscription.
        self.sub: Any = None

    async def fill(self) -> None:
        async def pour() -> None:
            for _ in range(FLOOD // len(MESSAGE)):
                await self.nc.publish("flood", MESSAGE)

        self.pouring = [asyncio.ensure_future(pour()) for _ in range(2)]

        async def moved() -> bool:
            before = self.nc.pending_data_size
            await asyncio.sleep(0.2)
            return before > 4 * MIB and self.nc.pending_data_size == before

        await until(moved)


@pytest.fixture
async def stalled(own_server: NatsServer) -> AsyncIterator[Stalled]:
    async with await jetarrow.connect(own_server.url, ping_interval=60, error_cb=_quiet) as nc:
        stalled = Stalled(own_server, nc)
        await stalled.js.add_stream(name="S", subjects=["S.>"])
        await stalled.js.publish("S.a", b"1")
        stalled.sub = await stalled.js.pull_subscribe("S.a", durable="d")
        own_server.pause()
        try:
            await stalled.fill()
            yield stalled
        finally:
            for task in stalled.pouring:
                task.cancel()
            own_server.resume()


async def _quiet(_: Exception) -> None:
    pass


async def outcome(call: Awaitable[Any]) -> object:
    try:
        return await call
    except errors.Error as error:
        return error


async def _publisher(js: Any, timeout: float) -> object:
    publisher = js.publisher("S.a", ack_timeout=timeout)
    return await outcome(await publisher.publish(b"late"))


VERBS: dict[str, Callable[[Stalled], Awaitable[object]]] = {
    "publish_batch": lambda it: outcome(it.js.publish_batch("S.a", [b"x"] * 10, timeout=TIMEOUT)),
    "publish_batch_fast": lambda it: outcome(it.js.publish_batch("S.a", [b"x"] * 10, timeout=TIMEOUT, mode="fast")),
    "publish_batch_atomic": lambda it: outcome(it.js.publish_batch("S.a", [b"x"] * 10, timeout=TIMEOUT, mode="atomic")),
    "fetch": lambda it: outcome(it.sub.fetch(5, timeout=TIMEOUT)),
    "fetch_batch": lambda it: outcome(it.sub.fetch_batch(5, timeout=TIMEOUT)),
    "publish": lambda it: outcome(it.js.publish("S.a", b"x", timeout=TIMEOUT)),
    "publisher": lambda it: _publisher(it.js, TIMEOUT),
    "request": lambda it: outcome(it.nc.request("S.a", b"x", timeout=TIMEOUT)),
    "flush": lambda it: outcome(it.nc.flush(timeout=TIMEOUT)),
    "rtt": lambda it: outcome(it.nc.rtt(timeout=TIMEOUT)),
    "stream_info": lambda it: outcome(it.nc.jetstream(timeout=TIMEOUT).stream_info("S")),
    "account_info": lambda it: outcome(it.nc.jetstream(timeout=TIMEOUT).account_info()),
    "subscribe": lambda it: outcome(it.nc.subscribe("b")),
}


@pytest.mark.parametrize("many", [1, 30], ids=["one", "thirty"])
@pytest.mark.parametrize("verb", VERBS)
async def test_every_call_ends_in_its_time(stalled: Stalled, verb: str, many: int) -> None:
    begin = time.monotonic()
    found = await asyncio.wait_for(asyncio.gather(*(VERBS[verb](stalled) for _ in range(many))), 30)
    took = time.monotonic() - begin
    # The defaults are 5 and 30 s.
    assert took < TIMEOUT + 4, (took, found)
    for result in found:
        if verb.startswith("publish_batch") and not isinstance(result, errors.Error):
            assert (result.stored, len(result.errors)) == (0, 10)
        elif verb == "fetch_batch":
            assert isinstance(result, errors.TimeoutError) or len(result) == 0
        elif verb == "subscribe":
            assert not isinstance(result, Exception)
        else:
            assert isinstance(result, errors.TimeoutError), result


async def test_requests_not_written_before_their_timeout_are_never_sent(stalled: Stalled) -> None:
    """A request that times out or is cancelled before it is written is never sent, and its timeout reports that."""
    nc = stalled.nc
    stored = await asyncio.gather(*(outcome(stalled.js.publish("S.a", b"late", timeout=0.5)) for _ in range(20)))
    assert {"it was not sent" in str(error) for error in stored} == {True}
    deleted = await outcome(nc.jetstream(timeout=0.5).delete_stream("S"))
    assert "it was not sent" in str(deleted)
    task = asyncio.ensure_future(nc.request("$JS.API.STREAM.DELETE.S", timeout=30))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stalled.server.resume()
    await asyncio.gather(*stalled.pouring)
    await nc.flush(PATIENCE)
    assert (await stalled.js.stream_info("S")).state.messages == 1


async def test_timeout_of_a_sent_request_reports_that_it_was_sent(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["S.>"])
        own_server.pause()
        try:
            error = await outcome(js.publish("S.a", b"x", timeout=3))
            assert isinstance(error, errors.TimeoutError)
            assert "it was sent, so the server may have processed it" in str(error)
        finally:
            own_server.resume()
        await until(lambda: _messages(js, 1))


async def _messages(js: Any, count: int) -> bool:
    return bool((await js.stream_info("S")).state.messages == count)


async def test_calls_that_time_out_while_disconnected_are_not_sent_later(own_server: NatsServer) -> None:
    async with await jetarrow.connect(
        own_server.url, error_cb=_quiet, reconnect_time_wait=0.05, max_reconnect_attempts=-1
    ) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["S.>"])
        await js.publish("S.a", b"1")
        sub = await js.pull_subscribe("S.a", durable="d")
        own_server.kill()
        await until(lambda: not nc.is_connected)
        calls: list[Awaitable[object]] = [js.publish("S.a", b"late", timeout=0.3) for _ in range(5)]
        calls += [nc.jetstream(timeout=0.3).delete_stream("S"), nc.request("S.a", b"late", timeout=0.3)]
        calls += [js.publish_batch("S.a", [b"late"] * 10, timeout=0.3), sub.fetch(1, timeout=0.3), _publisher(js, 0.3)]
        found = await asyncio.gather(*map(outcome, calls))
        assert ["it was not sent" in str(error) for error in found[:7]] == [True] * 7
        batch: Any = found[7]
        assert isinstance(batch, errors.TimeoutError) or len(batch.errors) == 10
        assert isinstance(found[8], errors.TimeoutError)
        assert isinstance(found[9], errors.TimeoutError)
        assert nc.pending_data_size == 0
        own_server.start()
        await until(lambda: nc.is_connected)
        await nc.flush()
        assert await _messages(js, 1)
        # No request of the fetch that timed out was written: the next fetch gets the first delivery of the message.
        msg = (await sub.fetch(1, timeout=5))[0]
        assert (msg.data, msg.metadata.num_delivered) == (b"1", 1)


async def test_timed_out_requests_release_their_bytes(own_server: NatsServer) -> None:
    """Requests and headers count against `pending_size`, and timed-out requests release their bytes."""
    payload = b"x" * 500_000
    async with await jetarrow.connect(own_server.url, pending_size=1 * MIB, error_cb=_quiet) as nc:
        with pytest.raises(errors.NoRespondersError):
            await nc.request("nobody")
        own_server.kill()
        await until(lambda: not nc.is_connected)
        before = trimmed_rss()
        found = await asyncio.gather(*(outcome(nc.request("a", payload, timeout=0.5)) for _ in range(300)))
        kinds = [type(error) for error in found]
        assert kinds.count(errors.TimeoutError) == 2
        assert kinds.count(errors.OutboundBufferLimitError) == 298
        assert nc.pending_data_size == 0
        with pytest.raises(errors.OutboundBufferLimitError):
            for _ in range(2_000):
                await nc.publish("a", headers={"h": "v" * 1_000})
        assert nc.pending_data_size > MIB * 0.9
        assert trimmed_rss() - before < 8


async def test_timed_out_requests_to_a_paused_server_release_their_memory(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=60, error_cb=_quiet) as nc:
        with pytest.raises(errors.NoRespondersError):
            await nc.request("nobody")
        own_server.pause()
        try:
            payload = b"x" * 500_000
            before = trimmed_rss()
            for _ in range(3):
                found = await asyncio.gather(*(outcome(nc.request("a", payload, timeout=0.5)) for _ in range(100)))
                assert {type(error) for error in found} == {errors.TimeoutError}
                assert nc.pending_data_size == 0
            assert trimmed_rss() - before < 8
        finally:
            own_server.resume()


async def test_rows_for_a_paused_server_are_not_copied_ahead(own_server: NatsServer) -> None:
    """800 rows share one object of 1 MiB: the window may hold them all, the connection's buffer must not."""
    async with await jetarrow.connect(own_server.url, ping_interval=60, error_cb=_quiet) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["S.>"])
        own_server.pause()
        try:
            row = b"x" * (MIB - 1_000)
            before = trimmed_rss()
            task = asyncio.ensure_future(js.publish_batch("S.a", [row] * 800, timeout=1, max_inflight=1_000))
            peak = 0.0
            while not task.done():
                peak = max(peak, rss() - before)
                await asyncio.sleep(0.02)
            assert len((await task).errors) == 800
            assert peak < 32
        finally:
            own_server.resume()
