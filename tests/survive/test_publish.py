"""Publishing while the server is killed, frozen, or does not answer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

from ..yardstick import kill_pub, stalled
from ..yardstick.figures import Figure, check
from .tools import FLAT, Ticker

Form = Callable[[NatsServer, Ticker, float, int, int, int], Awaitable[list[Figure]]]


async def test_kills_during_a_batch(own_server: NatsServer) -> None:
    """Every row is stored once at the sequence of its result, and the call returns soon after the last restart."""
    check(await kill_pub.batch(own_server, **kill_pub.SHORT))


async def test_kills_during_publish_async(own_server: NatsServer) -> None:
    """Every message is stored once at the sequence of its future; futures resolve soon after a kill."""
    check(await kill_pub.futures(own_server, **kill_pub.SHORT))


@pytest.mark.parametrize("form", [stalled.batch, stalled.publisher], ids=["batch", "publisher"])
@pytest.mark.slow
async def test_frozen_server(own_server: NatsServer, ticker: Ticker, form: Form) -> None:
    [(size, (count, window))] = stalled.SHORT["sizes"].items()
    check(await form(own_server, ticker, stalled.SHORT["stop"], size, count, window))


@pytest.fixture
def deaf(own_server: NatsServer) -> Iterator[None]:
    """A subscriber to `deaf.>` that never answers: a publish there gets neither an ack nor an error."""

    def listen() -> None:
        while sock.recv(1 << 20):
            pass

    with socket.create_connection(("127.0.0.1", own_server.port)) as sock:
        sock.sendall(b'CONNECT {"verbose":false}\r\nSUB deaf.> 1\r\nPING\r\n')
        lines = b""
        while b"PONG" not in lines:
            lines += sock.recv(4096)
        thread = threading.Thread(target=listen)
        thread.start()
        yield
        sock.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize(("face", "frozen"), [("async", False), ("async", True), ("sync", False)])
@pytest.mark.slow
def test_publishes_that_time_out_leak_no_memory(own_server: NatsServer, face: str, frozen: bool) -> None:
    with jetarrow.sync.connect(own_server.url) as nc:
        nc.jetstream().add_stream(name="S", subjects=["s.>"])
    program = Path(__file__).with_name("unanswered.py")
    command = [sys.executable, str(program), face, own_server.url, str(own_server.pid if frozen else 0)]
    # By default mimalloc keeps freed pages for a moment, which varies the memory by 2 to 3 MiB; 0 purges them at once.
    env = {**os.environ, "MIMALLOC_PURGE_DELAY": "0"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=100, check=True, env=env)
    heights = [float(line) for line in done.stdout.split()]
    assert len(heights) == 20
    # Compares the lowest value of each half: leaked memory only grows.
    assert min(heights[10:]) - min(heights[:10]) < FLAT, f"it grew by {heights} MiB"
