"""Stored messages with malformed headers affect no other message."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from urllib.parse import urlsplit

import jetarrow
import pytest
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext

from .tools import until

MALFORMED = {
    "latin-1": (b"NATS/1.0\r\nName: caf\xe9\r\n\r\n", {"Name": ["café"]}),
    "space": (b"NATS/1.0\r\nMy Name: 1\r\nB: 2\r\n\r\n", {"B": ["2"], "My Name": ["1"]}),
    "colon": (b"NATS/1.0\r\nnothing\r\n\r\n", {"nothing": [""]}),
    "carriage return": (b"NATS/1.0\r\nA: 1\r2\r\n\r\n", {"A": ["1\r2"]}),
    "version": (b"NATS/2.0\r\nA: 1\r\n\r\n", {"A": ["1"]}),
}


def publish_raw(url: str, subject: str, messages: list[tuple[bytes, bytes]]) -> None:
    """Publishes unencoded headers and payloads; the server has stored them when this returns."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port)) as sock, sock.makefile("rwb") as file:
        file.write(b'CONNECT {"verbose":false,"headers":true}\r\n')
        for headers, payload in messages:
            sizes = len(headers), len(headers) + len(payload)
            file.write(b"HPUB %s %d %d\r\n%s%s\r\n" % (subject.encode(), *sizes, headers, payload))
        file.write(b"PING\r\n")
        file.flush()
        while (line := file.readline()) != b"PONG\r\n":
            assert not line.startswith(b"-ERR"), line


async def wait_stored(js: JetStreamContext, stream: str, count: int) -> None:
    async def stored() -> bool:
        return (await js.stream_info(stream)).state.messages == count

    await until(stored)


@pytest.mark.parametrize("direct", [False, True], ids=["consumer", "direct"])
@pytest.mark.parametrize("kind", MALFORMED)
async def test_read_delivers_message_with_malformed_headers(
    js: JetStreamContext, nats_url: str, stream: str, kind: str, direct: bool
) -> None:
    raw, headers = MALFORMED[kind]
    config = (await js.stream_info(stream)).config
    await js.update_stream(config.evolve(allow_direct=True))
    good = b"NATS/1.0\r\nA: 1\r\n\r\n"
    publish_raw(nats_url, f"{stream}.a", [(good, b"1"), (good, b"2"), (raw, b"3"), (good, b"4"), (good, b"5")])
    await wait_stored(js, stream, 5)
    told: list[Exception] = []

    async def error_cb(error: Exception) -> None:
        told.append(error)

    async with await jetarrow.connect(nats_url, error_cb=error_cb, reconnect_time_wait=0.05) as nc:
        read = nc.jetstream().read(stream, columns=["seq", "subject", "headers", "data"], direct=direct).read_all()
        table = await asyncio.wait_for(read, 20)
        assert table.column("seq").to_pylist() == [1, 2, 3, 4, 5]
        assert table.column("data").to_pylist() == [b"1", b"2", b"3", b"4", b"5"]
        found: list[Any] = [dict(row) for row in table.column("headers").to_pylist()]
        assert found == [{"A": ["1"]}, {"A": ["1"]}, headers, {"A": ["1"]}, {"A": ["1"]}]
        assert nc.stats["reconnects"] == 0
    malformed = [error for error in told if isinstance(error, js_errors.MalformedMessageError)]
    assert [(error.stream, error.seq) for error in malformed] == [(stream, 3)]


@pytest.mark.parametrize("direct", [False, True], ids=["consumer", "direct"])
async def test_read_with_many_malformed_messages_returns_all_rows(
    js: JetStreamContext, nats_url: str, stream: str, direct: bool
) -> None:
    await js.update_stream((await js.stream_info(stream)).config.evolve(allow_direct=True))
    good, bad = b"NATS/1.0\r\nA: 1\r\n\r\n", MALFORMED["latin-1"][0]
    publish_raw(nats_url, f"{stream}.a", [(bad if n % 3 == 0 else good, b"%d" % n) for n in range(1, 601)])
    await wait_stored(js, stream, 600)
    told: list[Any] = []

    async def error_cb(error: Exception) -> None:
        told.append(error)

    async with await jetarrow.connect(nats_url, error_cb=error_cb) as nc:
        read = nc.jetstream().read(stream, columns=["seq", "data"], direct=direct).read_all()
        table = await asyncio.wait_for(read, 40)
        assert table.column("seq").to_pylist() == list(range(1, 601))
        assert table.column("data").to_pylist() == [b"%d" % n for n in range(1, 601)]
        assert nc.stats["reconnects"] == 0
    assert [error.seq for error in told] == list(range(3, 601, 3))


async def test_direct_read_of_headers_without_end_falls_back(js: JetStreamContext, nats_url: str, stream: str) -> None:
    """The headers that the server adds in a direct get are merged with them, so another request is used."""
    await js.update_stream((await js.stream_info(stream)).config.evolve(allow_direct=True))
    publish_raw(
        nats_url, f"{stream}.a", [(b"NATS/1.0\r\n\r\n", b"1"), (b"NATS/1.0", b"2"), (b"NATS/1.0\r\n\r\n", b"3")]
    )
    await wait_stored(js, stream, 3)
    for direct in (False, True):
        table = await asyncio.wait_for(js.read(stream, columns=["seq", "data"], direct=direct).read_all(), 20)
        assert table.to_pydict() == {"seq": [1, 2, 3], "data": [b"1", b"2", b"3"]}


@pytest.mark.parametrize("kind", MALFORMED)
async def test_ordered_consumer_delivers_malformed_message(
    js: JetStreamContext, nats_url: str, stream: str, kind: str
) -> None:
    bad, headers = MALFORMED[kind]
    publish_raw(nats_url, f"{stream}.a", [(b"NATS/1.0\r\n\r\n", b"1"), (bad, b"2"), (b"NATS/1.0\r\n\r\n", b"3")])
    await wait_stored(js, stream, 3)
    async with await jetarrow.connect(nats_url, reconnect_time_wait=0.05) as nc:
        seen = []
        async with asyncio.timeout(20):
            async for msg in nc.jetstream().ordered_consumer(stream):
                seen.append(msg)
                if len(seen) == 3:
                    break
        assert [msg.data for msg in seen] == [b"1", b"2", b"3"]
        assert [msg.headers_all for msg in seen] == [None, headers, None]
        assert seen[1].headers == {name: values[-1] for name, values in headers.items()}
