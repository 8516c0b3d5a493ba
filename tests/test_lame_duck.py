"""A server that announces its shutdown (lame duck mode): the clients leave before it closes their connections."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import jetarrow
import pytest
from jetarrow import errors
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg
from jetarrow.server import NatsServer

from .survive.tools import places
from .tools import cluster, until

# A server closes no connection within the grace period, so a client that is gone has left by itself.
PATIENT = "lame_duck_duration: 120s\nlame_duck_grace_period: 100s"
Servers = dict[str, NatsServer]


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    with cluster(3, PATIENT) as servers:
        yield servers
        # A server that has announced its shutdown takes no other signal.
        for server in servers.values():
            if server.running:
                server.kill()


def announce(server: NatsServer) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGUSR2)


async def connect(servers: Servers, **options: object) -> Client:
    urls = [server.url for server in servers.values()]
    nc = await jetarrow.connect(urls, dont_randomize=True, **options)  # type: ignore[arg-type]
    assert nc.connected_url.netloc == urls[0].removeprefix("nats://")  # type: ignore[union-attr]
    return nc


async def moved(nc: Client, servers: Servers) -> None:
    await until(lambda: nc.is_connected and nc.connected_server_version and nc.stats["reconnects"] == 1, 80)
    assert nc.connected_url.netloc != servers["n0"].url.removeprefix("nats://")  # type: ignore[union-attr]


async def test_nothing_is_lost_and_no_outcome_unknown(servers: Servers) -> None:
    events: list[str] = []

    async def noted(*_: object) -> None:
        events.append("disconnected")

    clients = [await connect(servers, disconnected_cb=noted) for _ in range(10)]
    js = clients[0].jetstream(timeout=1)

    async def made() -> bool:
        try:
            await js.add_stream(name="S", subjects=["s.>"], num_replicas=3, allow_atomic=True)
        except errors.Error:  # The cluster has no leader yet.
            return False
        return True

    await until(made, 60)

    async def elsewhere() -> bool:
        """A change of the leader loses messages on the way to it, whatever the clients do."""
        try:
            found = (await js.stream_info("S")).cluster
            if found is not None and found.leader == "n0":
                await js.stream("S").step_down()
        except errors.Error:
            return False
        return found is not None and found.leader in ("n1", "n2")

    await until(elsewhere, 60)
    over = asyncio.Event()
    counts = [0] * len(clients)

    async def publishes(place: int) -> None:
        """Without ids: a message that was on its way in a disconnect would be an error."""
        js, number = clients[place].jetstream(timeout=30), place
        while not over.is_set():
            if place % 2:
                await js.publish("s.a", b"%d" % number)
                number += len(clients)
            else:
                payloads = [b"%d" % (number + i * len(clients)) for i in range(200)]
                mode = {"mode": "atomic", "chunk": 50} if place % 4 else {}
                (await js.publish_batch("s.b", payloads, timeout=30, **mode)).raise_for_errors()  # type: ignore[arg-type]
                number += 200 * len(clients)
            counts[place] += 1

    tasks = [asyncio.create_task(publishes(place)) for place in range(len(clients))]
    await until(lambda: all(count > 2 for count in counts), 60)
    announce(servers["n0"])
    await asyncio.gather(*[moved(nc, servers) for nc in clients])
    before = list(counts)
    await until(lambda: all(count > old for count, old in zip(counts, before, strict=True)), 60)
    over.set()
    await asyncio.gather(*tasks)
    assert len(events) == len(clients)
    stored = await places(clients[0].jetstream(timeout=30), "S")
    assert (
        len(stored)
        == len(set(stored.values()))
        == sum(count * (1 if place % 2 else 200) for place, count in enumerate(counts))
    )
    await asyncio.gather(*[nc.close() for nc in clients])


async def test_a_client_with_one_server_stays(servers: Servers) -> None:
    noticed = asyncio.Event()

    async def notice() -> None:
        noticed.set()

    nc = await jetarrow.connect(
        servers["n0"].url, lame_duck_mode_cb=notice, ignore_discovered_servers=True, max_reconnect_attempts=0
    )
    announce(servers["n0"])
    await noticed.wait()
    # Longer than the jitter of a move.
    await asyncio.sleep(1.5)
    assert nc.is_connected
    assert nc.stats["reconnects"] == 0
    await nc.close()


async def test_a_request_that_waits_is_not_given_up(servers: Servers) -> None:
    asked = asyncio.Event()
    go = asyncio.Event()

    async def answer(msg: Msg) -> None:
        asked.set()
        await go.wait()
        await msg.respond(b"late")

    other = await jetarrow.connect(servers["n1"].url)
    sub = await other.subscribe("question", cb=answer)
    await other.flush()
    nc = await connect(servers)

    async def reached() -> bool:
        try:
            await nc.request("question", b"", timeout=0.2)
        except errors.NoRespondersError:  # The interest has not reached this server yet.
            return False
        except errors.TimeoutError:
            return asked.is_set()
        return True

    await until(reached, 30)
    before = sub.delivered
    waiting = asyncio.create_task(nc.request("question", b"x", timeout=60))
    await until(lambda: sub.delivered > before)
    announce(servers["n0"])
    # Longer than the jitter and the first attempt to move.
    await asyncio.sleep(2.5)
    assert nc.stats["reconnects"] == 0
    go.set()
    assert (await waiting).data == b"late"
    await moved(nc, servers)
    await nc.close()
    await other.close()


async def test_requests_during_a_move_are_answered(servers: Servers) -> None:
    """Their number does not matter: none of them is sent over the link that is about to end."""
    loop = asyncio.get_running_loop()

    async def answer(msg: Msg) -> None:
        # A request is always under way when the connection moves.
        loop.call_later(0.2, lambda: answers.append(asyncio.ensure_future(msg.respond(msg.data))))

    answers: list[asyncio.Future[None]] = []
    other = await jetarrow.connect(servers["n1"].url)
    await other.subscribe("question", cb=answer)
    await other.flush()
    # Several: a response is lost only if it comes in the milliseconds between the links.
    clients = [await connect(servers) for _ in range(8)]

    async def reached() -> bool:
        try:
            return bool(await clients[0].request("question", b"", timeout=5))
        except errors.NoRespondersError:  # The interest has not reached this server yet.
            return False

    await until(reached, 30)
    announce(servers["n0"])

    async def asks(nc: Client) -> None:
        moving = asyncio.create_task(moved(nc, servers))
        requests: list[asyncio.Task[Msg]] = []
        while not moving.done():
            requests.append(asyncio.create_task(nc.request("question", b"%d" % len(requests), timeout=20)))
            await asyncio.wait([moving], timeout=0.01)
        await moving
        for number, request in enumerate(requests):
            assert (await request).data == b"%d" % number

    await asyncio.gather(*[asks(nc) for nc in clients])
    await asyncio.gather(*answers)
    await asyncio.gather(*[nc.close() for nc in (*clients, other)])
