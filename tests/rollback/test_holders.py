"""Ordered consumers, watches, tables and objects detect the rollback of their stream."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.errors import DataLossError, StreamRolledBackError
from jetarrow.server import NatsServer

from ..conftest import EAGER
from ..tools import until
from .tools import COUNT, SINCE, STREAM, Copy, publish, with_other_client


@asynccontextmanager
async def restored(server: NatsServer, js: JetStreamContext, place: Path, since: str) -> AsyncIterator[None]:
    """Restores COUNT of 2 * COUNT messages after the body of the block."""
    copy = Copy(server, place / "copy")
    await publish(js, COUNT)
    await asyncio.to_thread(copy.take)
    await with_other_client(server, lambda other: publish(other, COUNT))
    yield
    await asyncio.to_thread(copy.put_back)
    await with_other_client(server, SINCE[since])


ORDERED: dict[str, Any] = {
    "read": {},
    "headers_only": {"headers_only": True},
    "last_per_subject": {"deliver_policy": "last_per_subject"},
}


@pytest.mark.parametrize(
    ("form", "since"), [("read", since) for since in SINCE] + [(form, "past") for form in ORDERED if form != "read"]
)
async def test_an_ordered_consumer_ends_with_the_error(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path, form: str, since: str
) -> None:
    seen: list[int | None] = []

    async def take() -> None:
        nonlocal seen
        async for msg in js.ordered_consumer(STREAM, **ORDERED[form]):
            seen += [msg.seq]

    async with restored(own_server, js, tmp_path, since):
        taking = asyncio.ensure_future(take())
        await until(lambda: seen and seen[-1] == 2 * COUNT, 20)
    with pytest.raises(StreamRolledBackError):
        await asyncio.wait_for(taking, 30)
    assert seen[-1] == 2 * COUNT


@pytest.mark.parametrize("form", ["read", "headers_only"])
async def test_an_ordered_consumer_continues(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path, form: str
) -> None:
    seen: list[int | None] = []

    async def take() -> None:
        nonlocal seen
        async for msg in js.ordered_consumer(STREAM, on_rollback="continue", **ORDERED[form]):
            seen += [msg.seq]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with restored(own_server, js, tmp_path, "behind"):
            taking = asyncio.ensure_future(take())
            await until(lambda: seen and seen[-1] == 2 * COUNT, 20)
        await until(lambda: seen[-1] == COUNT + 10, 30)
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
    again = seen[2 * COUNT :]
    assert again[0] is not None
    assert again[0] <= COUNT + 1
    assert again == list(range(again[0], COUNT + 11))


async def test_a_subscription_in_order_ends_with_the_error(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path
) -> None:
    async with restored(own_server, js, tmp_path, "past"):
        sub = await js.subscribe(f"{STREAM}.>", ordered_consumer=True)
        for _ in range(2 * COUNT):
            await sub.next_msg(timeout=10)
    with pytest.raises(StreamRolledBackError):
        await sub.next_msg(timeout=30)


def test_a_blocking_subscription_in_order_ends_with_the_error(own_server: NatsServer, tmp_path: Path) -> None:
    with jetarrow.sync.connect(own_server.url, **EAGER) as nc:
        js = nc.jetstream()
        js.add_stream(name=STREAM, subjects=[f"{STREAM}.>"])
        copy = Copy(own_server, tmp_path / "copy")
        js.publish_batch(f"{STREAM}.a", [b"x"] * COUNT).raise_for_errors()
        copy.take()
        with jetarrow.sync.connect(own_server.url) as other:
            other.jetstream().publish_batch(f"{STREAM}.a", [b"y"] * COUNT).raise_for_errors()
        sub = js.subscribe(f"{STREAM}.>", ordered_consumer=True)
        for _ in range(2 * COUNT):
            sub.next_msg(timeout=10)
        copy.put_back()
        with pytest.raises(StreamRolledBackError):
            sub.next_msg(timeout=30)


async def test_a_subscription_with_a_callback_tells_the_error(own_server: NatsServer, tmp_path: Path) -> None:
    told: list[Exception] = []
    seen: list[int | None] = []

    async def error_cb(error: Exception) -> None:
        told.append(error)

    async def take(msg: Any) -> None:
        seen.append(msg.metadata.sequence.stream)

    async with await jetarrow.connect(own_server.url, error_cb=error_cb, **EAGER) as nc:
        js = nc.jetstream()
        await js.add_stream(name=STREAM, subjects=[f"{STREAM}.>"])
        async with restored(own_server, js, tmp_path, "past"):
            sub = await js.subscribe(f"{STREAM}.>", ordered_consumer=True, cb=take)
            await until(lambda: len(seen) == 2 * COUNT, 20)
        await until(lambda: any(isinstance(error, StreamRolledBackError) for error in told), 30)
        await sub.closed
    assert len(seen) == 2 * COUNT


@pytest.fixture
async def bucket(own_server: NatsServer, js: JetStreamContext, tmp_path: Path) -> Any:
    """A bucket with 20 keys; `back` restores 10 of them and puts the word "new" under another key."""
    kv = await js.create_key_value(bucket="B", history=5)
    copy = Copy(own_server, tmp_path / "copy")
    for number in range(10):
        await kv.put(f"k.{number}", b"old")
    await asyncio.to_thread(copy.take)

    async def more(other: JetStreamContext) -> None:
        theirs = await other.key_value("B")
        for number in range(10, 20):
            await theirs.put(f"k.{number}", b"old")

    await with_other_client(own_server, lambda other: publish(other, 1))
    await with_other_client(own_server, more)

    async def back(puts: int = 1) -> None:
        async def put(other: JetStreamContext) -> None:
            theirs = await other.key_value("B")
            for number in range(puts):
                await theirs.put(f"new.{number}", b"new")

        await asyncio.to_thread(copy.put_back)
        await with_other_client(own_server, put)

    kv.back = back
    return kv


@pytest.mark.parametrize("puts", [1, 50])
async def test_a_watch_ends_with_the_error(bucket: Any, puts: int) -> None:
    async with await bucket.watchall() as watcher:
        seen = [entry async for entry in _initial(watcher)]
        assert len(seen) == 20
        await bucket.back(puts)
        with pytest.raises(StreamRolledBackError):
            await watcher.updates(timeout=30)


async def _initial(watcher: Any) -> AsyncIterator[Any]:
    async for entry in watcher:
        if entry is None:
            return
        yield entry


@pytest.mark.parametrize("puts", [1, 50])
async def test_a_watch_continues_behind_what_is_there(bucket: Any, puts: int) -> None:
    async with await bucket.watchall(on_rollback="continue") as watcher:
        assert len([entry async for entry in _initial(watcher)]) == 20
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await bucket.back(puts)
            found = []
            while not found or found[-1] != f"new.{puts - 1}":
                found.append((await watcher.updates(timeout=30)).key)
    # Old keys may be repeated; each new key is yielded once.
    assert [key for key in found if key.startswith("new")] == [f"new.{number}" for number in range(puts)]


async def test_a_watch_begins_anew(bucket: Any) -> None:
    async with await bucket.watchall(on_rollback="earliest") as watcher:
        assert len([entry async for entry in _initial(watcher)]) == 20
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await bucket.back(1)
            found = [(await watcher.updates(timeout=30)).key for _ in range(11)]
    assert found == [f"k.{number}" for number in range(10)] + ["new.0"]


async def test_a_watch_does_not_begin_beyond_the_end(bucket: Any) -> None:
    with pytest.raises(DataLossError, match="its last revision is 20"):
        await bucket.watchall(resume_from_revision=22)
    async with await bucket.watchall(resume_from_revision=21) as watcher:
        assert await watcher.updates(timeout=5) is None


async def test_an_object_that_is_read_meanwhile_ends_with_the_error(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path
) -> None:
    store = await js.create_object_store(bucket="O")
    copy = Copy(own_server, tmp_path / "copy")
    await publish(js, 1)
    await asyncio.to_thread(copy.take)
    await with_other_client(own_server, lambda other: _put(other))

    class Slow:
        """Blocks at its first chunk until the server runs again."""

        def __init__(self) -> None:
            self.begun = asyncio.Event()
            self.loop = asyncio.get_running_loop()
            self.go_on = asyncio.run_coroutine_threadsafe

        def write(self, data: bytes) -> int:
            if not self.begun.is_set():
                self.loop.call_soon_threadsafe(self.begun.set)
                asyncio.run_coroutine_threadsafe(asyncio.to_thread(copy.put_back), self.loop).result(30)
            return len(data)

    with pytest.raises((StreamRolledBackError, jetarrow.js.errors.NotFoundError)):
        await store.get("big", writeinto=Slow())


async def _put(js: JetStreamContext) -> None:
    await (await js.object_store("O")).put("big", bytes(64 << 20))
