"""Losing servers and finding them again."""

from __future__ import annotations

import asyncio
import gc
import itertools
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlparse

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import TLS, errors
from jetarrow.aio.client import Client, Server
from jetarrow.server import NatsServer

from ..tools import free_port


@pytest.fixture
def two() -> Iterator[tuple[NatsServer, NatsServer]]:
    with NatsServer(jetstream=False) as first, NatsServer(jetstream=False) as second:
        yield first, second


def port_of(nc: Client) -> int | None:
    url = nc.connected_url
    return None if url is None else url.port


async def test_the_next_server_takes_over(two: tuple[NatsServer, NatsServer], record: Any) -> None:
    first, second = two
    async with await jetarrow.connect(
        [first.url, second.url], dont_randomize=True, reconnect_time_wait=0.1, **record.options()
    ) as nc:
        assert port_of(nc) == first.port
        first.kill()
        await record.wait_for("reconnected")
        assert port_of(nc) == second.port
        await nc.flush()
        second.kill()
        await asyncio.to_thread(first.start)
        await record.wait_for("reconnected", 2)
        assert port_of(nc) == first.port
        # The one that is away was tried as well, and that is remembered.
        assert [server.uri.port for server in nc.server_pool] != []
        assert nc.discovered_servers == []


async def test_random_order(two: tuple[NatsServer, NatsServer]) -> None:
    ports = set()
    for _ in range(40):
        async with await jetarrow.connect([server.url for server in two]) as nc:
            ports.add(port_of(nc))
    assert ports == {server.port for server in two}


async def test_what_was_published_meanwhile_arrives(own_server: NatsServer, record: Any) -> None:
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.1, **record.options()) as nc:
        sub = await nc.subscribe("a")
        own_server.kill()
        await record.wait_for("disconnected")
        await nc.publish("a", b"meanwhile")
        assert nc.pending_data_size >= 0
        await asyncio.to_thread(own_server.start)
        assert (await sub.next_msg(10)).data == b"meanwhile"


async def test_given_up_after_max_reconnect_attempts(own_server: NatsServer, record: Any) -> None:
    nc = await jetarrow.connect(own_server.url, max_reconnect_attempts=3, reconnect_time_wait=0.01, **record.options())
    own_server.kill()
    await record.wait_for("closed")
    assert record.turns == ["disconnected", "closed"]
    assert nc.is_closed
    assert not nc.is_reconnecting
    # As nats-py counts: more than so many failures.
    assert sum(isinstance(error, ConnectionRefusedError) for error in record.errors) == 4
    assert isinstance(record.errors[-1], errors.NoServersError)
    assert nc.last_error is record.errors[-1]
    with pytest.raises(errors.ConnectionClosedError):
        await nc.flush()
    await nc.close()
    assert record.turns == ["disconnected", "closed"]


async def test_allow_reconnect_false(own_server: NatsServer, record: Any) -> None:
    nc = await jetarrow.connect(own_server.url, allow_reconnect=False, **record.options())
    await nc.force_reconnect()
    await nc.flush()
    assert nc.is_connected
    own_server.kill()
    await record.wait_for("closed")
    assert record.seen == ["error", "disconnected", "closed"]
    assert nc.is_closed
    assert isinstance(nc.last_error, errors.UnexpectedEOF)


def test_the_blocking_client_ends_too(own_server: NatsServer) -> None:
    with jetarrow.sync.connect(own_server.url, max_reconnect_attempts=1, reconnect_time_wait=0.01) as nc:
        own_server.kill()
        deadline = time.monotonic() + 10
        while not nc.is_closed and time.monotonic() < deadline:
            time.sleep(0.01)
        assert nc.is_closed
        assert isinstance(nc.last_error, errors.NoServersError)
        with pytest.raises(errors.ConnectionClosedError):
            nc.flush()


async def test_waits_grow_up_to_reconnect_time_wait(record: Any) -> None:
    """Attempts are counted where they arrive: at a port that refuses NATS."""
    attempts: list[float] = []
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    first = threading.Event()

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock:
                attempts.append(time.monotonic())
                if first.is_set():
                    continue
                first.set()
                sock.sendall(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1000}\r\n')
                while b"PING" not in sock.recv(4096):
                    pass
                sock.sendall(b"PONG\r\n")
                sock.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        nc = await jetarrow.connect(f"127.0.0.1:{port}", reconnect_time_wait=0.5, **record.options())
        await nc.publish("a", b"x")  # the fake ends the connection
        await record.until(lambda: len(attempts) >= 8, 20)
        await nc.close()
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
    waits = [after - before for before, after in itertools.pairwise(attempts[1:])]
    # 0.1, 0.2, 0.4, then 0.5, each give or take a fifth, and what the machine adds.
    for wait, expected in zip(waits, (0.1, 0.2, 0.4, 0.5, 0.5, 0.5), strict=False):
        assert expected * 0.79 <= wait < expected * 1.25 + 0.2, waits


async def test_minus_one_waits_for_the_first_server(record: Any) -> None:
    with NatsServer(jetstream=False) as server:
        url = server.url
        server.stop()
        connecting = asyncio.create_task(
            jetarrow.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, **record.options())
        )
        await record.until(lambda: len(record.errors) >= 3)
        assert not connecting.done()
        await asyncio.to_thread(server.start)
        async with await asyncio.wait_for(connecting, 10) as nc:
            await nc.flush()
        # Coming up for the first time is no way back.
        assert record.turns == ["disconnected", "closed"]


async def test_a_cancelled_connect_ends_its_attempts() -> None:
    accepted: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        url = f"127.0.0.1:{listener.getsockname()[1]}"
        task = asyncio.create_task(jetarrow.connect(url, max_reconnect_attempts=-1, connect_timeout=0.2))
        accepted.append((await asyncio.to_thread(listener.accept))[0])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        listener.settimeout(1)
        with pytest.raises(TimeoutError):
            while True:
                # The attempt that was under way may be the last.
                accepted.append((await asyncio.to_thread(listener.accept))[0])
        assert len(accepted) <= 2
    for sock in accepted:
        sock.close()


async def test_force_reconnect_goes_to_the_other(two: tuple[NatsServer, NatsServer], record: Any) -> None:
    first, second = two
    async with await jetarrow.connect([first.url, second.url], dont_randomize=True, **record.options()) as nc:
        for number, server in enumerate((second, first, second), start=1):
            await nc.force_reconnect()
            await record.wait_for("reconnected", number)
            assert port_of(nc) == server.port
        assert record.errors == []


async def test_set_server_pool(two: tuple[NatsServer, NatsServer], record: Any) -> None:
    first, second = two
    async with await jetarrow.connect(first.url, **record.options()) as nc:
        with pytest.raises(errors.BadAddressError):
            nc.set_server_pool([second.url, "nats://a b"])
        assert [url.port for url in nc.servers] == [first.port]
        nc.set_server_pool([second.url.replace("//", "//me:canary@")])
        assert [url.port for url in nc.servers] == [second.port]
        assert "canary" not in repr(nc.servers)
        # It counts from the next reconnect on.
        assert port_of(nc) == first.port
        await nc.flush()
        await nc.force_reconnect()
        await record.wait_for("reconnected")
        assert port_of(nc) == second.port
    with pytest.raises(errors.ConnectionClosedError):
        nc.set_server_pool([first.url])
    with jetarrow.sync.connect(first.url) as blocking:
        blocking.set_server_pool([second.url])
        assert [server.uri.port for server in blocking.server_pool] == [second.port]


async def test_the_handler_chooses(two: tuple[NatsServer, NatsServer], record: Any) -> None:
    first, second = two
    asked: list[tuple[list[Server], dict[str, Any]]] = []

    def handler(servers: list[Server], info: dict[str, Any]) -> tuple[Server | None, float]:
        asked.append((servers, info))
        return next(server for server in servers if server.uri.port == second.port), 0.05

    async with await jetarrow.connect(
        [first.url, second.url], dont_randomize=True, reconnect_to_server_handler=handler, **record.options()
    ) as nc:
        assert port_of(nc) == first.port
        assert asked == []
        for number in range(1, 3):
            await nc.force_reconnect()
            await record.wait_for("reconnected", number)
            assert port_of(nc) == second.port
    assert len(asked) == 2
    servers, info = asked[0]
    assert sorted(server.uri.netloc for server in servers) == sorted(
        server.url.removeprefix("nats://") for server in two
    )
    assert info["port"] == first.port
    assert info["version"].startswith("2.")
    assert info["max_payload"] == nc.max_payload


async def test_a_handler_that_errs(own_server: NatsServer, record: Any) -> None:
    answers: list[Any] = [
        (Server(urlparse("nats://elsewhere:4222")), 0),
        (None, 0),
        ValueError("handler failed"),
        "nonsense",
        (None, float("nan")),
    ]

    def handler(servers: list[Server], info: dict[str, Any]) -> tuple[Server | None, float]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    async with await jetarrow.connect(own_server.url, reconnect_to_server_handler=handler, **record.options()) as nc:
        for number in range(1, 6):
            await nc.force_reconnect()
            await record.wait_for("reconnected", number)
    assert answers == []
    assert isinstance(record.errors[0], errors.ServerNotInPoolError)
    assert any("handler failed" in str(error) for error in record.errors)
    assert record.turns == ["disconnected", "reconnected"] * 5 + ["disconnected", "closed"]


@pytest.fixture
async def cluster() -> AsyncIterator[Any]:
    """A function that starts the next server of a cluster."""
    ports = [free_port() for _ in range(3)]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    with ExitStack() as stack:
        started = 0

        async def start(more: str = "") -> NatsServer:
            nonlocal started
            config = f"cluster {{ name: c, listen: 127.0.0.1:{ports[started]}, routes: [{routes}] }}\n{more}"
            server = NatsServer(config=f"server_name: s{started}\n{config}", jetstream=False)
            started += 1
            return await asyncio.to_thread(stack.enter_context, server)

        yield start


async def test_discovered_servers(cluster: Any, record: Any) -> None:
    first = await cluster()
    async with await jetarrow.connect(first.url.replace("//", "//me:canary@"), **record.options()) as nc:
        assert nc.discovered_servers == []
        second = await cluster()
        await record.wait_for("discovered_server")
        assert [url.port for url in nc.discovered_servers] == [second.port]
        assert {url.port for url in nc.servers} == {first.port, second.port}
        first.kill()
        await record.wait_for("reconnected")
        assert port_of(nc) == second.port
    # Those that are known at the start are no news.
    await asyncio.to_thread(first.start)
    seen = len(record.seen)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        async with await jetarrow.connect(first.url, **record.options()) as nc:
            if second.port in {url.port for url in nc.discovered_servers}:
                break
        await asyncio.sleep(0.1)
    else:
        pytest.fail("the second server was not discovered")
    assert "discovered_server" not in record.seen[seen:]


async def test_discovered_servers_keep_tls_and_the_name(cluster: Any, authority: Any, record: Any) -> None:
    """They are told by address; their certificates are for the name they share."""
    files = authority.issue("localhost")
    tls = f'tls {{ cert_file: "{files.cert}", key_file: "{files.key}" }}'
    first = await cluster(tls)
    async with await jetarrow.connect(
        f"tls://localhost:{first.port}", tls=TLS(ca=authority.ca.cert), **record.options()
    ) as nc:
        second = await cluster(tls)
        await record.wait_for("discovered_server")
        assert f"tls://127.0.0.1:{second.port}" in [url.geturl() for url in nc.discovered_servers]
        first.kill()
        await record.wait_for("reconnected")
        assert port_of(nc) == second.port
        assert not any(isinstance(error, errors.SecureConnFailedError) for error in record.errors)


async def test_half_open_is_found_within_two_intervals(own_server: NatsServer, record: Any) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=0.5, **record.options()) as nc:
        await nc.flush()
        own_server.pause()
        begin = time.monotonic()
        try:
            await record.wait_for("disconnected", timeout=5)
            assert time.monotonic() - begin < 2 * 0.5 + 0.3
            assert isinstance(record.errors[0], errors.StaleConnectionError)
        finally:
            own_server.resume()
        await record.wait_for("reconnected", timeout=10)
        await nc.flush()


async def test_half_open_is_found_while_publishing(own_server: NatsServer, record: Any) -> None:
    """All buffers on the way are full then."""
    async with await jetarrow.connect(own_server.url, ping_interval=0.5, **record.options()) as nc:
        await nc.flush()
        own_server.pause()
        begin = time.monotonic()

        async def pour() -> None:
            while True:
                await nc.publish("a", b"x" * 500_000)

        pouring = asyncio.create_task(pour())
        try:
            await record.wait_for("disconnected", timeout=5)
            assert time.monotonic() - begin < 2 * 0.5 + 0.5
        finally:
            own_server.resume()
            pouring.cancel()
        with pytest.raises((asyncio.CancelledError, errors.OutboundBufferLimitError)):
            await pouring
        await record.wait_for("reconnected", timeout=10)


async def test_a_quiet_connection_lives(own_server: NatsServer, record: Any) -> None:
    async with await jetarrow.connect(
        own_server.url, ping_interval=0.1, max_outstanding_pings=1, **record.options()
    ) as nc:
        await asyncio.sleep(1)
        assert record.seen == []
        assert nc.is_connected


async def test_close_waits_for_a_slow_server_but_not_for_a_dead_one(own_server: NatsServer) -> None:
    nc = await jetarrow.connect(own_server.url, ping_interval=30)
    own_server.pause()
    await nc.publish("a", b"x")
    begin = time.monotonic()
    await asyncio.wait_for(nc.close(), 8)
    assert 1.5 < time.monotonic() - begin < 4
    own_server.resume()


async def test_a_client_that_is_collected_leaves_the_server() -> None:
    monitor = free_port()
    with NatsServer(config=f"http: 127.0.0.1:{monitor}", jetstream=False) as server:

        async def connections() -> int:
            reader, writer = await asyncio.open_connection("127.0.0.1", monitor)
            writer.write(b"GET /connz HTTP/1.0\r\n\r\n")
            text = (await reader.read()).decode()
            writer.close()
            return int(text.split('"num_connections":')[1].split(",")[0])

        nc = await jetarrow.connect(server.url)
        other = await jetarrow.connect(server.url)
        sub = await other.subscribe("a")
        await other.flush()
        with pytest.raises(errors.NoRespondersError):
            await nc.request("nobody")
        assert await connections() == 2
        for _ in range(1_000):
            await nc.publish("a", b"x" * 1_000)
        del nc
        deadline = time.monotonic() + 5
        while await connections() > 1 and time.monotonic() < deadline:
            gc.collect()
            await asyncio.sleep(0.05)
        assert await connections() == 1
        # What it had published was sent.
        for _ in range(1_000):
            await sub.next_msg(5)
        await other.close()
