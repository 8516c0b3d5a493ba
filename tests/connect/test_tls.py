"""TLS with real certificates: accepted ones, rejected ones, and the error texts."""

from __future__ import annotations

import asyncio
import datetime
import pickle
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import TLS, errors
from jetarrow.server import NatsServer

# First bytes of a TLS handshake record.
TLS_RECORD = b"\x16\x03"


def config(files: Any, more: str = "") -> str:
    return f'tls {{ cert_file: "{files.cert}", key_file: "{files.key}", timeout: 2\n {more} }}\n'


@pytest.fixture(scope="module")
def good(authority: Any) -> Iterator[NatsServer]:
    with NatsServer(config=config(authority.issue("localhost", "127.0.0.1")), jetstream=False) as server:
        yield server


def at(server: NatsServer, host: str = "127.0.0.1", scheme: str = "tls") -> str:
    return f"{scheme}://{host}:{server.port}"


async def connects(url: str, **options: Any) -> None:
    async with await jetarrow.connect(url, **options) as nc:
        await nc.flush()


async def refusal(url: str, **options: Any) -> errors.Error:
    """The error, raised within the connect timeout, the same for the async and the sync client."""
    begin = time.monotonic()
    with pytest.raises(errors.Error) as info:
        await jetarrow.connect(url, **options)
    assert time.monotonic() - begin < 2.5
    with pytest.raises(type(info.value)):
        await asyncio.to_thread(jetarrow.sync.connect, url, **options)
    return info.value


@pytest.mark.parametrize("scheme", ["tls", "nats"])
async def test_connect_with_trusted_certificate(good: NatsServer, authority: Any, scheme: str) -> None:
    for tls in (
        TLS(ca=authority.ca.cert),
        TLS(ca=str(authority.ca.cert)),
        TLS(ca=authority.ca.cert.read_bytes()),
        TLS(ca=authority.ca.cert.read_text()),
        authority.ca.context(),
    ):
        for host in ("127.0.0.1", "localhost"):
            await connects(at(good, host, scheme), tls=tls)
    with jetarrow.sync.connect(at(good), tls=authority.ca.context()) as nc:
        nc.flush()


async def test_connect_with_tls_1_2(authority: Any) -> None:
    """A proxy in front of the server may use TLS 1.2; the server itself uses a newer version."""
    files = authority.issue("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert, files.key)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    spoken: list[str | None] = []

    def serve(listener: socket.socket) -> None:
        sock, _ = listener.accept()
        sock.sendall(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1000,"tls_required":true}\r\n')
        with context.wrap_socket(sock, server_side=True) as secure, secure.makefile("rb") as lines:
            spoken.append(secure.version())
            while line := lines.readline():
                if line.startswith(b"PING"):
                    secure.sendall(b"PONG\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(asyncio.to_thread(serve, listener))
        await connects(f"tls://127.0.0.1:{listener.getsockname()[1]}", tls=TLS(ca=authority.ca.cert))
        await asyncio.wait_for(serving, 10)
    assert spoken == ["TLSv1.2"]


async def test_untrusted_ca_raises(good: NatsServer) -> None:
    error = await refusal(at(good))
    assert isinstance(error, errors.SecureConnFailedError)
    assert "jetarrow.TLS(ca=" in str(error)
    # The server requires TLS: without tls:// and tls= the system's CAs are used.
    assert isinstance(await refusal(at(good, scheme="nats")), errors.SecureConnFailedError)


async def test_self_signed_certificate_raises(authority: Any) -> None:
    files = authority.self_signed("127.0.0.1")
    with NatsServer(config=config(files), jetstream=False) as server:
        error = await refusal(at(server), tls=TLS(ca=authority.ca.cert))
        assert isinstance(error, errors.SecureConnFailedError)
        assert "not signed by a CA that is trusted here" in str(error)
        # Trusted explicitly it is accepted, as with OpenSSL; the host name is still checked.
        await connects(at(server), tls=TLS(ca=files.cert))
        await connects(at(server), tls=files.context())
        assert "only for: 127.0.0.1" in str(await refusal(at(server, "localhost"), tls=TLS(ca=files.cert)))


async def test_expired_certificate_raises(authority: Any) -> None:
    with NatsServer(
        config=config(authority.issue("127.0.0.1", until=-datetime.timedelta(days=1))), jetstream=False
    ) as server:
        error = await refusal(at(server), tls=TLS(ca=authority.ca.cert))
        assert isinstance(error, errors.SecureConnFailedError)
        assert "expired" in str(error)


async def test_wrong_host_name_raises(authority: Any) -> None:
    with NatsServer(config=config(authority.issue("other.example")), jetstream=False) as server:
        error = await refusal(at(server), tls=TLS(ca=authority.ca.cert))
        assert isinstance(error, errors.SecureConnFailedError)
        assert "only for: other.example" in str(error)
        assert "tls_hostname" in str(error)
        await connects(at(server), tls=authority.ca.context(), tls_hostname="other.example")
        await connects(at(server), tls=TLS(ca=authority.ca.cert, hostname="other.example"))
        unchecked = authority.ca.context()
        unchecked.check_hostname = False
        await connects(at(server), tls=unchecked)
        # Without the host name check the signature is still checked.
        stranger = ssl.create_default_context()
        stranger.check_hostname = False
        assert isinstance(await refusal(at(server), tls=stranger), errors.SecureConnFailedError)


async def test_verify_false_accepts_any_certificate(good: NatsServer) -> None:
    await connects(at(good), tls=TLS(verify=False))
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    await connects(at(good), tls=context)


async def test_client_certificate_is_sent(authority: Any) -> None:
    server_files, mine, ca = authority.issue("127.0.0.1"), authority.issue("me"), authority.ca
    with NatsServer(config=config(server_files, f'ca_file: "{ca.cert}", verify: true'), jetstream=False) as server:
        await connects(at(server), tls=TLS(ca=ca.cert, cert=mine.cert, key=mine.key))
        await connects(at(server), tls=TLS(ca=ca.cert, cert=mine.cert.read_text(), key=mine.key.read_bytes()))
        context = ca.context()
        context.load_cert_chain(mine.cert, mine.key)
        both = mine.cert.read_text() + mine.key.read_text()
        for given in (
            TLS.from_context(context, cert=mine.cert, key=mine.key),
            TLS.from_context(context, cert=both),
        ):
            await connects(at(server), tls=given)
        for tls in (context, TLS(ca=ca.cert), TLS.from_context(context)):
            error = await refusal(at(server), tls=tls)
            assert isinstance(error, errors.SecureConnFailedError)
            assert "jetarrow.TLS(cert=..., key=...)" in str(error)
            assert "ssl.SSLContext" in str(error)


def test_settings_are_read_from_ssl_context(authority: Any) -> None:
    context = authority.ca.context()
    assert TLS.from_context(context).check_hostname
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    found = TLS.from_context(context)
    assert (found.verify, found.check_hostname, found.cert) == (False, False, None)
    assert TLS.from_context(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)).ca is None


async def test_rejected_certificate_raises_ssl_error(good: NatsServer, authority: Any) -> None:
    with NatsServer(config=config(authority.issue("other.example")), jetstream=False) as named:
        for server, tls in ((good, TLS()), (named, TLS(ca=authority.ca.cert))):
            with pytest.raises(ssl.SSLError) as refused:
                await jetarrow.connect(at(server), tls=tls)
            assert isinstance(refused.value, errors.SecureConnFailedError)
            assert isinstance(pickle.loads(pickle.dumps(refused.value)), ssl.SSLError)
            assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


async def test_check_hostname_false_accepts_other_name(authority: Any) -> None:
    with NatsServer(config=config(authority.issue("other.example")), jetstream=False) as server:
        await connects(at(server), tls=TLS(ca=authority.ca.cert, check_hostname=False))


async def test_handshake_first_connects(authority: Any, good: NatsServer) -> None:
    files = authority.issue("127.0.0.1")
    with NatsServer(config=config(files, "handshake_first: true"), jetstream=False) as server:
        await connects(at(server), tls=TLS(ca=authority.ca.cert, handshake_first=True))
        await connects(at(server, scheme="nats"), tls=authority.ca.context(), tls_handshake_first=True)
    # A server that sends INFO before the handshake.
    error = await refusal(at(good), tls=TLS(ca=authority.ca.cert, handshake_first=True))
    assert type(error) is errors.SecureConnWantedError
    # The server offers TLS, so the error must not deny it.
    assert "does not begin with a TLS handshake" in str(error)
    assert "tls_handshake_first" in str(error)


@pytest.fixture
def plaintext() -> Iterator[tuple[int, Callable[[], bytes]]]:
    """A server without TLS that records received data."""
    received = bytearray()
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)

        def serve() -> None:
            while not done.is_set():
                try:
                    sock, _ = listener.accept()
                except TimeoutError:
                    continue
                with sock:
                    sock.sendall(
                        b'INFO {"server_id":"x","version":"2.15.1","max_payload":1000,"auth_required":true}\r\n'
                    )
                    sock.settimeout(20)
                    try:
                        while data := sock.recv(4096):
                            received.extend(data)
                            if not data.startswith(TLS_RECORD):
                                sock.sendall(b"PONG\r\n")
                            else:
                                sock.sendall(b"-ERR 'Unknown Protocol Operation'\r\n")
                    except OSError:
                        pass

        thread = threading.Thread(target=serve)
        thread.start()

        def wire() -> bytes:
            return bytes(received)

        try:
            yield listener.getsockname()[1], wire
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize("form", ["tls://", "tls=", "context", "first"])
async def test_credentials_are_not_sent_without_tls(
    plaintext: tuple[int, Callable[[], bytes]], authority: Any, form: str
) -> None:
    port, wire = plaintext
    options: dict[str, Any] = {
        "tls://": {},
        "tls=": {"tls": TLS(ca=authority.ca.cert)},
        "context": {"tls": authority.ca.context()},
        "first": {"tls_handshake_first": True},
    }[form]
    scheme = "tls" if form == "tls://" else "nats"
    error = await refusal(f"{scheme}://127.0.0.1:{port}", user="me", password="canary", token="canary", **options)
    assert isinstance(error, errors.SecureConnWantedError)
    assert "TLS" in str(error)
    assert wire(), "nothing came at all"
    assert b"canary" not in wire()
    assert b"CONNECT" not in wire()


@pytest.mark.parametrize("plain_first", [False, True])
async def test_one_tls_address_requires_tls_for_all_servers(
    plaintext: tuple[int, Callable[[], bytes]], good: NatsServer, plain_first: bool
) -> None:
    port, wire = plaintext
    plain, secure = (f"nats://127.0.0.1:{port}", errors.SecureConnWantedError), (at(good), errors.SecureConnFailedError)
    both = [plain, secure] if plain_first else [secure, plain]
    with pytest.raises(errors.Error) as info:
        await jetarrow.connect([url for url, _ in both], user="me", password="canary", dont_randomize=True)
    # Both servers were tried; the text has the error of the first.
    assert issubclass(info.type, both[0][1])
    assert wire().startswith(TLS_RECORD)
    assert b"canary" not in wire()
    assert b"CONNECT" not in wire()


def test_invalid_tls_settings_raise(authority: Any, good: NatsServer) -> None:
    mine, other = authority.issue("me"), authority.issue("other")
    for tls, expected, text in (
        (TLS(cert=mine.cert), ValueError, "cert and key"),
        (TLS(ca=mine.key), ValueError, "no certificate in ca"),
        (TLS(ca="absent.pem"), FileNotFoundError, "absent.pem"),
        (TLS(cert=mine.cert, key=other.key), ValueError, "does not belong"),
        (TLS(cert=mine.cert, key=mine.cert), ValueError, "no PEM private key"),
        (TLS(cert=mine.cert, key="-----BEGIN ENCRYPTED PRIVATE KEY-----\n"), ValueError, "openssl pkey"),
        (True, TypeError, "SSLContext"),
    ):
        with pytest.raises(expected, match=text):
            jetarrow.sync.connect(at(good), tls=tls)
    with pytest.raises(ValueError, match="tls_hostname"):
        jetarrow.sync.connect(at(good), tls_hostname="not a host!")


def test_tls_repr_omits_key(authority: Any) -> None:
    mine = authority.issue("me")
    shown = repr(TLS(cert=mine.cert.read_text(), key=mine.key.read_text()))
    assert "PRIVATE KEY" not in shown
    assert "TLS(" in shown


def test_client_ssl_context_is_the_given_one(good: NatsServer, authority: Any) -> None:
    context = authority.ca.context()
    with jetarrow.sync.connect(at(good), tls=context) as nc:
        assert nc.ssl_context is context
    with (
        jetarrow.sync.connect(at(good), tls=TLS(ca=authority.ca.cert)) as nc,
        pytest.raises(errors.Error, match="no ssl context"),
    ):
        _ = nc.ssl_context
    assert isinstance(jetarrow.NATS().ssl_context, ssl.SSLContext)
