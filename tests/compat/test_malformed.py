"""Every malformed call raises a specific error immediately, sends nothing, and leaves the connection usable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

from ..tools import connections, free_port, wait_until
from .malformed import CALLS, URLS, Tools, Wrong


class Monitored:
    """A server whose monitoring endpoint reports the data that each connection has sent."""

    def __init__(self) -> None:
        self._monitor = free_port()
        self.server = NatsServer(config=f'http: "127.0.0.1:{self._monitor}"\nmax_payload: 65536\n')

    def sent(self, name: str) -> list[int]:
        """Return a connection's id, its received messages and bytes, and its number of subscriptions."""
        found = [one for one in connections(self._monitor) if one.get("name") == name]
        # The server may still list the connection of an earlier test.
        one = max(found, key=lambda one: int(one["cid"]))
        return [one["cid"], one["in_msgs"], one["in_bytes"], len(one.get("subscriptions_list", []))]


def difference(after: list[int], before: list[int]) -> list[int]:
    return [now - then for now, then in zip(after, before, strict=True)]


# Difference from one publish of five bytes, which follows the malformed call on the same connection.
ONLY_THE_GOOD_ONE = [0, 1, 5, 0]


@pytest.fixture(scope="module")
def monitored() -> Iterator[Monitored]:
    monitored = Monitored()
    with monitored.server:
        yield monitored


@pytest.fixture
async def tools(monitored: Monitored) -> AsyncIterator[Tools]:
    async with await jetarrow.connect(monitored.server.url, name="async") as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["S.>"], storage="memory")
        pull = await js.pull_subscribe("S.>", durable="work")
        await js.publish("S.a", b"first")
        yield Tools(nc, js, pull, "S", nc.max_payload)


@pytest.fixture
def sync_tools(monitored: Monitored) -> Iterator[Tools]:
    with jetarrow.sync.connect(monitored.server.url, name="sync") as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["S.>"], storage="memory")
        pull = js.pull_subscribe("S.>", durable="work")
        js.publish("S.a", b"first")
        yield Tools(nc, js, pull, "S", nc.max_payload)


def counted(monitored: Monitored, name: str, tools: Tools) -> list[int]:
    """Return the statistics once the server has counted all messages, which may be after its response."""
    wait_until(lambda: monitored.sent(name)[1] == tools.nc.stats["out_msgs"])
    return monitored.sent(name)


@pytest.mark.parametrize("name", CALLS)
async def test_malformed_async_call_raises_and_sends_nothing(name: str, tools: Tools, monitored: Monitored) -> None:
    before = counted(monitored, "async", tools)
    begin = time.monotonic()
    with pytest.raises(CALLS[name].error, match=CALLS[name].says) as caught:
        await asyncio.wait_for(CALLS[name].value(tools), 20)
    assert time.monotonic() - begin < 4.5, caught.value
    assert caught.type is CALLS[name].error
    assert (await tools.js.publish("S.a", b"alive")).stream == "S"
    assert difference(counted(monitored, "async", tools), before) == ONLY_THE_GOOD_ONE, caught.value


@pytest.mark.parametrize("name", CALLS)
def test_malformed_sync_call_raises_and_sends_nothing(name: str, sync_tools: Tools, monitored: Monitored) -> None:
    before = counted(monitored, "sync", sync_tools)
    begin = time.monotonic()
    with pytest.raises(CALLS[name].error, match=CALLS[name].says) as caught:
        CALLS[name].value(sync_tools)
    assert time.monotonic() - begin < 4.5, caught.value
    assert caught.type is CALLS[name].error
    assert sync_tools.js.publish("S.a", b"alive").stream == "S"
    assert difference(counted(monitored, "sync", sync_tools), before) == ONLY_THE_GOOD_ONE, caught.value


@pytest.mark.parametrize("url", URLS, ids=lambda url: repr(url.value))
async def test_malformed_address_raises(url: Wrong) -> None:
    with pytest.raises(url.error, match=url.says) as caught:
        await asyncio.wait_for(jetarrow.connect(url.value, connect_timeout=0.5, max_reconnect_attempts=0), 10)
    assert caught.type is url.error


@pytest.mark.parametrize("url", URLS, ids=lambda url: repr(url.value))
def test_malformed_address_raises_in_blocking_api(url: Wrong) -> None:
    begin = time.monotonic()
    with pytest.raises(url.error, match=url.says) as caught:
        jetarrow.sync.connect(url.value, connect_timeout=20, max_reconnect_attempts=0)
    assert caught.type is url.error
    assert time.monotonic() - begin < 4


async def test_monitor_counts_valid_calls(tools: Tools, monitored: Monitored) -> None:
    # Checks that the monitoring endpoint, which the other tests use, counts sent data.
    before = counted(monitored, "async", tools)
    await tools.nc.publish("good", b"12345")
    await tools.nc.subscribe("good")
    await tools.js.publish("S.a", b"alive")
    assert difference(counted(monitored, "async", tools), before) == [0, 2, 10, 1]


def test_more_than_100_malformed_calls_are_listed() -> None:
    assert len(CALLS) + len(URLS) > 100
    assert all(callable(call.value) and call.says for call in CALLS.values())
