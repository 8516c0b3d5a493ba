"""One writer of a folder at a time, whatever becomes of the one before."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jetarrow.sync
import pytest
from jetarrow.jetstream.sinks import lock as lock_module
from jetarrow.jetstream.sinks.folder import Folder
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SinkLockedError

from ..tools import PATIENCE, fill_sync, wait_until
from .tools import data, fill, seqs


def lock(folder: Path, **changed: Any) -> Path:
    """A lock that another writer has left."""
    (folder / "_jetarrow").mkdir(exist_ok=True)
    path = folder / "_jetarrow" / "lock.json"
    held = {"host": "elsewhere", "pid": 4711, "began": None, "token": "x", "renewed": time.time()}
    path.write_text(json.dumps({**held, **changed}))
    return path


async def test_two_writers(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    """The second writer fails with an error that names the first one."""
    await fill(js, stream, 11)
    first = js.to_parquet(stream, tmp_path, rows=5)
    await first.step()
    with pytest.raises(SinkLockedError, match=f"process {os.getpid()} on {socket.gethostname()}") as refused:
        await js.to_parquet(stream, tmp_path).run()
    assert (refused.value.pid, refused.value.host) == (os.getpid(), socket.gethostname())
    await first.step()
    await first.close()
    assert (await js.to_parquet(stream, tmp_path).run()).rows == 0
    assert seqs(tmp_path) == list(range(1, 11))


def test_a_release_during_a_renewal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is not written again after it was removed."""
    monkeypatch.setattr(lock_module, "EXPIRES", 0.04)
    folder = Folder(str(tmp_path))
    held = lock_module.Lock(folder)
    writes, goes_on = threading.Event(), threading.Event()
    replace = folder.replace

    def slow(*arguments: Any) -> None:
        writes.set()
        assert goes_on.wait(PATIENCE)
        replace(*arguments)

    monkeypatch.setattr(folder, "replace", slow)
    others = set(threading.enumerate())
    held.acquire()
    (renewal,) = set(threading.enumerate()) - others
    assert writes.wait(PATIENCE)
    releasing = threading.Thread(target=held.release)
    releasing.start()
    # Without the lock between them it ends here.
    releasing.join(0.2)
    goes_on.set()
    releasing.join(PATIENCE)
    renewal.join(PATIENCE)
    assert not (tmp_path / lock_module.NAME).exists()


def test_a_dead_writer(sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path) -> None:
    fill_sync(sync_js, stream, 2)
    path = lock(tmp_path)
    with pytest.raises(SinkLockedError, match="process 4711 on elsewhere"):
        sync_js.to_parquet(stream, tmp_path).run()
    assert json.loads(path.read_text())["pid"] == 4711
    # It was not renewed for a minute.
    lock(tmp_path, renewed=time.time() - 61)
    assert (sync_js.to_parquet(stream, tmp_path).run()).rows == 2
    assert not path.exists()
    # Its process is dead on this machine, or another one has its number now.
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    lock(tmp_path, host=socket.gethostname(), pid=dead.pid)
    sync_js.to_parquet(stream, tmp_path).run()
    lock(tmp_path, host=socket.gethostname(), pid=os.getpid(), began="long ago")
    sync_js.to_parquet(stream, tmp_path).run()
    path.write_text("{not JSON")
    sync_js.to_parquet(stream, tmp_path).run()


async def test_whoever_took_the_folder_over_has_it(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    """A writer that was away for too long commits nothing more."""
    await fill(js, stream, 11)
    slow = js.to_parquet(stream, tmp_path, rows=5)
    await slow.step()
    path = lock(tmp_path)
    with pytest.raises(SinkLockedError, match="taken over by process 4711 on elsewhere"):
        await slow.step()
    await slow.close()
    assert json.loads(path.read_text())["pid"] == 4711
    assert seqs(tmp_path) == [1, 2, 3, 4, 5]
    assert len(data(tmp_path)) == 1


HELD = """
import sys, jetarrow.sync
from jetarrow.jetstream.sinks import lock
lock.EXPIRES = 1.0
with jetarrow.sync.connect(sys.argv[1]) as nc:
    sink = nc.jetstream().to_parquet(sys.argv[2], sys.argv[3], follow=True, rows=5, seconds=0.1)
    try:
        while True:
            print(sink.step().rows, flush=True)
    except jetarrow.js.errors.SinkLockedError as error:
        print("locked", flush=True)
"""


def test_a_writer_that_is_stopped_for_longer_than_its_lock(
    sync_js: jetarrow.sync.JetStream,
    nats_url: str,
    stream: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SIGSTOP, while another one takes the folder over; what that one wrote is there."""
    monkeypatch.setattr(lock_module, "EXPIRES", 1.0)
    fill_sync(sync_js, stream, 5)
    command = [sys.executable, "-c", HELD, nats_url, stream, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "5\n"
        os.kill(first.pid, signal.SIGSTOP)
        try:
            fill_sync(sync_js, stream, 500)
            wait_until(lambda: taken_over(sync_js, stream, tmp_path), 30)
        finally:
            os.kill(first.pid, signal.SIGCONT)
        said, _ = first.communicate(timeout=60)
    assert said.splitlines()[-1] == "locked"
    assert not any(line not in ("0", "locked") for line in said.splitlines())
    assert seqs(tmp_path) == list(range(1, 506))
    assert (sync_js.to_parquet(stream, tmp_path).run()).rows == 0


def taken_over(js: jetarrow.sync.JetStream, stream: str, folder: Path) -> bool:
    try:
        js.to_parquet(stream, folder).run()
    except SinkLockedError:
        return False
    return True
