"""Lists and watches of a bucket lose no entry that arrives while they ask for the rest, or are cancelled."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import jetarrow.nats.client
import jetarrow.nats.jetstream
import pytest
from jetarrow.nats.key_value import KeyValue, KeyValueConfig, create_key_value, watcher

from ..tools import until


@pytest.fixture
async def bucket(nats_url: str) -> AsyncIterator[KeyValue]:
    """A bucket with one key."""
    async with await jetarrow.nats.client.connect(nats_url) as client:
        js = jetarrow.nats.jetstream.new(client)
        name = f"B{uuid.uuid4().hex[:10]}"
        bucket = await create_key_value(js, KeyValueConfig(bucket=name, history=5))
        await bucket.put("a", b"1")
        yield bucket
        await js.delete_stream(f"KV_{name}")


async def _begun(bucket: KeyValue, verb: str) -> Any:
    if verb == "watch":
        return await bucket.watch_all()
    return await (bucket.keys() if verb == "keys" else bucket.history("a"))


def _entries(found: Any, verb: str) -> AsyncIterator[Any]:
    """An iterator over the present entries."""
    entries: AsyncIterator[Any] = found.values() if verb == "watch" else found
    return entries


class _Held:
    """Messages that come when `released` is set."""

    def __init__(self, messages: Any) -> None:
        self._messages = messages
        self.released = asyncio.Event()
        self.stop = messages.stop

    async def __anext__(self) -> Any:
        await self.released.wait()
        return await self._messages.__anext__()


@pytest.mark.parametrize("verb", ["keys", "history", "watch"])
async def test_entry_that_comes_while_the_server_is_asked_for_the_rest_is_returned(
    bucket: KeyValue, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "CHECK_INTERVAL", 0.05)
    found = await _begun(bucket, verb)
    reader = found._reader
    held = reader._messages = _Held(reader._messages)
    get_info = reader._consumer.get_info

    async def overtaken() -> Any:
        held.released.set()
        await until(lambda: reader._number)
        return await get_info()

    monkeypatch.setattr(reader._consumer, "get_info", overtaken)
    assert len([entry async for entry in _entries(found, verb)]) == 1
    await found.stop()


@pytest.mark.parametrize("verb", ["keys", "history", "watch"])
async def test_entry_that_comes_as_the_wait_is_cancelled_is_returned_by_the_next_one(
    bucket: KeyValue, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await _begun(bucket, verb)
    reader = found._reader
    receive = reader._next_message
    reading = asyncio.ensure_future(anext(_entries(found, verb)))

    async def received() -> Any:
        message = await receive()
        reading.cancel()
        return message

    monkeypatch.setattr(reader, "_next_message", received)
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert len([entry async for entry in _entries(found, verb)]) == 1
    await found.stop()


async def test_update_that_comes_as_the_wait_is_cancelled_is_returned_by_the_next_one(
    bucket: KeyValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the wait that `values` has begun, since the present entry was removed."""
    monkeypatch.setattr(watcher, "CHECK_INTERVAL", 0.05)
    async with await bucket.watch_all() as watch:
        await bucket._stream.purge()
        reader = watch._reader
        receive = reader._next_message
        reading: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def received() -> Any:
            message = await receive()
            reading.cancel()
            return message

        monkeypatch.setattr(reader, "_next_message", received)
        assert [entry async for entry in watch.values()] == []
        reading = asyncio.ensure_future(anext(watch))
        await bucket.put("b", b"2")
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert (await asyncio.wait_for(anext(watch), 20)).key == "b"


async def test_watch_that_is_stopped_during_a_wait_of_its_values_ends(
    bucket: KeyValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait that `values` has begun is no cancellation of the next call."""
    monkeypatch.setattr(watcher, "CHECK_INTERVAL", 0.05)
    watch = await bucket.watch_all()
    await bucket._stream.purge()
    assert [entry async for entry in watch.values()] == []
    await watch.stop()
    assert [entry async for entry in watch] == []
