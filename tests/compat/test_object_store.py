"""Object stores: the same with both clients, and asynchronous files, which nats-py does not read or write."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import io
import os
import uuid
import warnings
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from .face import Face

DATA = os.urandom(300_000)


@pytest.fixture
async def store(js: Any) -> AsyncIterator[Any]:
    bucket = f"B{uuid.uuid4().hex[:10]}"
    yield await js.create_object_store(bucket)
    await js.delete_object_store(bucket)


KINDS: dict[str, Callable[[Path], Any]] = {
    "bytes": lambda _: DATA,
    "BytesIO": lambda _: io.BytesIO(DATA),
    "file": lambda path: path.open("rb"),
    "unbuffered file": lambda path: path.open("rb", buffering=0),
    "text file": Path.open,
}


@pytest.mark.parametrize("kind", KINDS)
async def test_put(store: Any, tmp_path: Path, kind: str) -> None:
    (tmp_path / "f").write_bytes(DATA)
    # nats-py reads the buffer of a text file, which is closed with the last reference to the file.
    data = KINDS[kind](tmp_path / "f")
    info = await store.put("a", data)
    digest = base64.urlsafe_b64encode(hashlib.sha256(DATA).digest()).decode()
    assert (info.name, info.size, info.chunks, info.digest) == ("a", len(DATA), 3, f"SHA-256={digest}")
    assert info.options.max_chunk_size == 128 * 1024
    assert (await store.get("a")).data == DATA


@pytest.mark.parametrize("mode", ["w", "wb", "wb unbuffered"])
async def test_get_into_a_file(store: Any, tmp_path: Path, mode: str) -> None:
    await store.put("a", DATA)
    unbuffered = {"buffering": 0} if "unbuffered" in mode else {}
    with (tmp_path / "f").open(mode.split()[0], **unbuffered) as file:
        result = await store.get("a", file)
    assert (result.info.size, result.data, (tmp_path / "f").read_bytes()) == (len(DATA), b"", DATA)


async def test_the_name_of_the_meta(face: Face, store: Any) -> None:
    meta = face.api.ObjectMeta(name="m", description="d", headers={"A": ["b"]})
    found = [await store.put("", b"x", meta=meta), await store.get_info("m")]
    assert [(info.name, info.description, info.headers) for info in found] == [("m", "d", {"A": ["b"]})] * 2
    info = await store.put("other", b"x", meta=face.api.ObjectMeta(name="m"))
    assert info.name == "other"


async def test_no_name(face: Face, store: Any) -> None:
    # nats-py: a TypeError of `len`, also with a name in the meta, and NoStreamResponseError for "".
    meta = face.api.ObjectMeta(name="m")
    failures = [
        await face.failure(store.put(None, b"x", meta=meta)),
        await face.failure(store.put(None, b"x")),
        await face.failure(store.put("", b"x")),
    ]
    if face.name == "nats":
        assert failures == ["TypeError", "TypeError", "js.errors.NoStreamResponseError"]
    else:
        assert failures == ["nothing", *["js.errors.InvalidObjectNameError"] * 2]


async def test_an_object_of_another_type(face: Face, store: Any) -> None:
    assert await face.failure(store.put("a", 17)) == "TypeError"


class File:
    """A file of coroutine functions."""

    def __init__(self) -> None:
        self.inner = io.BytesIO(DATA)
        self.written = b""

    async def read(self, size: int = -1) -> bytes:
        return self.inner.read(size)

    async def readinto(self, buffer: Any) -> int:
        return self.inner.readinto(buffer)

    async def write(self, data: bytes) -> int:
        self.written += data
        return len(data)


@pytest.mark.parametrize("kind", ["anyio", "own"])
async def test_async_files_are_read_and_written(face: Face, store: Any, tmp_path: Path, kind: str) -> None:
    # nats-py: `put` raises a TypeError that does not name the file, `get` writes nothing and raises nothing.
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(DATA)
    reads, own = (await anyio.open_file(source, "rb"), None) if kind == "anyio" else (File(), File())
    writes = own or await anyio.open_file(target, "wb")
    with warnings.catch_warnings():
        # Coroutines that nats-py does not await.
        warnings.simplefilter("ignore" if face.name == "nats" else "error", RuntimeWarning)
        failure = await face.failure(store.put("a", reads))
        await store.put("a", DATA)
        await store.get("a", writes)
        for file in (reads, writes):
            if not isinstance(file, File):
                await file.aclose()
        gc.collect()
    written = own.written if own else target.read_bytes()
    assert (failure, written) == (("TypeError", b"") if face.name == "nats" else ("nothing", DATA))


async def test_objects_of_async_files_are_read_by_the_other_client(nats_url: str) -> None:
    ours, theirs = Face("jetarrow", nats_url), Face("nats", nats_url)
    bucket = f"B{uuid.uuid4().hex[:10]}"
    mine, other = [(await face.connect()).jetstream() for face in (ours, theirs)]
    store = await mine.create_object_store(bucket)
    info = await store.put("a", File())
    result = await (await other.object_store(bucket)).get("a")
    assert (result.data, result.info.digest, result.info.nuid) == (DATA, info.digest, info.nuid)
    await mine.delete_object_store(bucket)
    await asyncio.gather(ours.close(), theirs.close())
