"""ALWAYS-RESOLVES: every verb in every state of failure ends within a second of its deadline, with a typed error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import jetarrow
from jetarrow import errors
from jetarrow.aio.client import Client
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from ..tools import store
from .figures import Figure, said

# `spare`: seconds that a verb may take beyond its deadline. A busy machine needs more; a verb that ignores its deadline
# would take 5 s.
FULL: dict[str, Any] = {"timeout": 2.0, "flooded": True, "spare": 1.0}
SHORT: dict[str, Any] = {"timeout": 1.0, "flooded": False, "spare": 3.0}


class Ready:
    """Objects that the verbs need, created while the server is healthy."""

    def __init__(self, nc: Client, js: JetStreamContext, timeout: float) -> None:
        self.nc, self.js, self.timeout = nc, js, timeout

    async def prepare(self) -> Ready:
        self.sub = await self.js.pull_subscribe("s.>", durable="d")
        self.acks = [(await self.sub.fetch(1))[0] for _ in range(2)]
        self.batch = await self.sub.fetch_batch(2)
        return self


async def publish_async(at: Ready) -> object:
    return await (await at.js.publish_async("s.a", b"x"))


async def publisher(at: Ready) -> object:
    async with at.js.publisher("s.a", ack_timeout=at.timeout) as publisher:
        return await (await publisher.publish(b"x"))


def batch(mode: str) -> Callable[[Ready], Awaitable[object]]:
    async def publish_batch(at: Ready) -> object:
        result = await at.js.publish_batch("s.a", [b"x"] * 100, mode=mode, timeout=at.timeout)
        result.raise_for_errors()
        return result

    return publish_batch


async def read(at: Ready) -> object:
    return await at.js.read("S").read_all()


VERBS: dict[str, Callable[[Ready], Awaitable[object]]] = {
    "publish": lambda at: at.js.publish("s.a", b"x", timeout=at.timeout),
    "publish, wrong sequence": lambda at: at.js.publish("s.a", b"x", timeout=at.timeout, expected_last_seq=99_999),
    "publish_async": publish_async,
    "publisher": publisher,
    "publish_batch": batch("window"),
    "publish_batch, fast": batch("fast"),
    "publish_batch, atomic": batch("atomic"),
    "fetch": lambda at: at.sub.fetch(1, timeout=at.timeout),
    "fetch_batch": lambda at: at.sub.fetch_batch(1, timeout=at.timeout),
    "ack_sync": lambda at: at.acks[0].ack_sync(timeout=at.timeout),
    "ack_sync of a batch": lambda at: at.batch.ack_sync(timeout=at.timeout),
    "read": read,
    "request": lambda at: at.nc.request("nobody.answers", b"x", timeout=at.timeout),
    "flush": lambda at: at.nc.flush(timeout=at.timeout),
    "stream_info": lambda at: at.js.stream_info("S"),
    "consumer_info": lambda at: at.js.consumer_info("S", "d"),
    "get_msg": lambda at: at.js.get_msg("S", 1),
    "get_msg, beyond the end": lambda at: at.js.get_msg("S", 99_999),
    "purge_stream": lambda at: at.js.purge_stream("S"),
    "delete_consumer": lambda at: at.js.delete_consumer("S", "other"),
    "pull_subscribe": lambda at: at.js.pull_subscribe("s.>", durable="e"),
}
# A verb that waits for a message may end with an empty result or with a timeout.
Way = Callable[[NatsServer, Ready], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def well(server: NatsServer, at: Ready) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def no_stream(server: NatsServer, at: Ready) -> AsyncIterator[None]:
    await at.js.delete_stream("S")
    yield


@asynccontextmanager
async def no_consumer(server: NatsServer, at: Ready) -> AsyncIterator[None]:
    await at.js.delete_consumer("S", "d")
    yield


@asynccontextmanager
async def full(server: NatsServer, at: Ready) -> AsyncIterator[None]:
    info = await at.js.stream_info("S")
    await at.js.update_stream(info.config, max_msgs=info.state.messages, discard="new")
    yield


@asynccontextmanager
async def deleted_meanwhile(server: NatsServer, at: Ready) -> AsyncIterator[None]:
    async with await jetarrow.connect(server.url) as other:
        deleting = asyncio.ensure_future(other.jetstream().delete_stream("S"))
        yield
        await deleting


@asynccontextmanager
async def frozen(server: NatsServer, at: Ready) -> AsyncIterator[None]:
    await asyncio.to_thread(server.pause)
    yield
    server.resume()


@asynccontextmanager
async def flooded(server: NatsServer, at: Ready) -> AsyncIterator[None]:
    """No more data is sent: the socket's buffers and the client's queue are full."""
    await asyncio.to_thread(server.pause)
    try:
        async with asyncio.timeout(5):
            while True:
                await at.nc.publish("nobody", bytes(500_000))
    except (errors.OutboundBufferLimitError, TimeoutError):
        pass
    yield
    server.resume()


@asynccontextmanager
async def gone(server: NatsServer, at: Ready) -> AsyncIterator[None]:
    await asyncio.to_thread(server.kill)
    yield
    await asyncio.to_thread(server.start)


@asynccontextmanager
async def closed(server: NatsServer, at: Ready) -> AsyncIterator[None]:
    await at.nc.close()
    yield


@asynccontextmanager
async def closing(server: NatsServer, at: Ready) -> AsyncIterator[None]:
    """The connection is closed while the server is frozen and the calls wait."""
    await asyncio.to_thread(server.pause)
    closing = asyncio.get_running_loop().call_later(0.1, lambda: tasks.append(asyncio.ensure_future(at.nc.close())))
    tasks: list[asyncio.Task[None]] = []
    yield
    closing.cancel()
    server.resume()
    await asyncio.gather(*tasks)


WAYS: dict[str, Way] = {
    "well": well,
    "no stream": no_stream,
    "no consumer": no_consumer,
    "stream full": full,
    "stream deleted meanwhile": deleted_meanwhile,
    "frozen": frozen,
    "gone": gone,
    "closed": closed,
    "closed meanwhile": closing,
}


async def one(verb: str, at: Ready, patience: float) -> tuple[str, float, BaseException | None]:
    """Returns the outcome (ok, late or the error's type), the seconds, and the error."""
    begin = time.monotonic()
    task = asyncio.ensure_future(VERBS[verb](at))
    done, _ = await asyncio.wait([task], timeout=patience)
    took = time.monotonic() - begin
    if not done:
        task.cancel()
        return "late", took, None
    error = task.exception()
    return ("ok" if error is None else type(error).__name__), took, error


async def measure(timeout: float, flooded: bool, spare: float) -> list[Figure]:
    ways = WAYS | ({"frozen and flooded": globals()["flooded"]} if flooded else {})
    late: list[str] = []
    untyped: list[str] = []
    wrong: list[str] = []
    longest, cells = 0.0, 0
    with NatsServer() as server:
        for name, way in ways.items():
            options = {"ping_interval": 60, "reconnect_time_wait": 0.1, "error_cb": quiet}
            async with await jetarrow.connect(server.url, **options) as nc:
                js = nc.jetstream(timeout=timeout, ack_timeout=timeout)
                healthy = nc.jetstream()
                await healthy.add_stream(name="S", subjects=["s.>"], allow_atomic=True, allow_batched=True)
                await store(healthy, "s.a", [b"x"] * 10)
                at = await Ready(nc, js, timeout).prepare()
                async with way(server, at):
                    verbs = list(VERBS)
                    # Verbs that break the others run last, one at a time.
                    at_once = [verb for verb in verbs if verb not in ("purge_stream", "delete_consumer")]
                    patience = timeout + spare + 0.5
                    ends = await asyncio.gather(*(one(verb, at, patience) for verb in at_once))
                    at_once += (alone := [verb for verb in verbs if verb not in at_once])
                    for verb in alone:
                        ends.append(await one(verb, at, patience))
                for verb, (_, took, error) in zip(at_once, ends, strict=True):
                    cells += 1
                    if took > timeout + spare:
                        late.append(f"{verb}, {name}: {took:.1f} s")
                    else:
                        longest = max(longest, took)
                    if error is not None and not isinstance(error, errors.Error):
                        untyped.append(f"{verb}, {name}: {error!r}")
                    expected = name == "well" and "wrong" not in verb and "beyond" not in verb and verb != "request"
                    if expected and error is not None and verb != "delete_consumer":
                        wrong.append(f"{verb}: {error!r}")
            await clear(server)
    return [
        said("verbs times ways to fail", cells),
        Figure("late", len(late), 0, "; ".join(late)),
        Figure("errors without a type", len(untyped), 0, "; ".join(untyped)),
        Figure("errors where all is well", len(wrong), 0, "; ".join(wrong)),
        said("longest of all in time", longest, "s"),
    ]


async def quiet(_: Exception) -> None:
    """Ignores errors: they are part of the experiment."""


async def clear(server: NatsServer) -> None:
    async with await jetarrow.connect(server.url) as nc:
        js = nc.jetstream()
        async for name in names(js):
            await js.delete_stream(name)


async def names(js: JetStreamContext) -> AsyncIterator[str]:
    for info in await js.streams_info():
        yield info.config.name or ""
