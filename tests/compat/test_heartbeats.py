"""Heartbeats of a fetch: the same with both clients, also when they are missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import jetarrow.sync
import pytest
from jetarrow.js.errors import FetchTimeoutError

from .face import Face, spread
from .pull_proxy import PullProxy

TIMEOUT = 4.0
SIZES = pytest.mark.parametrize("batch", [1, 5])


@pytest.fixture
async def proxy(nats_url: str) -> AsyncIterator[PullProxy]:
    async with PullProxy(urlsplit(nats_url).port or 0) as proxy:
        yield proxy


async def sub_behind(proxy: PullProxy, face: Face, js: Any, stream: str) -> Any:
    """Return a pull subscription of "work" whose connection leads through the proxy."""
    await js.add_consumer(stream, durable_name="work", ack_policy="explicit")
    nc = await face.connect(proxy.url)
    return await nc.jetstream().pull_subscribe_bind("work", stream=stream)


@SIZES
async def test_heartbeats_that_stop(face: Face, js: Any, stream: str, proxy: PullProxy, batch: int) -> None:
    sub = await sub_behind(proxy, face, js, stream)
    proxy.deafens = True
    begin = asyncio.get_running_loop().time()
    error = await face.raised(sub.fetch(batch, timeout=TIMEOUT, heartbeat=0.1))
    assert 0.9 * TIMEOUT < asyncio.get_running_loop().time() - begin < TIMEOUT + 15
    assert proxy.deaf
    assert face.kind(error) == "js.errors.FetchTimeoutError"
    assert str(error).startswith("nats: fetch timeout")
    assert isinstance(error, face.late)


@SIZES
async def test_a_server_that_sends_nothing(face: Face, js: Any, stream: str, proxy: PullProxy, batch: int) -> None:
    sub = await sub_behind(proxy, face, js, stream)
    proxy.deaf = True
    error = await face.raised(sub.fetch(batch, timeout=TIMEOUT, heartbeat=0.1))
    # nats-py: its base class, as no heartbeat was received.
    kind = "errors.TimeoutError" if face.name == "nats" else "js.errors.FetchTimeoutError"
    assert (face.kind(error), isinstance(error, face.late)) == (kind, True)


@SIZES
async def test_heartbeats_that_stop_while_messages_are_there(
    face: Face, js: Any, stream: str, proxy: PullProxy, batch: int
) -> None:
    sub = await sub_behind(proxy, face, js, stream)
    await spread(js, stream, 3)
    found = await sub.fetch(batch, timeout=TIMEOUT, heartbeat=0.1)
    assert [msg.data for msg in found] == [b"0", b"1", b"2"][:batch]


@SIZES
async def test_a_heartbeat_that_is_too_large(face: Face, js: Any, stream: str, batch: int) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    error = await face.raised(sub.fetch(batch, timeout=TIMEOUT, heartbeat=0.8 * TIMEOUT))
    assert isinstance(error, face.js_errors.APIError)
    assert (error.code, error.description) == (400, "Bad Request - heartbeat value too large")


@pytest.mark.parametrize("heartbeat", [0, None])
async def test_no_heartbeat(face: Face, js: Any, stream: str, heartbeat: int | None) -> None:
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    assert await face.nothing_comes(sub.fetch(1, timeout=0.2, heartbeat=heartbeat))
    await spread(js, stream, 1)
    assert [msg.data for msg in await sub.fetch(1, timeout=5, heartbeat=heartbeat)] == [b"0"]


@SIZES
async def test_the_blocking_client_when_heartbeats_stop(ours: Face, stream: str, proxy: PullProxy, batch: int) -> None:
    nc = await asyncio.to_thread(jetarrow.sync.connect, proxy.url)
    sub = await asyncio.to_thread(nc.jetstream().pull_subscribe, f"{stream}.>", "work")
    proxy.deafens = True
    with pytest.raises(FetchTimeoutError):
        await asyncio.to_thread(sub.fetch, batch, timeout=TIMEOUT, heartbeat=0.1)
    assert proxy.deaf
    proxy.cut()
    await asyncio.to_thread(nc.close)


@SIZES
async def test_the_blocking_client_sends_a_lost_request_again(
    ours: Face, stream: str, proxy: PullProxy, batch: int
) -> None:
    nc = await asyncio.to_thread(jetarrow.sync.connect, proxy.url)
    sub = await asyncio.to_thread(nc.jetstream().pull_subscribe, f"{stream}.>", "work")
    proxy.loses = True
    task = asyncio.ensure_future(asyncio.to_thread(sub.fetch, batch, timeout=20, heartbeat=0.2))
    await proxy.lost.wait()
    await spread((await ours.connect()).jetstream(), stream, 1)
    assert [msg.data for msg in await task] == [b"0"]
    await asyncio.to_thread(nc.close)
