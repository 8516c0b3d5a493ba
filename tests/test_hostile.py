"""What makes async-nats' connection task panic ends every call that waits, at once, and says why."""

from __future__ import annotations

import asyncio
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

# Seconds that a call has for itself; and the test for all of it: what is still there then, waits for ever.
TIMEOUT = 20.0
PATIENCE = 10.0
LIES = {
    "-ERR without text": b"-ERR\r\n",
    "MSG of a length near 2^64": b"MSG a 1 18446744073709551615\r\nx\r\n",
    "HMSG of a length near 2^64": b"HMSG a 1 12 18446744073709551615\r\nx\r\n",
}


class Liar(Listener):
    """Answers nothing, and lies when it is told to."""

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
async def test_a_call_that_waits(call: str, lie: str, capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []

    async def failed(error: Exception) -> None:
        told.append(str(error))

    async def closed() -> None:
        told.append("closed")

    async with Liar() as liar:
        nc = await jetarrow.connect(liar.url, error_cb=failed, closed_cb=closed)
        waiting = asyncio.ensure_future(CALLS[call](nc))
        async with asyncio.timeout(PATIENCE):
            await liar.published.wait()
            liar.say(LIES[lie])
            with pytest.raises(errors.Error, match=r"async-nats cannot read|closed"):
                await waiting
            await until(lambda: "closed" in told)
            # Nothing turns round and round in the only thread: what is called now ends at once, too.
            with pytest.raises(errors.Error):
                await CALLS[call](nc)
            await nc.close()
    assert any("async-nats cannot read" in text for text in told)
    assert "async-nats cannot read" in str(nc.last_error)
    assert "panicked" not in capfd.readouterr().err


async def test_a_message_without_end_is_not_gathered() -> None:
    """As much as any message has is; then the connection is over."""
    said = 0

    class Endless(Listener):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal said
            writer.write(INFO)
            async for verb, _ in requests(reader):
                if verb == b"PING":
                    writer.write(b"PONG\r\n")
                if verb == b"SUB":
                    writer.write(b"MSG a 1 99000000000000\r\n")
                    with suppress(ConnectionError):
                        while said < 1 << 30:
                            writer.write(bytes(65_536))
                            await writer.drain()
                            said += 65_536
                    return

    async with Endless() as liar, asyncio.timeout(PATIENCE):
        nc = await jetarrow.connect(liar.url)
        sub = await nc.subscribe("a")
        with pytest.raises(errors.Error):
            await sub.next_msg(timeout=TIMEOUT)
        await until(lambda: nc.is_closed and nc.last_error is not None)
        assert "bytes that are no message" in str(nc.last_error)
    # The rest is what the system held on the way.
    assert 64 << 20 < said < 160 << 20


async def test_large_messages_are_no_flood(own_server: NatsServer) -> None:
    """Many of them, more bytes than one message may have."""
    async with await jetarrow.connect(own_server.url) as nc:
        sub = await nc.subscribe("a")
        for _ in range(100):
            await nc.publish("a", bytes(1_000_000))
            assert len((await sub.next_msg(timeout=TIMEOUT)).data) == 1_000_000


@pytest.mark.parametrize("lie", LIES)
async def test_a_thread_that_waits(lie: str) -> None:
    def publish(url: str) -> str:
        with jetarrow.sync.connect(url) as nc:
            with pytest.raises(errors.Error, match=r"async-nats cannot read|closed"):
                nc.jetstream().publish("s.a", b"x", timeout=TIMEOUT)
            # Events are told in a thread of their own.
            wait_until(lambda: nc.last_error is not None)
            return str(nc.last_error)

    async with Liar() as liar:
        waiting = asyncio.ensure_future(asyncio.to_thread(publish, liar.url))
        async with asyncio.timeout(PATIENCE):
            await liar.published.wait()
            liar.say(LIES[lie])
            assert "async-nats cannot read" in await waiting
