"""Getting objects: whole, or an error."""

from __future__ import annotations

import asyncio
import io
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import BucketNotFoundError, DigestMismatchError, ObjectNotFoundError
from jetarrow.js.object_store import OBJ_META_PRE_TEMPLATE, ObjectStore

from ..tools import no_consumer_stays
from .tools import LARGE

ENCODED = "YQ=="  # "a"


async def tamper(js: JetStreamContext, bucket: str, **fields: Any) -> None:
    """Replaces metadata fields of object "a"."""
    subject = OBJ_META_PRE_TEMPLATE.format(bucket=bucket, obj=ENCODED)
    said = json.loads((await js.get_last_msg(f"OBJ_{bucket}", subject)).data or b"")
    await js.publish(subject, json.dumps({**said, **fields}), headers={"Nats-Rollup": "sub"})


async def test_into_a_file(store: ObjectStore, tmp_path: Path) -> None:
    info = await store.put("a", LARGE)
    threads = set()

    class File(io.FileIO):
        def write(self, data: Any, /) -> int:
            threads.add(threading.current_thread())
            # An unbuffered file may take less than it is given.
            return super().write(memoryview(data)[:100_000])

    with File(tmp_path / "f", "wb") as file:
        result = await store.get("a", file)
        assert not file.closed
    assert (result.info, result.data) == (info, b"")
    assert (tmp_path / "f").read_bytes() == LARGE
    assert threads
    assert threading.current_thread() not in threads
    with (tmp_path / "text").open("w") as text:
        await store.get("a", text)  # type: ignore[arg-type]  # nats-py takes it, and writes beside it
    assert (tmp_path / "text").read_bytes() == LARGE


async def test_get_file(store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = await store.put("a", LARGE)
    assert await store.get_file("a", tmp_path / "f") == info
    assert (tmp_path / "f").read_bytes() == LARGE
    monkeypatch.chdir(tmp_path)
    await store.get_file("a")
    assert (tmp_path / "a").read_bytes() == LARGE
    with pytest.raises(ObjectNotFoundError):
        await store.get_file("none", tmp_path / "f")
    os.symlink("f", "link")
    await store.put("a", b"new")
    await store.get_file("a", "link")
    assert (tmp_path / "f").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir()) == ["a", "f", "link"], "nothing is left beside them"
    assert (tmp_path / "f").stat().st_mode == (tmp_path / "a").stat().st_mode
    await store.get_file("a", os.devnull)
    assert open(os.devnull, "rb").read() == b""  # noqa: ASYNC230, SIM115  # it is still what it was


@pytest.mark.parametrize(
    "fields",
    [
        {"digest": "SHA-256=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},
        {"digest": ""},
        {"digest": None},
        {"size": len(LARGE) - 1},
        {"chunks": 10},
    ],
)
async def test_what_does_not_fit_is_an_error(
    js: JetStreamContext, store: ObjectStore, bucket: str, tmp_path: Path, fields: dict[str, Any]
) -> None:
    await store.put("a", LARGE)
    await tamper(js, bucket, **fields)
    with pytest.raises(DigestMismatchError):
        await store.get("a")
    (tmp_path / "f").write_text("before")
    with pytest.raises(DigestMismatchError):
        await store.get_file("a", tmp_path / "f")
    assert (tmp_path / "f").read_text() == "before"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("digest", ["sha-256={}", "SHA-256={}"])
async def test_a_digest_as_others_write_it(js: JetStreamContext, store: ObjectStore, bucket: str, digest: str) -> None:
    info = await store.put("a", LARGE)
    assert info.digest
    await tamper(js, bucket, digest=digest.format(info.digest[8:].rstrip("=")))
    assert (await store.get("a")).data == LARGE


@pytest.mark.parametrize("size", [100, len(LARGE)])
async def test_a_chunk_that_is_gone(js: JetStreamContext, store: ObjectStore, bucket: str, size: int) -> None:
    await store.put("a", LARGE[:size])
    await js.delete_msg(f"OBJ_{bucket}", 1)
    with pytest.raises(DigestMismatchError, match="bytes received"):
        await store.get("a")


async def test_a_chunk_that_is_another(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    info = await store.put("a", b"x" * 100)
    await js.purge_stream(f"OBJ_{bucket}", subject=f"$O.{bucket}.C.{info.nuid}")
    await js.publish(f"$O.{bucket}.C.{info.nuid}", b"y" * 100)
    with pytest.raises(DigestMismatchError):
        await store.get("a")


async def test_among_others(store: ObjectStore) -> None:
    """The chunks of an object are not next to each other where several are put at once."""
    datas = {f"{number}": LARGE[number * 1000 :] for number in range(4)}
    await asyncio.gather(*(store.put(name, data) for name, data in datas.items()))
    results = await asyncio.gather(*(store.get(name) for name in datas))
    assert [result.data for result in results] == list(datas.values())


async def test_no_consumer_stays(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    await store.put("a", LARGE)
    await store.get("a")
    await store.list()
    await no_consumer_stays(js, f"OBJ_{bucket}")


async def test_a_sink_that_fails(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    await store.put("a", LARGE)

    class Full:
        def write(self, data: bytes) -> int:
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        await store.get("a", Full())
    assert (await js.stream_info(f"OBJ_{bucket}")).state.consumer_count == 0


async def test_deleted(store: ObjectStore) -> None:
    await store.put("a", LARGE)
    await store.delete("a")
    with pytest.raises(ObjectNotFoundError, match="'a'"):
        await store.get("a")
    result = await store.get("a", show_deleted=True)
    assert (result.data, result.info.deleted, result.info.size) == (b"", True, 0)
    with pytest.raises(ObjectNotFoundError):
        await store.get("never")


async def test_no_bucket(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    await js.delete_object_store(bucket)
    for call in (store.get("a"), store.get_info("a"), store.list(), store.watch(), store.status(), store.delete("a")):
        with pytest.raises(BucketNotFoundError, match=bucket):
            await call
    await js.create_object_store(bucket)
