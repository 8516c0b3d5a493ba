"""The same without a loop."""

from __future__ import annotations

import io
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.js.api import ObjectMeta
from jetarrow.js.errors import LinkIsABucketError, ObjectNotFoundError
from jetarrow.sync import ObjectStore

from .tools import LARGE


@pytest.fixture
def blocking(sync_js: jetarrow.sync.JetStream, bucket: str) -> Iterator[ObjectStore]:
    yield sync_js.create_object_store(bucket)
    sync_js.delete_object_store(bucket)


def test_objects(sync_js: jetarrow.sync.JetStream, blocking: ObjectStore, bucket: str, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    info = blocking.put("a", LARGE, ObjectMeta(description="d"), progress=lambda *at: told.append(at))
    assert told[-1] == (len(LARGE), len(LARGE))
    assert blocking.get("a").data == LARGE
    assert blocking.get_info("a") == info
    into = io.BytesIO()
    assert blocking.get("a", into).info == info
    assert into.getvalue() == LARGE
    blocking.get_file("a", tmp_path / "f")
    blocking.put_file("f", tmp_path / "f")
    assert blocking.get("f").data == LARGE
    assert blocking.put_file(tmp_path / "f") == blocking.get_info("f")
    assert blocking.put(None, b"x", ObjectMeta(name="f")).name == "f"
    blocking.put("parts", (LARGE[at : at + 1000] for at in range(0, 10_000, 1000)))
    assert blocking.get("parts").data == LARGE[:10_000]
    blocking.add_link("l", info)
    assert blocking.get("l").data == LARGE
    blocking.add_bucket_link("b", blocking)
    with pytest.raises(LinkIsABucketError):
        blocking.get("b")
    blocking.update_meta("a", ObjectMeta(name="c"))
    blocking.delete("f")
    with pytest.raises(ObjectNotFoundError):
        blocking.get("f")
    assert {each.name for each in blocking.list(ignore_deletes=True)} == {"c", "parts", "l", "b"}
    assert blocking.status().bucket == bucket
    assert bucket in sync_js.object_store_names()
    assert bucket in {status.bucket for status in sync_js.object_stores()}
    assert sync_js.object_store(bucket).get("c").data == LARGE


def test_watch(blocking: ObjectStore) -> None:
    blocking.put("a", b"1")
    with blocking.watch() as watcher:
        names = []
        for info in watcher:
            names.append(info and info.name)
            if info is None:
                blocking.put("b", b"2")
            if len(names) == 3:
                break
        assert names == ["a", None, "b"]
        thread = threading.Timer(0.1, watcher.stop)
        thread.start()
        assert list(watcher) == []
        thread.join()


def test_a_failure_leaves_the_old_object(blocking: ObjectStore) -> None:
    def broken() -> Iterator[bytes]:
        yield LARGE
        raise OSError("gone")

    blocking.put("a", b"old")
    with pytest.raises(OSError, match="gone"):
        blocking.put("a", broken())
    assert blocking.get("a").data == b"old"


def test_an_asynchronous_iterable_needs_a_loop(blocking: ObjectStore) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"x"

    with pytest.raises(TypeError, match="loop"):
        blocking.put("a", parts())
    with pytest.raises(ObjectNotFoundError):
        blocking.get("a")


def test_many_threads(blocking: ObjectStore) -> None:
    def work(number: int) -> None:
        data = LARGE[number:]
        blocking.put(f"{number}", data)
        assert blocking.get(f"{number}").data == data
        done.append(number)

    done: list[int] = []
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(6))
