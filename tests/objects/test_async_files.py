"""Putting from, and getting into, asynchronous files: of anyio, and objects with an awaitable `read` or `write`."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import jetarrow.sync
import pytest
from fastapi import UploadFile
from jetarrow.js.client import JetStreamContext
from jetarrow.js.object_store import ObjectStore

from ..tools import until
from .tools import LARGE, chunks, stored


class File:
    """A file of coroutine functions, in the manner of aiofiles, that reads and writes less than asked."""

    def __init__(self, data: bytes = b"", most: int = 50_000) -> None:
        self.inner = io.BytesIO(data)
        self.most = most
        self.sizes: list[int] = []

    async def read(self, size: int = -1) -> bytes:
        self.sizes.append(size)
        await asyncio.sleep(0)
        return self.inner.read(min(size, self.most))

    async def write(self, data: Any) -> int | None:
        await asyncio.sleep(0)
        return self.inner.write(memoryview(data)[: self.most])


class OnlyInto:
    """A file that only has `readinto`."""

    def __init__(self, data: bytes) -> None:
        self.inner = io.BytesIO(data)

    async def readinto(self, buffer: Any) -> int:
        return self.inner.readinto(buffer)


class Wrapped:
    """A file whose methods do not look asynchronous, as decorated ones; its class does."""

    def __init__(self, inner: File) -> None:
        self.inner = inner

    async def __aenter__(self) -> Wrapped:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    def read(self, size: int) -> Awaitable[bytes]:
        return asyncio.ensure_future(self.inner.read(size))

    def write(self, data: bytes) -> Awaitable[int | None]:
        return asyncio.ensure_future(self.inner.write(data))


class TakesAll(File):
    """A file whose `write` returns None."""

    async def write(self, data: Any) -> None:
        self.inner.write(data)


async def stream_reader() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(LARGE)
    reader.feed_eof()
    return reader


Opened = AsyncIterator[Any]


@asynccontextmanager
async def opened_to_read(kind: str, path: Path) -> Opened:
    """Yield an asynchronous file that contains `LARGE`."""
    if kind.startswith("anyio"):
        path.write_bytes(LARGE)  # noqa: ASYNC240  # a test waits for nothing else
        async with await anyio.open_file(path, "r" if "text" in kind else "rb") as file:
            yield file
    else:
        made: dict[str, Callable[[], Any]] = {
            "short reads": lambda: File(LARGE),
            "readinto alone": lambda: OnlyInto(LARGE),
            "wrapped": lambda: Wrapped(File(LARGE)),
            "upload": lambda: UploadFile(io.BytesIO(LARGE)),
        }
        yield await stream_reader() if kind == "stream reader" else made[kind]()


@pytest.mark.parametrize(
    "kind", ["anyio", "anyio text", "short reads", "readinto alone", "wrapped", "upload", "stream reader"]
)
async def test_put_reads_an_async_file_to_its_end(store: ObjectStore, tmp_path: Path, kind: str) -> None:
    async with opened_to_read(kind, tmp_path / "f") as file:
        info = await store.put("a", file)
    assert (info.size, info.chunks) == (len(LARGE), chunks(len(LARGE)))
    assert (await store.get("a")).data == LARGE


@pytest.mark.parametrize("mode", ["w", "wb"])
async def test_get_writes_into_an_async_file_of_anyio(store: ObjectStore, tmp_path: Path, mode: Any) -> None:
    info = await store.put("a", LARGE)
    async with await anyio.open_file(tmp_path / "f", mode) as file:
        result = await store.get("a", file)
        assert not file.wrapped.closed
    assert (result.info, result.data) == (info, b"")
    assert (tmp_path / "f").read_bytes() == LARGE


@pytest.mark.parametrize("size", [10, 60_000, len(LARGE)])
@pytest.mark.parametrize("make", [File, TakesAll, lambda: Wrapped(File())], ids=["short", "all", "wrapped"])
async def test_get_writes_all_into_an_async_file(store: ObjectStore, make: Callable[[], Any], size: int) -> None:
    await store.put("a", LARGE[:size])
    file = make()
    await store.get("a", file)
    inner = file.inner.inner if isinstance(file, Wrapped) else file.inner
    assert inner.getvalue() == LARGE[:size]


async def test_async_file_at_a_position_is_put_from_there_with_its_progress(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(LARGE)
    seen: list[tuple[int, int | None]] = []
    async with await anyio.open_file(tmp_path / "f", "rb") as file:
        await file.seek(1000)
        await store.put("a", file, progress=lambda *at: seen.append(at))
    assert seen[-1] == (len(LARGE) - 1000, len(LARGE) - 1000)
    assert (await store.get("a")).data == LARGE[1000:]


async def test_async_file_is_read_in_parts_of_bounded_size(store: ObjectStore) -> None:
    file = File(LARGE, most=len(LARGE))
    await store.put("a", file)
    assert max(file.sizes) <= 1024 * 1024
    assert min(file.sizes) > 0


class Broken(File):
    """A file that returns a fixed thing, or raises it."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found

    async def read(self, size: int = -1) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    async def write(self, data: Any) -> Any:
        return await self.read()


@pytest.mark.parametrize(
    ("found", "expected", "text"),
    [
        (None, TypeError, "None"),
        ("text", TypeError, "str"),
        (7, TypeError, "int"),
        (OSError("gone"), OSError, "gone"),
    ],
)
async def test_put_of_a_broken_async_file_stores_nothing(
    js: JetStreamContext, store: ObjectStore, bucket: str, found: Any, expected: type[Exception], text: str
) -> None:
    with pytest.raises(expected, match=text):
        await store.put("a", Broken(found))
    assert await stored(js, bucket) == {"meta": 0}


@pytest.mark.parametrize(
    ("found", "expected", "text"),
    [("text", TypeError, "str"), (0, OSError, "0 of"), (OSError("no space left"), OSError, "no space left")],
)
@pytest.mark.parametrize("size", [10, len(LARGE)])
async def test_get_into_a_broken_async_file_raises(
    store: ObjectStore, found: Any, expected: type[Exception], text: str, size: int
) -> None:
    await store.put("a", LARGE[:size])
    with pytest.raises(expected, match=text):
        await store.get("a", Broken(found))


class Hidden:
    """A file that returns coroutines, which neither its functions nor its class shows."""

    def read(self, size: int) -> Any:
        return File(LARGE).read(size)

    def write(self, data: bytes) -> Any:
        return File().write(data)


async def test_a_file_that_hides_its_coroutines_is_refused_with_advice(store: ObjectStore) -> None:
    with pytest.raises(TypeError, match="async def"):
        await store.put("a", Hidden())
    await store.put("a", b"x")
    with pytest.raises(TypeError, match="async def"):
        await store.get("a", Hidden())


async def test_a_cancelled_put_cancels_the_read_and_removes_its_chunks(
    js: JetStreamContext, store: ObjectStore, bucket: str
) -> None:
    waits = asyncio.Event()
    ends: list[str] = []

    class Slow(File):
        async def read(self, size: int = -1) -> bytes:
            if found := await super().read(size):
                return found
            waits.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise
            return b""

    task = asyncio.ensure_future(store.put("a", Slow(LARGE, most=len(LARGE))))
    await asyncio.wait_for(waits.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == ["cancelled"]

    async def is_empty() -> bool:
        return bool(await stored(js, bucket) == {"meta": 0})

    await until(is_empty)


@pytest.mark.parametrize("make", [lambda: File(LARGE), lambda: Wrapped(File(LARGE))], ids=["functions", "wrapped"])
def test_an_async_file_needs_an_event_loop(
    sync_js: jetarrow.sync.JetStream, bucket: str, make: Callable[[], Any]
) -> None:
    store = sync_js.create_object_store(bucket)
    with pytest.raises(TypeError, match="event loop"):
        store.put("a", make())
    store.put("a", b"x")
    with pytest.raises(TypeError, match="event loop"):
        store.get("a", make())
    sync_js.delete_object_store(bucket)
