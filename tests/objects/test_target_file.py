"""The file that `get_file` writes: its mode, its name, and its replacement."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.js.errors import ObjectNotFoundError
from jetarrow.js.object_store import ObjectStore

from .tools import LARGE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes are those of POSIX")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o644, 0o755, 0o400])
async def test_get_file_keeps_the_mode_of_a_file(store: ObjectStore, tmp_path: Path, kept: int) -> None:
    await store.put("a", b"secret")
    target = tmp_path / "f"
    target.write_bytes(b"before")
    target.chmod(kept)
    await store.get_file("a", target)
    assert (mode(target), target.read_bytes()) == (kept, b"secret")
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize(("mask", "wanted"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
async def test_get_file_makes_a_file_with_the_mode_of_the_umask(
    store: ObjectStore, tmp_path: Path, mask: int, wanted: int
) -> None:
    await store.put("a", b"x")
    with umask(mask):
        await store.get_file("a", tmp_path / "f")
    assert mode(tmp_path / "f") == wanted


async def test_get_file_is_private_until_it_is_complete(store: ObjectStore, tmp_path: Path) -> None:
    await store.put("a", LARGE)
    (tmp_path / "f").write_bytes(b"before")
    (tmp_path / "f").chmod(0o666)
    seen = []

    def look(done: int, total: int | None) -> None:
        (other,) = (path for path in tmp_path.iterdir() if path.name != "f")
        seen.append((mode(other), (tmp_path / "f").read_bytes()))

    await store.get_file("a", tmp_path / "f", progress=look)
    assert set(seen) == {(0o600, b"before")}
    assert (mode(tmp_path / "f"), (tmp_path / "f").read_bytes()) == (0o666, LARGE)


@pytest.mark.parametrize("name", ["n" * 240, "n" * 255, "ü" * 127])
async def test_get_file_writes_names_as_long_as_the_file_system_allows(
    store: ObjectStore, tmp_path: Path, name: str
) -> None:
    await store.put("a", b"x")
    await store.get_file("a", tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"x"
    assert len(os.listdir(tmp_path)) == 1


def test_blocking_get_file_keeps_the_mode_of_a_file(
    sync_js: jetarrow.sync.JetStream, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sync_js.create_object_store(bucket)
    store.put("a", b"secret")
    (tmp_path / "f").touch(0o600)
    store.get_file("a", tmp_path / "f")
    monkeypatch.chdir(tmp_path)
    with umask(0o022):
        store.get_file("a")
        store.get_file("a", "n" * 240)
    assert [mode(tmp_path / name) for name in ("f", "a", "n" * 240)] == [0o600, 0o644, 0o644]
    with pytest.raises(ObjectNotFoundError):
        store.get_file("none", "f")
    assert len(os.listdir(tmp_path)) == 3
    sync_js.delete_object_store(bucket)
