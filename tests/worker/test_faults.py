"""Workers over restarts, kills, deleted consumers, and dead letters that cannot be stored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import Backoff, Reject
from jetarrow.js.errors import NotFoundError
from jetarrow.server import NatsServer

from ..tools import fill_sync, free_port, wait_until
from .faces import FACES, running

each_face = pytest.mark.parametrize("face", FACES)


@each_face
def test_worker_continues_after_restarts_of_the_server(face: str, own_server: NatsServer) -> None:
    with jetarrow.sync.connect(own_server.url, max_reconnect_attempts=0, reconnect_time_wait=0.05) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["S.>"])
        seen: set[int] = set()
        with running(face, own_server.url, "S", handler=lambda msg: seen.add(msg.seq), ack_wait=2) as run:
            for round in range(3):
                fill_sync(js, "S", 100)
                if round < 2:
                    own_server.kill()
                    own_server.start()
                    wait_until(lambda: nc.is_connected)
            last = js.stream_info("S").state.last_seq
            wait_until(lambda: seen >= set(range(1, last + 1)))
            wait_until(lambda: js.consumer_info("S", "w").num_ack_pending == 0)
            assert run.worker.is_running


@each_face
def test_deleted_consumer_ends_the_worker_with_an_error_that_names_it(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    fill_sync(sync_js, stream, 1)
    with running(face, nats_url, stream, handler=lambda msg: None) as run:
        wait_until(lambda: run.worker.metrics().handled == 1)
        sync_js.delete_consumer(stream, "w")
        run.thread.join(30)
        assert isinstance(run.error, NotFoundError)
        assert "'w'" in str(run.error)


@each_face
@pytest.mark.parametrize("trouble", ["absent", "full"])
def test_message_whose_dead_letter_cannot_be_stored_is_kept(
    face: str, trouble: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    fill_sync(sync_js, stream, 1)
    letters = f"{stream}_DEAD_LETTERS"
    go = threading.Event()

    def handle(msg: Any) -> None:
        go.wait(30)
        raise Reject("bad")

    retry = Backoff(initial=0.05, factor=1)
    with running(face, nats_url, stream, handler=handle, retry=retry, health=":0") as run:
        config = sync_js.stream_info(letters).config
        if trouble == "absent":
            sync_js.delete_stream(letters)
        else:
            sync_js.update_stream(config.evolve(max_bytes=1, discard="new"))
        go.set()
        wait_until(lambda: run.worker.metrics().unstored >= 2)
        assert sync_js.consumer_info(stream, "w").num_ack_pending == 1
        assert run.worker.metrics().dead == 0
        if trouble == "absent":
            sync_js.add_stream(config)
        else:
            sync_js.update_stream(config)
        wait_until(lambda: run.worker.metrics().dead == 1)
        wait_until(lambda: sync_js.consumer_info(stream, "w").num_ack_pending == 0)
    assert [row["reason"] for row in sync_js.dead_letters(stream).read_all().to_pylist()] == ["bad"]
    sync_js.delete_stream(letters)


# Each message is a line of the file `seen`; the worker ends after a signal only.
_PROGRAM = """
import asyncio, sys, time, threading
import jetarrow, jetarrow.sync
url, face, key = sys.argv[1:4]
seen = open("seen", "a", buffering=1)
lock = threading.Lock()

def record(msg):
    with lock:
        seen.write(f"{msg.seq}\\n")

def slow(msg):
    if msg.data == b"slow":
        open("begun", "w").close()
        time.sleep(1)
    else:
        time.sleep(0.002)
    record(msg)

async def slow_async(msg):
    if msg.data == b"slow":
        open("begun", "w").close()
        await asyncio.sleep(1)
    else:
        await asyncio.sleep(0.001)
    record(msg)

options = {"durable": "w", "ack_wait": 4 if key else 1, "concurrency": 5, "key": key or None}

async def main():
    async with await jetarrow.connect(url, max_reconnect_attempts=0) as nc:
        await jetarrow.worker(nc.jetstream(), "S", handler=slow_async if face == "async" else slow, **options).run()

if face == "sync":
    with jetarrow.sync.connect(url, max_reconnect_attempts=0) as nc:
        jetarrow.sync.worker(nc.jetstream(), "S", handler=slow, **options).run()
else:
    asyncio.run(main())
import signal
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
print("ended")
"""


@contextmanager
def child(face: str, url: str, folder: Path, key: str = "") -> Iterator[subprocess.Popen[str]]:
    (folder / "program.py").write_text(_PROGRAM, "utf-8")
    process = subprocess.Popen(
        [sys.executable, "program.py", url, face, key],
        cwd=folder,
        env=os.environ,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def seen(folder: Path) -> list[int]:
    path = folder / "seen"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


@each_face
def test_killed_workers_lose_no_message(face: str, own_server: NatsServer, tmp_path: Path) -> None:
    with jetarrow.sync.connect(own_server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["S.>"])
        for kill in range(4):
            fill_sync(js, "S", 300)
            before = len(seen(tmp_path))
            with child(face, own_server.url, tmp_path) as process:
                wait_until(lambda before=before: len(seen(tmp_path)) > before + 20)
                if kill < 3:
                    process.send_signal(signal.SIGKILL)
                    process.wait(30)
                else:
                    wait_until(lambda: js.consumer_info("S", "w").num_pending == 0)
                    wait_until(lambda: js.consumer_info("S", "w").num_ack_pending == 0)
        assert set(seen(tmp_path)) == set(range(1, 1201))


@pytest.mark.parametrize("face", ["async", "sync"])
def test_order_of_a_key_holds_over_a_kill(face: str, own_server: NatsServer, tmp_path: Path) -> None:
    with jetarrow.sync.connect(own_server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["S.>"])
        js.publish_batch([f"S.{n % 4}" for n in range(600)], [b""] * 600).raise_for_errors()
        for kill in range(2):
            before = len(seen(tmp_path))
            with child(face, own_server.url, tmp_path, "subject") as process:
                wait_until(lambda before=before: len(seen(tmp_path)) > before + 50)
                if not kill:
                    process.send_signal(signal.SIGKILL)
                    process.wait(30)
                else:
                    wait_until(lambda: js.consumer_info("S", "w").num_pending == 0)
                    wait_until(lambda: js.consumer_info("S", "w").num_ack_pending == 0)
    for key in range(4):
        # The first time of each message: a message of the killed worker may be handled again.
        first = list(dict.fromkeys(seq for seq in seen(tmp_path) if (seq - 1) % 4 == key))
        assert first == sorted(first)
        assert len(first) == 150


@each_face
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_drains_the_worker(face: str, number: int, own_server: NatsServer, tmp_path: Path) -> None:
    with jetarrow.sync.connect(own_server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["S.>"])
        js.publish("S.a", b"slow")
        with child(face, own_server.url, tmp_path) as process:
            wait_until((tmp_path / "begun").exists)
            process.send_signal(number)
            output, errors = process.communicate(timeout=60)
        assert (process.returncode, output) == (0, "ended\n"), errors
        info = js.consumer_info("S", "w")
        assert (seen(tmp_path), info.num_ack_pending, info.ack_floor.stream_seq) == ([1], 0, 1)


def test_worker_in_a_loop_of_another_program_stops_with_its_block(
    nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    import asyncio

    fill_sync(sync_js, stream, 10)
    seen: Counter[int] = Counter()

    async def main() -> None:
        async with await jetarrow.connect(nats_url) as nc:

            async def handle(msg: Any) -> None:
                seen[msg.seq] += 1

            before = signal.getsignal(signal.SIGTERM)
            async with jetarrow.worker(nc.jetstream(), stream, durable="w", handler=handle, signals=False) as worker:
                assert signal.getsignal(signal.SIGTERM) == before
                while worker.metrics().handled < 10:
                    await asyncio.sleep(0.01)
            assert not worker.is_running
            with pytest.raises(RuntimeError, match="once"):
                await worker.__aenter__()

    asyncio.run(main())
    assert seen == Counter(range(1, 11))


async def test_cancelled_run_returns_its_messages(nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    import asyncio

    fill_sync(sync_js, stream, 5)
    begun = asyncio.Event()
    async with await jetarrow.connect(nats_url) as nc:

        async def handle(msg: Any) -> None:
            begun.set()
            await asyncio.sleep(60)

        worker = jetarrow.worker(nc.jetstream(), stream, durable="w", handler=handle, ack_wait=60, signals=False)
        task = asyncio.create_task(worker.run())
        await asyncio.wait_for(begun.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    rest, found = sync_js.pull_subscribe_bind("w", stream), set()
    deadline = time.monotonic() + 30
    while len(found) < 5 and time.monotonic() < deadline:
        found |= {message.seq for message in rest.fetch(5, timeout=10)}
    assert found == {1, 2, 3, 4, 5}


def test_health_address_in_use_is_an_error(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    import socket

    port = free_port()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", port))
        holder.listen()
        worker = jetarrow.sync.worker(sync_js, stream, durable="w", handler=print, health=f":{port}")
        with pytest.raises(OSError, match="use another port"):
            worker.run()
