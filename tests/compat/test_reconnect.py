"""Disconnects, reconnects and failed connects behave alike in both clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest
from jetarrow.server import NatsServer

from ..tools import until
from .face import Collector, Face, subject


async def test_reconnect(face: Face, own_server: NatsServer) -> None:
    order, got, where = Collector(), Collector(), subject()
    nc = await face.connect(
        own_server.url,
        reconnect_time_wait=0.02,
        max_reconnect_attempts=-1,
        disconnected_cb=order.named("disconnected"),
        reconnected_cb=order.named("reconnected"),
        closed_cb=order.named("closed"),
        error_cb=Collector().callback,
    )
    await nc.subscribe(where, cb=got.callback)
    await nc.flush()
    own_server.kill()
    await order.wait(1)
    async with asyncio.timeout(5):
        while not nc.is_reconnecting:
            await asyncio.sleep(0.01)
    assert (nc.is_connected, nc.connected_url) == (False, None)
    await nc.publish(where, b"while away")
    await asyncio.to_thread(own_server.start)
    assert await order.wait(2) == ["disconnected", "reconnected"]
    await nc.publish(where, b"back")
    assert [msg.data for msg in await got.wait(2)] == [b"while away", b"back"]
    assert nc.stats["reconnects"] == 1
    await nc.close()
    assert (await order.wait(4))[2:] == ["disconnected", "closed"]


async def test_reconnect_given_up(face: Face, own_server: NatsServer) -> None:
    order = Collector()
    nc = await face.connect(
        own_server.url,
        max_reconnect_attempts=1,
        reconnect_time_wait=0.02,
        connect_timeout=0.5,
        closed_cb=order.named("closed"),
        error_cb=Collector().callback,
    )
    own_server.kill()
    assert await order.wait(1) == ["closed"]
    assert nc.is_closed
    assert face.kind(nc.last_error) == "errors.NoServersError"
    assert await face.failure(nc.publish("a", b"")) == "errors.ConnectionClosedError"


async def test_max_reconnect_attempts_limits_failed_connects(face: Face, own_server: NatsServer) -> None:
    order, failed = Collector(), Collector()
    nc = await face.connect(
        own_server.url,
        max_reconnect_attempts=3,
        reconnect_time_wait=0.2,
        disconnected_cb=order.named("disconnected"),
        closed_cb=order.named("closed"),
        error_cb=failed.callback,
    )
    own_server.kill()
    await order.wait(1)
    since = asyncio.get_running_loop().time()
    await until(lambda: "closed" in order.all)
    took = asyncio.get_running_loop().time() - since
    # One more than the limit; each error is reported once. nats-py calls disconnected_cb a second time.
    assert len([error for error in failed.all if isinstance(error, OSError)]) == 4
    assert took >= 3 * 0.2, took
    assert face.kind(nc.last_error) == "errors.NoServersError"


async def test_no_reconnect(face: Face, own_server: NatsServer) -> None:
    order = Collector()
    nc = await face.connect(
        own_server.url,
        allow_reconnect=False,
        disconnected_cb=order.named("disconnected"),
        closed_cb=order.named("closed"),
        error_cb=Collector().callback,
    )
    own_server.kill()
    assert await order.wait(2) == ["disconnected", "closed"]
    assert nc.is_closed


async def test_the_buffer_while_disconnected_is_bounded(face: Face, own_server: NatsServer) -> None:
    gone = Collector()
    nc = await face.connect(
        own_server.url, pending_size=1000, disconnected_cb=gone.named("gone"), error_cb=Collector().callback
    )
    own_server.kill()
    await gone.wait(1)
    kinds = []
    for _ in range(4):
        kinds.append(await face.failure(nc.publish("a", b"x" * 400)))
        # The buffer must not shrink in the meantime.
        await asyncio.sleep(0.05)
    assert kinds == ["nothing"] * 2 + ["errors.OutboundBufferLimitError"] * 2


async def test_force_reconnect(face: Face) -> None:
    order = Collector()
    nc = await face.connect(
        reconnect_time_wait=0.02,
        reconnected_cb=order.named("reconnected"),
        disconnected_cb=order.named("disconnected"),
    )
    sub = await nc.subscribe(where := subject())
    before = nc.client_id
    await nc.force_reconnect()
    assert await order.wait(2) == ["disconnected", "reconnected"]

    async def arrives() -> bool:
        await nc.publish(where, b"")
        return bool(sub.pending_msgs)

    await until(arrives)
    assert nc.client_id != before


@pytest.fixture
def silent() -> Iterator[list[str]]:
    """Two addresses of listeners that accept connections and send nothing."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        yield [f"nats://127.0.0.1:{listener.getsockname()[1]}" for listener in (one, other)]


async def test_connect_to_silent_servers_times_out(face: Face, silent: list[str]) -> None:
    nc, told = face.load("aio.client").Client(), Collector()
    same = []

    async def failed(error: Exception) -> None:
        told.add(error)
        same.append(nc.last_error is error)

    with pytest.raises(asyncio.TimeoutError) as late:
        await nc.connect(silent, connect_timeout=0.2, allow_reconnect=False, error_cb=failed)
    assert nc.last_error is late.value
    # One error for each attempted address; nats-py attempts only the first here.
    assert len(told.all) == (1 if face.name == "nats" else 2)
    assert {isinstance(error, asyncio.TimeoutError) for error in told.all} == {True}
    assert all(same)
    await nc.close()


@pytest.mark.parametrize("how", ["at_once", "while_away", "drain"])
async def test_callbacks_at_close(face: Face, own_server: NatsServer, how: str) -> None:
    order = Collector()
    nc = await face.connect(
        own_server.url,
        disconnected_cb=order.named("disconnected"),
        closed_cb=order.named("closed"),
        error_cb=Collector().callback,
    )
    if how == "while_away":
        own_server.kill()
        await order.wait(1)
        order.all.clear()
    await (nc.drain() if how == "drain" else nc.close())
    await until(lambda: "closed" in order.all)
    # nats-py calls disconnected_cb again if the connection was down already.
    again = ["disconnected"] if how != "while_away" or face.name == "nats" else []
    assert order.all == [*again, "closed"]
