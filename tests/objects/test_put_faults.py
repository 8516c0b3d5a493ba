"""Putting objects: what is left where a put fails."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from typing import Any

import jetarrow.sync
import pytest
from jetarrow import connect
from jetarrow.errors import TimeoutError
from jetarrow.js.api import PubAck
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import (
    APIError,
    BucketNotFoundError,
    Error,
)
from jetarrow.js.object_store import ObjectStore
from jetarrow.publisher import Publisher

from tests.slow_link import slow_link
from tests.tools import until

from .tools import CHUNK, LARGE, stored


class Broken(io.BytesIO):
    """A file that cannot be read to its end."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() > 6_000_000:
            raise OSError("the disk is gone")
        return super().read(size)


async def test_a_put_that_fails_leaves_the_old_object(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    old = await store.put("a", b"old" * 100_000)
    with pytest.raises(OSError, match="the disk is gone"):
        await store.put("a", Broken(LARGE))
    assert (await store.get("a")).data == b"old" * 100_000
    assert await stored(js, bucket) == {"meta": 1, old.nuid: old.chunks}


async def test_a_put_that_is_cancelled_leaves_the_old_object(
    js: JetStreamContext, store: ObjectStore, bucket: str
) -> None:
    old = await store.put("a", b"old")
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        for number in range(10_000):
            if number == 100:
                begun.set()
            await asyncio.sleep(0)
            yield b"x" * CHUNK

    task = asyncio.create_task(store.put("a", endless()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await store.get("a")).data == b"old"

    async def taken_back() -> bool:
        return await stored(js, bucket) == {"meta": 1, old.nuid: 1}

    # A cancelled put returns after a short wait; the removal of its chunks continues in the background.
    await until(taken_back)


async def test_a_bucket_that_is_full_keeps_the_old_object(js: JetStreamContext, bucket: str) -> None:
    store = await js.create_object_store(bucket, max_bytes=3_000_000)
    old = await store.put("a", b"old" * 300_000)
    with pytest.raises(APIError, match="maximum bytes") as caught:
        await store.put("a", LARGE)
    assert not getattr(caught.value, "__notes__", None)
    assert (await store.get("a")).data == b"old" * 300_000
    assert await stored(js, bucket) == {"meta": 1, old.nuid: old.chunks}
    await js.delete_object_store(bucket)


async def test_a_full_bucket_is_not_sent_the_rest(js: JetStreamContext, bucket: str) -> None:
    store, size, read = await js.create_object_store(bucket, max_bytes=3_000_000), 1 << 30, 0

    class Zeros:
        def read(self, most: int) -> bytes:
            nonlocal read
            read += most
            return bytes(most) if read <= size else b""

    with pytest.raises(APIError, match="maximum bytes"):
        await store.put("a", Zeros())
    assert read < size / 4
    assert await stored(js, bucket) == {"meta": 0}
    await js.delete_object_store(bucket)


async def test_an_answer_that_is_lost_is_asked_for(
    js: JetStreamContext, store: ObjectStore, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The object's metadata is stored but its ack is lost: the chunks must remain."""
    await store.put("a", b"old" * 100_000)
    write = store._write

    async def lost(*args: Any) -> None:
        await write(*args)
        raise TimeoutError

    monkeypatch.setattr(store, "_write", lost)
    info = await store.put("a", LARGE)
    assert (await store.get("a")).data == LARGE
    assert await stored(js, bucket) == {"meta": 1, info.nuid: info.chunks}


async def test_a_message_that_was_never_written_is_not_there(
    js: JetStreamContext, store: ObjectStore, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await store.put("a", b"old")

    async def never(*args: Any) -> None:
        raise TimeoutError

    monkeypatch.setattr(store, "_write", never)
    with pytest.raises(TimeoutError):
        await store.put("a", LARGE)
    assert await stored(js, bucket) == {"meta": 1, old.nuid: 1}


async def test_a_few_chunks_in_another_order_are_not_an_object(
    js: JetStreamContext, store: ObjectStore, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a leader that was away for a moment, where a chunk is sent again behind the next ones."""

    class Result:
        errors = ()

        class seqs:
            @staticmethod
            def to_pylist() -> list[int]:
                return [2, 1]

    async def swapped(self: object, subject: str, payloads: list[bytes], **options: Any) -> Result:
        for payload in reversed(payloads):
            await js.publish(subject, payload)
        return Result()

    monkeypatch.setattr(type(js), "publish_batch", swapped)
    with pytest.raises(Error, match="order"):
        await store.put("a", b"x" * (2 * CHUNK))
    assert await stored(js, bucket) == {"meta": 0}


async def test_chunks_in_another_order_are_not_an_object(
    js: JetStreamContext, store: ObjectStore, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same where there are many: here the tenth goes behind the eleventh."""
    publish, published, held = Publisher.publish, 0, b""
    late: asyncio.Future[PubAck] = asyncio.get_running_loop().create_future()

    async def swapped(publisher: Publisher, payload: bytes, **options: Any) -> asyncio.Future[PubAck]:
        nonlocal published, held
        published += 1
        if published == 10:
            held = payload
            return late
        future = await publish(publisher, payload, **options)
        if published == 11:
            (await publish(publisher, held, **options)).add_done_callback(lambda done: late.set_result(done.result()))
        return future

    monkeypatch.setattr(Publisher, "publish", swapped)
    with pytest.raises(Error, match="order"):
        await store.put("a", LARGE)
    assert published > 11
    assert await stored(js, bucket) == {"meta": 0}


async def test_puts_of_one_name_at_once_leave_one(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    infos = await asyncio.gather(*(store.put("a", bytes([number]) * 200_000) for number in range(8)))
    last = await store.get("a")
    assert last.info.nuid in {info.nuid for info in infos}
    assert await stored(js, bucket) == {"meta": 1, last.info.nuid: 2}


async def test_no_bucket(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    await js.delete_object_store(bucket)
    with pytest.raises(BucketNotFoundError, match=bucket):
        await store.put("a", b"x")
    await js.create_object_store(bucket)


async def test_a_full_bucket_over_a_slow_link(js: JetStreamContext, bucket: str, nats_url: str) -> None:
    """Chunks that the client still buffers when the first one is rejected must not be stored after the purge."""
    await js.create_object_store(bucket, max_bytes=1_000_000)
    async with slow_link(nats_url, 0.02, rate=2_000_000) as link, await connect(link.url) as nc:
        far = await nc.jetstream().object_store(bucket)
        with pytest.raises(APIError, match="maximum bytes"):
            await far.put("a", LARGE)
        # Behind all that this client had sent.
        await nc.jetstream().publish(f"$O.{bucket}.C.last", b"")
    assert await stored(js, bucket) == {"meta": 0, "last": 1}
    await js.delete_object_store(bucket)


async def test_who_presses_ctrl_c_is_told_what_may_be_left(
    js: JetStreamContext, store: ObjectStore, bucket: str, nats_url: str
) -> None:
    """The old object stays; chunks that a slow link still carries are not waited for."""
    old = await store.put("a", b"old")

    def pressed() -> Iterator[bytes]:
        yield LARGE
        raise KeyboardInterrupt

    def put(url: str) -> list[str]:
        with jetarrow.sync.connect(url) as nc:
            try:
                nc.jetstream().object_store(bucket).put("a", pressed())
            except KeyboardInterrupt as error:
                return error.__notes__
        raise AssertionError("it was not interrupted")

    async with slow_link(nats_url, 0.02, rate=4_000_000) as link:
        (note,) = await asyncio.to_thread(put, link.url)
        assert f"may still be in bucket {bucket!r}" in note
    assert (await store.get("a")).data == b"old"
    assert (await stored(js, bucket))[old.nuid] == 1
