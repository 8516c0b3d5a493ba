"""Connecting: addresses, credentials, TLS."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from typing import Any

from ..case import Case

USER = "authorization { user: anna, password: secret }"
TOKEN = "authorization { token: secret }"


async def _connects(case: Case, key: str, url: str, **options: Any) -> None:
    """Note the status of a new connection after a round trip, or the error."""

    async def connect() -> Any:
        client = await case.connect(url, timeout=5, **options)
        await client.flush()
        return client.status

    await case.call(key, connect())


async def addresses(case: Case) -> None:
    port = case.url.rpartition(":")[2]
    for url in ("http://127.0.0.1", "127.0.0.1:4222", "", "nats//x"):
        await _connects(case, f"scheme of {url!r}", url)
    await _connects(case, "localhost", f"nats://localhost:{port}")
    await _connects(case, "slash", f"nats://127.0.0.1:{port}/")


async def refused_and_silent_ports(case: Case) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        await case.call("refused", case.connect(f"nats://127.0.0.1:{holder.getsockname()[1]}", timeout=5))
    await case.call("no such host", case.connect("nats://host.invalid:4222", timeout=5))


async def port_of_another_protocol(case: Case) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await case.call("other protocol", case.connect(f"nats://127.0.0.1:{port}", timeout=2))


async def port_that_closes(case: Case) -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await case.call("closed", case.connect(f"nats://127.0.0.1:{port}", timeout=2))


async def user_and_password(case: Case) -> None:
    url = case.server(USER).url
    await _connects(case, "right", url, user="anna", password="secret")
    await _connects(case, "functions", url, user=lambda: "anna", password=lambda: "secret")
    await _connects(case, "wrong password", url, user="anna", password="wrong")
    await _connects(case, "wrong user", url, user="bob", password="secret")
    await _connects(case, "none", url)
    await _connects(case, "token", url, token="secret")


async def token(case: Case) -> None:
    url = case.server(TOKEN).url
    await _connects(case, "right", url, token="secret")
    await _connects(case, "function", url, token=lambda: "secret")
    await _connects(case, "wrong", url, token="wrong")
    await _connects(case, "none", url)


async def error_texts_contain_no_secrets(case: Case) -> None:
    url = case.server(TOKEN).url
    error = await case.call("error", case.connect(url, token="s3cret-token"))
    case.note("text", "s3cret" in repr(error))


async def nkeys(case: Case) -> None:
    public = json.loads((case.files / "public.json").read_text())["user"]
    url = case.server(f"authorization {{ users: [ {{ nkey: {public} }} ] }}").url
    seed = case.files / "user.nk"
    await _connects(case, "file", url, nkey=seed)
    await _connects(case, "seed", url, nkey=seed.read_text())
    await _connects(case, "another key", url, nkey=case.files / "other.nk")
    await _connects(case, "no file", url, nkey=case.files / "none.nk")
    await _connects(case, "no seed", url, nkey="SUnonsense")
    await _connects(case, "none", url)
    await _connects(case, "bad signature", url, nkey=(lambda: public, lambda nonce: base64.b64encode(b"x" * 64)))


async def jwts(case: Case) -> None:
    url = case.server((case.files / "operator.conf").read_text()).url
    creds, jwt, seed = (case.files / name for name in ("user.creds", "user.jwt", "user.nk"))
    await _connects(case, "creds", url, jwt=creds)
    await _connects(case, "files", url, jwt=(jwt, seed))
    await _connects(case, "texts", url, jwt=(jwt.read_text(), seed.read_text()))
    await _connects(case, "another key", url, jwt=(jwt, case.files / "other.nk"))
    await _connects(case, "no creds", url, jwt=jwt)
    await _connects(case, "no file", url, jwt=case.files / "none.creds")
    await _connects(case, "none", url)
    await _connects(case, "text alone", url, jwt=jwt.read_text())


async def tls(case: Case) -> None:
    config = f'tls {{ cert_file: "{case.files / "server.pem"}", key_file: "{case.files / "server.key"}" }}'
    url = case.server(config).url
    port = url.rpartition(":")[2]
    context = ssl.create_default_context(cafile=str(case.files / "ca.pem"))
    await _connects(case, "context", f"nats://127.0.0.1:{port}", tls=context)
    await _connects(case, "tls scheme", f"tls://localhost:{port}", tls=context)
    await _connects(case, "unknown authority", f"tls://localhost:{port}")
    await _connects(case, "unknown authority, plain scheme", f"nats://localhost:{port}")
    await _connects(case, "hostname", f"tls://127.0.0.1:{port}", tls=context, tls_hostname="localhost")
    await _connects(case, "wrong hostname", f"tls://127.0.0.1:{port}", tls=context, tls_hostname="example.com")


async def tls_first(case: Case) -> None:
    files = f'cert_file: "{case.files / "server.pem"}", key_file: "{case.files / "server.key"}"'
    url = case.server(f"tls {{ {files}, handshake_first: true }}").url.replace("nats:", "tls:")
    context = ssl.create_default_context(cafile=str(case.files / "ca.pem"))
    await _connects(case, "first", url, tls=context, tls_handshake_first=True)


async def messages_over_tls(case: Case) -> None:
    config = f'tls {{ cert_file: "{case.files / "server.pem"}", key_file: "{case.files / "server.key"}" }}'
    url = case.server(config).url
    client = await case.connect(url, tls=ssl.create_default_context(cafile=str(case.files / "ca.pem")))
    sub = await client.subscribe(case.name)
    await client.publish(case.name, b"x" * 100_000)
    case.note("received", len((await sub.next(timeout=5)).data))
    case.note("info", client.server_info)
