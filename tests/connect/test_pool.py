"""The server pool: the given list, a handler that selects, servers that a cluster announces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlparse

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import TLS, errors
from jetarrow.aio.client import Server
from jetarrow.server import NatsServer

from ..listener import Listener
from ..tools import free_port, port_of, until
from ..yardstick.liar import INFO, requests


async def test_force_reconnect_connects_to_another_server(two: tuple[NatsServer, NatsServer], record: Any) -> None:
    first, second = two
    async with await jetarrow.connect([first.url, second.url], dont_randomize=True, **record.options()) as nc:
        for number, server in enumerate((second, first, second), start=1):
            await nc.force_reconnect()
            await record.wait_for("reconnected", number)
            assert port_of(nc) == server.port
        assert record.errors == []


async def test_messages_after_force_reconnect_use_new_connection(nats_url: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        for _ in range(100):
            before = nc.client_id
            await nc.force_reconnect()
            # The old connection is closed when the call returns: later messages are not written to it.
            assert nc.is_reconnecting or nc.client_id != before
            await nc.flush()
            assert nc.client_id != before


async def test_set_server_pool_replaces_servers(two: tuple[NatsServer, NatsServer], record: Any) -> None:
    first, second = two
    async with await jetarrow.connect(first.url, **record.options()) as nc:
        with pytest.raises(errors.BadAddressError):
            nc.set_server_pool([second.url, "nats://a b"])
        assert [url.port for url in nc.servers] == [first.port]
        nc.set_server_pool([second.url.replace("//", "//me:canary@")])
        assert [url.port for url in nc.servers] == [second.port]
        assert "canary" not in repr(nc.servers)
        # Used from the next reconnect on.
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


async def test_reconnect_handler_selects_server(two: tuple[NatsServer, NatsServer], record: Any) -> None:
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


async def test_reconnect_handler_error_is_reported(own_server: NatsServer, record: Any) -> None:
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
    """Returns a function that starts the next server of a cluster."""
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


async def test_announced_servers_are_ignored_on_request(cluster: Any, record: Any) -> None:
    first = await cluster()
    async with (
        await jetarrow.connect(first.url, ignore_discovered_servers=True) as alone,
        await jetarrow.connect(first.url, **record.options()) as nc,
    ):
        second = await cluster()
        await record.wait_for("discovered_server")
        assert [url.port for url in nc.discovered_servers] == [second.port]
        # The server has announced it on this connection too.
        await alone.flush()
        assert (alone.discovered_servers, len(alone.servers)) == ([], 1)


async def test_announced_servers_are_added_to_pool(cluster: Any, record: Any) -> None:
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
    # Servers that are known at the start are not reported as discovered.
    await asyncio.to_thread(first.start)

    async def is_known() -> bool:
        async with await jetarrow.connect(first.url) as nc:
            return second.port in {url.port for url in nc.discovered_servers}

    await until(is_known)
    seen = len(record.seen)
    async with await jetarrow.connect(first.url, **record.options()) as nc:
        assert second.port in {url.port for url in nc.discovered_servers}
    assert "discovered_server" not in record.seen[seen:]


async def test_info_with_first_response_is_processed(record: Any) -> None:
    """One read has the PONG that ends the handshake and an INFO with another server."""

    class Eager(Listener):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(INFO)
            more = INFO.replace(b"}", b',"connect_urls":["127.0.0.1:1"]}')
            async for verb, _ in requests(reader):
                if verb == b"PING":
                    writer.write(b"PONG\r\n" + more)
                    more = b""

    async with Eager() as server, await jetarrow.connect(server.url, **record.options()) as nc:
        await record.wait_for("discovered_server")
        assert [url.port for url in nc.discovered_servers] == [1]


async def test_max_payload_is_updated_by_last_info() -> None:
    """1 MiB if the server has not announced one."""
    greetings: list[dict[str, Any]] = []

    class Changing(Listener):
        writer: asyncio.StreamWriter

        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.writer = writer
            writer.write(b'INFO {"version":"2.15.1","headers":true}\r\n')
            async for verb, words in requests(reader):
                if verb == b"CONNECT":
                    greetings.append(json.loads(b" ".join(words)))
                if verb == b"PING":
                    writer.write(b"PONG\r\n")

    async with Changing() as server, await jetarrow.connect(server.url) as nc:
        assert nc.max_payload == 1 << 20
        for info, limit in [(b'{"max_payload":2048}', 2048), (b"{}", 2048), (b'{"max_payload":4096}', 4096)]:
            server.writer.write(b"INFO " + info + b"\r\n")
            await nc.flush()
            assert nc.max_payload == limit
    assert [(greeting["lang"], greeting["version"]) for greeting in greetings] == [("python", jetarrow.__version__)]


async def test_announced_servers_use_tls_and_host_name(cluster: Any, authority: Any, record: Any) -> None:
    """Announced servers have addresses; their certificates have a common name."""
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
