"""One nats-server at a time on a store directory: a second one would lose messages of both."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow import _store_lock
from jetarrow.errors import StoreLockedError
from jetarrow.server import NatsServer

from .tools import alive, wait_until

posix = pytest.mark.skipif(os.name != "posix", reason="a child process inherits no lock here")
LOCK_FILE = "jetarrow.lock"
quickly = pytest.mark.usefixtures("short_wait")


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the wait of a start for a store that another server does not release."""
    monkeypatch.setattr(_store_lock, "_WAIT", 0.1)


def messages(server: NatsServer) -> list[bytes]:
    with jetarrow.sync.connect(server.url) as nc:
        return [message.data for batch in nc.jetstream().read("S") for message in batch]


def publish(server: NatsServer, payload: bytes) -> None:
    with jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["s"])
        js.publish("s", payload)


def test_second_server_on_a_store_is_refused_with_the_first_ones_name(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as first:
        publish(first, b"kept")
        with pytest.raises(StoreLockedError, match="stop that server") as refused:
            NatsServer(tmp_path).start()
        error = refused.value
        assert (error.pid, error.owner_pid, error.path) == (first.pid, os.getpid(), str(tmp_path))
        assert str(first.pid) in str(error)
        assert error.host
        assert error.began
        assert pickle.loads(pickle.dumps(error)).pid == first.pid
        assert messages(first) == [b"kept"]
    with NatsServer(tmp_path) as second:
        assert messages(second) == [b"kept"]


def test_another_path_to_the_store_is_refused_too(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with NatsServer(store):
        (tmp_path / "link").symlink_to(store)
        with pytest.raises(StoreLockedError):
            NatsServer(tmp_path / "link").start()


@quickly
def test_temporary_store_is_refused_too() -> None:
    with NatsServer() as first, pytest.raises(StoreLockedError):
        NatsServer(first.store_dir).start()


@pytest.mark.parametrize("how", ["stop", "kill", "restart"])
@quickly
def test_same_server_starts_again_and_keeps_its_store(how: str, tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        publish(server, b"kept")
        for _ in range(2):
            getattr(server, how)()
            server.start()
            assert messages(server) == [b"kept"]
            with pytest.raises(StoreLockedError):
                NatsServer(tmp_path).start()


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no SIGSTOP here")
@quickly
def test_paused_server_keeps_its_store(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        server.pause()
        with pytest.raises(StoreLockedError):
            NatsServer(tmp_path).start()
        server.resume()
        publish(server, b"kept")


@pytest.mark.parametrize("how", ["stop", "kill"])
@quickly
def test_store_is_free_between_stop_and_start(how: str, tmp_path: Path) -> None:
    with NatsServer(tmp_path) as first:
        getattr(first, how)()
        with NatsServer(tmp_path), pytest.raises(StoreLockedError):
            first.start()
        assert not first.running
        first.start()


@posix
def test_server_that_crashed_leaves_its_store_free(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as first:
        os.kill(first.pid, signal.SIGKILL)
        wait_until(lambda: not first.running)
        with NatsServer(tmp_path) as second:
            assert second.running


def test_copy_of_a_store_starts_beside_it(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "store") as first:
        publish(first, b"kept")
        first.stop()
        shutil.copytree(tmp_path / "store", tmp_path / "copy")
        first.start()
        assert (tmp_path / "copy" / LOCK_FILE).exists()
        with NatsServer(tmp_path / "copy") as second:
            assert messages(second) == messages(first) == [b"kept"]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"x" * 100_000])
@quickly
def test_lock_file_of_any_content_is_replaced(content: bytes, tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_bytes(content)
    with NatsServer(tmp_path) as server:
        with pytest.raises(StoreLockedError) as refused:
            NatsServer(tmp_path).start()
        assert refused.value.pid == server.pid
        (tmp_path / LOCK_FILE).write_bytes(content)
        with pytest.raises(StoreLockedError, match="another nats-server"):
            NatsServer(tmp_path).start()


def test_start_that_failed_leaves_the_store_free(tmp_path: Path) -> None:
    broken = NatsServer(tmp_path, config="max_payload: much")
    with pytest.raises(jetarrow.errors.Error, match="exited during the start"):
        broken.start()
    with NatsServer(tmp_path):
        pass
    broken.close()


ORPHAN = """
    import sys; sys.path[:0] = {path!r}
    import signal
    import jetarrow._spawn
    from jetarrow.server import NatsServer
    # As on a system that does not end a child with its parent.
    jetarrow._spawn._TRAMPOLINE = "import os, sys; os.execv(sys.argv[2], sys.argv[2:])"
    server = NatsServer({store!r}).start()
    print(server.pid, server.store_dir, server._files().folder, flush=True)
    signal.pause()
"""


@posix
def test_server_that_outlives_python_keeps_its_store(tmp_path: Path) -> None:
    code = ORPHAN.format(path=[each for each in sys.path if each], store=str(tmp_path / "store"))
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid, _, folder = process.stdout.readline().split()
    try:
        process.kill()
        process.wait(60)
        assert alive(int(pid)), "the test is about a server that is still there"
        with pytest.raises(StoreLockedError, match=f"process {pid}"):
            NatsServer(tmp_path / "store").start()
    finally:
        os.kill(int(pid), signal.SIGKILL)
        process.communicate()
        shutil.rmtree(folder)
    with NatsServer(tmp_path / "store") as server:
        assert server.running


@posix
def test_python_that_is_killed_leaves_its_store_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine may leave the orphaned server without a processor.
    monkeypatch.setattr("jetarrow._store_lock._WAIT", 8)
    code = ORPHAN.replace("jetarrow._spawn._TRAMPOLINE =", "unused =")
    code = code.format(path=[each for each in sys.path if each], store=str(tmp_path / "store"))
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    _, _, folder = process.stdout.readline().split()
    process.kill()
    begin = time.monotonic()
    try:
        if sys.platform == "linux":
            with NatsServer(tmp_path / "store") as server:
                assert server.running
            assert time.monotonic() - begin < 10
    finally:
        process.communicate()
        shutil.rmtree(folder)


@posix
def test_forked_child_does_not_hold_the_store(tmp_path: Path) -> None:
    """A child of `os.fork` that lives on has copies of all descriptors."""
    fork = multiprocessing.get_context("fork")
    over = fork.Event()
    child = fork.Process(target=over.wait)
    with NatsServer(tmp_path):
        child.start()
    try:
        with NatsServer(tmp_path) as server:
            assert server.running
    finally:
        over.set()
        child.join(30)
    assert child.exitcode == 0
