"""Putting objects: what is stored."""

from __future__ import annotations

import array
import asyncio
import base64
import hashlib
import io
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jetarrow.errors import MaxPayloadError
from jetarrow.js.api import ObjectLink, ObjectMeta, ObjectMetaOptions
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import (
    BadObjectMetaError,
    InvalidObjectNameError,
)
from jetarrow.js.object_store import ObjectStore

from .tools import CHUNK, LARGE, chunks, stored


async def test_what_is_stored(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    meta = ObjectMeta(description="a text", headers={"A": "one", "B": ["x", "y"]}, metadata={"k": "v"})
    info = await store.put("some name/ü", LARGE, meta)
    digest = base64.urlsafe_b64encode(hashlib.sha256(LARGE).digest()).decode()
    assert (info.name, info.bucket, info.size, info.chunks) == ("some name/ü", bucket, len(LARGE), chunks(len(LARGE)))
    assert info.digest == f"SHA-256={digest}"
    assert info.options == ObjectMetaOptions(max_chunk_size=CHUNK)
    encoded = base64.urlsafe_b64encode("some name/ü".encode()).decode()
    msg = await js.get_last_msg(f"OBJ_{bucket}", f"$O.{bucket}.M.{encoded}")
    assert msg.headers == {
        "Nats-Expected-Last-Subject-Sequence": "0",
        "Nats-Expected-Stream": f"OBJ_{bucket}",
        "Nats-Rollup": "sub",
    }
    wire = json.loads(msg.data or b"")
    assert wire["headers"] == {"A": ["one"], "B": ["x", "y"]}, "as Go's decoder wants them"
    assert wire["options"] == {"max_chunk_size": CHUNK}
    assert (wire["description"], wire["metadata"]) == ("a text", {"k": "v"})
    assert await stored(js, bucket) == {"meta": 1, info.nuid: chunks(len(LARGE))}
    assert meta.name is None, "what the caller gave is left as it is"
    # The time is the server's, in the result too.
    assert await store.get_info("some name/ü") == await store.get_info(info.name)
    assert info.mtime == (await store.get_info(info.name)).mtime


async def test_the_former_version_goes(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    await store.put("a", LARGE)
    second = await store.put("a", b"short")
    assert (await store.get("a")).data == b"short"
    assert await stored(js, bucket) == {"meta": 1, second.nuid: 1}


class Dribble(io.RawIOBase):
    """A file that gives less than it is asked for, and only has `readinto`."""

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self.rest[: min(len(buffer), 50_000)]
        self.rest = self.rest[len(part) :]
        buffer[: len(part)] = part
        return len(part)


class OnlyInto:
    def __init__(self, data: bytes) -> None:
        self.inner = Dribble(data)

    def readinto(self, buffer: Any) -> int:
        return self.inner.readinto(buffer)


def parts() -> Iterator[bytes]:
    for at in range(0, len(LARGE), 70_001):
        yield LARGE[at : at + 70_001]


async def parts_async() -> AsyncIterator[bytes]:
    for part in parts():
        await asyncio.sleep(0)
        yield part


DATA: dict[str, Callable[[], Any]] = {
    "bytes": lambda: LARGE,
    "bytearray": lambda: bytearray(LARGE),
    "memoryview": lambda: memoryview(LARGE),
    "BytesIO": lambda: io.BytesIO(LARGE),
    "raw file": lambda: Dribble(LARGE),
    "readinto alone": lambda: OnlyInto(LARGE),
    "buffered": lambda: io.BufferedReader(Dribble(LARGE)),
    "iterator": parts,
    "list": lambda: list(parts()),
    "one large part": lambda: iter([LARGE]),
    "asynchronous iterator": parts_async,
}


@pytest.mark.parametrize("kind", DATA)
async def test_kinds_of_data(store: ObjectStore, kind: str) -> None:
    info = await store.put("a", DATA[kind]())
    assert (info.size, info.chunks) == (len(LARGE), chunks(len(LARGE)))
    assert (await store.get("a")).data == LARGE


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ("ünï", "ünï".encode()),
        (b"", b""),
        ("", b""),
        ([], b""),
        (array.array("i", [1, 2]), array.array("i", [1, 2]).tobytes()),
        (["a", b"b"], b"ab"),
        (b"x" * CHUNK, b"x" * CHUNK),
        (b"x" * (CHUNK + 1), b"x" * (CHUNK + 1)),
    ],
)
async def test_small_data(store: ObjectStore, data: Any, wanted: bytes) -> None:
    info = await store.put("a", data)
    assert (info.size, info.chunks) == (len(wanted), chunks(len(wanted)))
    assert (await store.get("a")).data == wanted


async def test_a_text_file_is_read_as_bytes(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("ü\r\n".encode())
    with (tmp_path / "a").open() as file:
        await store.put("a", file)
    assert (await store.get("a")).data == "ü\r\n".encode()


@pytest.mark.parametrize("data", [17, None, io.StringIO("x"), [1, 2], Path("x")])
async def test_wrong_data(js: JetStreamContext, store: ObjectStore, bucket: str, data: Any) -> None:
    with pytest.raises(TypeError, match="invalid type for object store"):
        await store.put("a", data)
    assert await stored(js, bucket) == {"meta": 0}


async def test_files_are_read_off_the_loop(store: ObjectStore) -> None:
    seen = set()

    class File(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            seen.add(threading.current_thread())
            return super().read(size)

    await store.put("a", File(LARGE))
    assert seen
    assert threading.current_thread() not in seen


async def test_iterables_run_where_the_caller_is(store: ObjectStore) -> None:
    seen = set()

    def made() -> Iterator[bytes]:
        seen.add(threading.current_thread())
        yield b"x"

    await store.put("a", made())
    assert seen == {threading.current_thread()}


async def test_chunk_size(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    info = await store.put("a", LARGE, ObjectMeta(options=ObjectMetaOptions(max_chunk_size=500_000)))
    assert info.chunks == chunks(len(LARGE), 500_000) == (await stored(js, bucket))[info.nuid]
    assert (await store.get("a")).data == LARGE
    with pytest.raises(ValueError, match="max_chunk_size"):
        await store.put("a", b"x", ObjectMeta(options=ObjectMetaOptions(max_chunk_size=-1)))
    with pytest.raises(MaxPayloadError):
        await store.put("a", LARGE, ObjectMeta(options=ObjectMetaOptions(max_chunk_size=2_000_000)))
    assert await stored(js, bucket) == {"meta": 1, info.nuid: info.chunks}


async def test_names(store: ObjectStore) -> None:
    await store.put("", b"1", ObjectMeta(name="in the meta"))
    assert (await store.get("in the meta")).data == b"1"
    assert (await store.put(None, b"2", ObjectMeta(name="in the meta"))).name == "in the meta"
    for name in (". .", "a>*", "x" * 2000, "🚀", "a\nb"):
        await store.put(name, name)
        assert (await store.get(name)).data == name.encode()
    for call in (
        store.put("", b"1"),
        store.put(None, b"1"),
        store.put("\ud800", b"1"),
        store.get(""),
        store.delete(""),
    ):
        with pytest.raises(InvalidObjectNameError):
            await call
    with pytest.raises(BadObjectMetaError, match="add_link"):
        await store.put("a", b"1", ObjectMeta(options=ObjectMetaOptions(link=ObjectLink("b", "c"))))


async def test_progress(store: ObjectStore, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    await store.put("a", LARGE, progress=lambda *at: told.append(at))
    assert told[-1] == (len(LARGE), len(LARGE))
    assert told == sorted(told)
    told.clear()
    (tmp_path / "f").write_bytes(LARGE)
    await store.put_file("f", tmp_path / "f", progress=lambda *at: told.append(at))
    assert told[-1] == (len(LARGE), len(LARGE))
    told.clear()
    await store.put("a", parts(), progress=lambda *at: told.append(at))
    assert told
    assert all(total is None for _, total in told)
    await store.get("a", progress=lambda *at: told.append(at))
    assert told[-1] == (len(LARGE), len(LARGE))


async def test_put_file(store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.bin").write_bytes(LARGE)
    info = await store.put_file("data.bin", meta=ObjectMeta(description="d"))
    assert (info.name, info.size, info.description) == ("data.bin", len(LARGE), "d")
    await store.put_file("other", tmp_path / "data.bin")
    assert (await store.get("other")).data == LARGE
    with pytest.raises(FileNotFoundError):
        await store.put_file("a", tmp_path / "none")


async def test_put_file_without_a_name_stores_the_base_name(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"x")
    path = tmp_path / "data.bin"
    found = [
        await store.put_file(path),
        await store.put_file(path=path),
        await store.put_file(path=str(path)),
        await store.put_file("", path),
        await store.put_file(path, meta=ObjectMeta(description="d")),
    ]
    assert {info.name for info in found} == {"data.bin"}
    assert found[-1].description == "d"
    assert (await store.put_file(None, path, ObjectMeta(name="in the meta"))).name == "in the meta"
    assert (await store.put_file(str(path))).name == str(path), "a name is stored as it is given"
    with pytest.raises(TypeError, match="needs a name or a path"):
        await store.put_file()
    with pytest.raises(TypeError, match="name must be str"):
        await store.put_file(path, path)  # type: ignore[arg-type]
    with pytest.raises(IsADirectoryError):
        await store.put_file(tmp_path)


async def test_a_pipe_is_read_to_its_end(store: ObjectStore) -> None:
    reading, writing = os.pipe()

    def write() -> None:
        with open(writing, "wb") as file:
            file.write(LARGE)

    thread = threading.Thread(target=write)
    thread.start()
    with open(reading, "rb", buffering=0) as file:  # noqa: ASYNC230
        info = await store.put("a", file)
    thread.join()
    assert (info.size, info.chunks) == (len(LARGE), chunks(len(LARGE)))
    assert (await store.get("a")).data == LARGE
