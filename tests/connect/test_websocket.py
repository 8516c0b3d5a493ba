"""ws:// and wss:// against a real server."""

from __future__ import annotations

import asyncio
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import TLS, errors
from jetarrow.server import NatsServer

from ..listener import Listener
from ..tools import free_port


def serve(tls: str, more: str = "") -> tuple[NatsServer, int]:
    port = free_port()
    return NatsServer(config=f"websocket {{ host: 127.0.0.1, port: {port}\n {tls} }}\n{more}"), port


async def works(url: str, **options: Any) -> None:
    async with await jetarrow.connect(url, **options) as nc:
        assert nc.connected_url is not None
        assert nc.connected_url.geturl() == url
        await nc.flush()
        js = nc.jetstream()
        await js.add_stream(name="WS", subjects=["ws.>"])
        # Larger than one frame.
        payloads = [bytes([i % 256]) * 100_000 for i in range(100)]
        result = await js.publish_batch("ws.a", payloads)
        assert result.stored == 100
        table = await js.read("WS", columns=["data"]).read_all()
        assert table.column("data").to_pylist() == payloads
        await js.delete_stream("WS")


async def test_connect_over_websocket() -> None:
    server, port = serve("no_tls: true")
    with server:
        await works(f"ws://127.0.0.1:{port}")
        with jetarrow.sync.connect(f"ws://127.0.0.1:{port}") as nc:
            assert nc.rtt() < 5


async def test_connect_over_websocket_with_tls(authority: Any) -> None:
    files = authority.issue("127.0.0.1")
    server, port = serve(f'tls {{ cert_file: "{files.cert}", key_file: "{files.key}" }}')
    with server:
        await works(f"wss://127.0.0.1:{port}", tls=TLS(ca=authority.ca.cert))
        await works(f"wss://127.0.0.1:{port}", tls=authority.ca.context())
        with pytest.raises(errors.SecureConnFailedError, match="not signed by a CA that is trusted"):
            await jetarrow.connect(f"wss://127.0.0.1:{port}")


async def test_websocket_with_credentials_reconnects(record: Any) -> None:
    server, port = serve("no_tls: true", "authorization { user: me, password: canary }")
    with server:
        with pytest.raises(errors.AuthorizationError):
            await jetarrow.connect(f"ws://me:wrong@127.0.0.1:{port}")
        async with await jetarrow.connect(f"ws://me:canary@127.0.0.1:{port}", **record.options()) as nc:
            server.restart()
            await record.wait_for("reconnected")
            await nc.flush()
            assert "canary" not in repr(nc.servers)
        assert record.turns == ["disconnected", "reconnected", "disconnected", "closed"]


async def test_websocket_and_tcp_addresses_together_raise() -> None:
    with pytest.raises(errors.BadAddressError, match="mixing of websocket"):
        await jetarrow.connect(["ws://127.0.0.1:1", "nats://127.0.0.1:1"])


async def test_websocket_request_has_given_headers() -> None:
    """A proxy in front of the server may require headers. They are checked first; error texts contain no value."""
    heard: list[bytes] = []

    class Proxy(Listener):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            writer.close()

    async with Proxy() as proxy:
        url = proxy.url.replace("nats://", "ws://")
        headers = {"Authorization": ["Bearer canary"], "X-Trace": ["1", "2"]}
        with pytest.raises(errors.NoServersError) as refused:
            await jetarrow.connect(url, ws_connection_headers=headers, connect_timeout=5)
        assert "canary" not in str(refused.value)
    lines = heard[0].decode().lower().split("\r\n")
    assert {"authorization: bearer canary", "x-trace: 1, 2"} <= set(lines)
    for name, value in [("A b", "x"), ("A", "canary\r\nB: 1"), ("Host", "canary")]:
        with pytest.raises(ValueError, match="ws_connection_headers") as wrong:
            await jetarrow.connect(url, ws_connection_headers={name: [value]})
        assert "canary" not in str(wrong.value)
