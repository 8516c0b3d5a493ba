"""Malformed bytes close the connection at once; without a reconnect, every waiting call fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.aio.client import Client
from jetarrow.server import NatsServer

from .listener import Listener
from .tools import until, wait_until
from .yardstick.liar import INFO, requests

# Timeouts in seconds of a call, and of a whole test: a call that still waits then would wait forever.
TIMEOUT = 20.0
PATIENCE = 60.0
LIES = {
    "MSG of a length near 2^64": b"MSG a 1 18446744073709551615\r\nx\r\n",
    "HMSG of a length near 2^64": b"HMSG a 1 12 18446744073709551615\r\nx\r\n",
    "MSG of 99 TB": b"MSG a 1 99000000000000\r\nx\r\n",
}
WHY = "bytes that are no message"


class Liar(Listener):
    """Server that answers only PING, and sends malformed bytes on request."""

    def __init__(self) -> None:
        self.published = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        writer.write(INFO)
        async for verb, _ in requests(reader):
            if verb == b"PING":
                writer.write(b"PONG\r\n")
            if verb == b"PUB":
                self.published.set()
        writer.close()

    def say(self, text: bytes) -> None:
        assert self._writer is not None
        self._writer.write(text)


async def published_alone(nc: Client) -> Any:
    return await nc.jetstream().publish("s.a", b"x", timeout=TIMEOUT)


async def with_futures(nc: Client) -> Any:
    js = nc.jetstream(ack_timeout=TIMEOUT)
    futures = [await js.publish_async("s.a", b"x") for _ in range(3)]
    ends = await asyncio.gather(*futures, return_exceptions=True)
    await js.publish_async_completed()
    raise next(end for end in ends if isinstance(end, BaseException))


async def with_a_publisher(nc: Client) -> Any:
    async with nc.jetstream(ack_timeout=TIMEOUT).publisher("s.a") as publisher:
        return await (await publisher.publish(b"x"))


def in_bulk(mode: str) -> Callable[[Client], Awaitable[Any]]:
    async def publish(nc: Client) -> Any:
        result = await nc.jetstream().publish_batch("s.a", [b"x"] * 10, mode=mode, timeout=TIMEOUT)
        raise result.errors[0].error

    return publish


async def fetched(nc: Client) -> Any:
    sub = await nc.jetstream().pull_subscribe_bind("d", "S")
    return await sub.fetch(10, timeout=TIMEOUT)


async def fetched_in_columns(nc: Client) -> Any:
    sub = await nc.jetstream().pull_subscribe_bind("d", "S")
    return await sub.fetch_batch(10, timeout=TIMEOUT)


async def read(nc: Client) -> Any:
    return await nc.jetstream(timeout=TIMEOUT).read("S").read_all()


async def requested(nc: Client) -> Any:
    return await nc.request("a", timeout=TIMEOUT)


async def listened(nc: Client) -> Any:
    sub = await nc.subscribe("a")
    await nc.publish("b", b"")
    return await sub.next_msg(timeout=TIMEOUT)


CALLS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "publish": published_alone,
    "publish_async": with_futures,
    "publisher": with_a_publisher,
    **{f"publish_batch, {mode}": in_bulk(mode) for mode in ("window", "fast", "atomic")},
    "fetch": fetched,
    "fetch_batch": fetched_in_columns,
    "read": read,
    "request": requested,
    "next_msg": listened,
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("call", CALLS)
async def test_waiting_call_fails_on_malformed_bytes(call: str, lie: str, capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []

    async def failed(error: Exception) -> None:
        told.append(str(error))

    async def closed() -> None:
        told.append("closed")

    async with Liar() as liar:
        nc = await jetarrow.connect(liar.url, allow_reconnect=False, error_cb=failed, closed_cb=closed)
        waiting = asyncio.ensure_future(CALLS[call](nc))
        async with asyncio.timeout(PATIENCE):
            await liar.published.wait()
            liar.say(LIES[lie])
            with pytest.raises(errors.Error, match="closed"):
                await waiting
            await until(lambda: "closed" in told)
            # The only thread is not in a busy loop: a new call ends at once, too.
            with pytest.raises(errors.Error):
                await CALLS[call](nc)
            await nc.close()
    assert any(WHY in text for text in told)
    assert WHY in str(nc.last_error)
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("lie", LIES)
async def test_client_reconnects_after_malformed_bytes(lie: str) -> None:
    back = asyncio.Event()

    async def reconnected() -> None:
        back.set()

    options: dict[str, Any] = {"reconnected_cb": reconnected, "reconnect_time_wait": 0.01}
    async with Liar() as liar, asyncio.timeout(PATIENCE), await jetarrow.connect(liar.url, **options) as nc:
        await nc.publish("a", b"")
        await liar.published.wait()
        liar.say(LIES[lie])
        await back.wait()
        await nc.flush()
        assert WHY in str(nc.last_error)


async def test_reconnect_after_malformed_bytes_waits() -> None:
    moments: list[float] = []

    class Again(Liar):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            moments.append(time.monotonic())
            await super().serve(reader, writer)

    wait = 0.5
    async with Again() as liar, asyncio.timeout(PATIENCE):
        async with await jetarrow.connect(liar.url, reconnect_time_wait=wait) as nc:
            await nc.publish("a", b"")
            await liar.published.wait()
            begun = time.monotonic()
            liar.say(LIES["MSG of 99 TB"])
            await until(lambda: len(moments) == 2)
        assert moments[1] - begun >= wait


async def test_err_without_text_is_recorded_as_last_error() -> None:
    async with Liar() as liar, asyncio.timeout(PATIENCE), await jetarrow.connect(liar.url) as nc:
        await nc.publish("a", b"")
        await liar.published.wait()
        liar.say(b"-ERR\r\n")
        await nc.flush()
        assert nc.is_connected
        assert isinstance(nc.last_error, errors.Error)


@pytest.mark.parametrize("begin", [b"MSG a 1 99000000000000\r\n", b"a line that does not end"])
async def test_endless_message_or_line_is_not_buffered(begin: bytes) -> None:
    said = 0

    class Endless(Listener):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal said
            writer.write(INFO)
            async for verb, _ in requests(reader):
                if verb == b"PING":
                    writer.write(b"PONG\r\n")
                if verb == b"SUB":
                    writer.write(begin)
                    with suppress(ConnectionError):
                        while said < 1 << 30:
                            writer.write(bytes(65_536))
                            await writer.drain()
                            said += 65_536
                    return

    async with Endless() as liar, asyncio.timeout(PATIENCE):
        nc = await jetarrow.connect(liar.url, allow_reconnect=False)
        sub = await nc.subscribe("a")
        with pytest.raises(errors.Error):
            await sub.next_msg(timeout=TIMEOUT)
        await until(lambda: nc.is_closed and nc.last_error is not None)
        assert WHY in str(nc.last_error)
    # Most of it was in the buffers of the operating system.
    assert said < 64 << 20


async def test_many_large_messages_are_accepted(own_server: NatsServer) -> None:
    """Many large messages in a row may have more bytes than one message may have."""
    async with await jetarrow.connect(own_server.url) as nc:
        sub = await nc.subscribe("a")
        for _ in range(100):
            await nc.publish("a", bytes(1_000_000))
            assert len((await sub.next_msg(timeout=TIMEOUT)).data) == 1_000_000


@pytest.mark.parametrize("lie", LIES)
async def test_waiting_thread_fails_on_malformed_bytes(lie: str) -> None:
    def publish(url: str) -> str:
        with jetarrow.sync.connect(url, allow_reconnect=False) as nc:
            with pytest.raises(errors.Error, match="closed"):
                nc.jetstream().publish("s.a", b"x", timeout=TIMEOUT)
            # Events are delivered in a thread of their own.
            wait_until(lambda: nc.last_error is not None)
            return str(nc.last_error)

    async with Liar() as liar:
        waiting = asyncio.ensure_future(asyncio.to_thread(publish, liar.url))
        async with asyncio.timeout(PATIENCE):
            await liar.published.wait()
            liar.say(LIES[lie])
            assert WHY in await waiting
