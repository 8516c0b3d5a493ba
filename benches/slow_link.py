"""A long link to a server: a proxy on loopback, in a process of its own, delays what passes and may bound its rate.

The kernels that the benches run on need not have netem; and a delay of our own is in no other connection's way.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

# Bytes that may be under way in one direction: more than any window of ours.
MOST = 256 * 1024 * 1024
# A link of a bounded rate carries packets: the first bytes of many do not wait for the last ones.
PACKET = 1460


class Pipe(asyncio.Protocol):
    """One direction of one connection: what came is written `delay` seconds later, no faster than `rate` bytes/s."""

    def __init__(self, delay: float, rate: float) -> None:
        self.delay, self.rate = delay, rate
        self.loop = asyncio.get_running_loop()
        self.waiting: deque[tuple[float, bytes]] = deque()
        self.held = 0
        # When the link is free for the next byte.
        self.free = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.source: asyncio.Transport | None = None
        self.target: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.source = cast(asyncio.Transport, transport)
        self.source.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self.free = max(self.free, self.loop.time())
        size = PACKET if self.rate else len(data)
        for begin in range(0, len(data), size):
            packet = data[begin : begin + size]
            self.free += len(packet) / self.rate if self.rate else 0.0
            self.waiting.append((self.free + self.delay, packet))
        self.held += len(data)
        if self.held > MOST and self.source is not None:
            self.source.pause_reading()
        if self.timer is None:
            self.timer = self.loop.call_at(self.waiting[0][0], self.forward)

    def forward(self) -> None:
        self.timer = None
        now, due = self.loop.time(), []
        while self.waiting and self.waiting[0][0] <= now:
            due.append(self.waiting.popleft()[1])
        if due and self.target is not None and not self.target.is_closing():
            self.target.writelines(due)
        before, self.held = self.held, self.held - sum(map(len, due))
        if before > MOST >= self.held and self.source is not None:
            self.source.resume_reading()
        if self.waiting:
            self.timer = self.loop.call_at(self.waiting[0][0], self.forward)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.target is not None:
            self.loop.call_later(self.delay, self.target.close)


class Front(Pipe):
    """The client's side: opens the other side at once; both delay."""

    def __init__(self, host: str, port: int, delay: float, rate: float) -> None:
        super().__init__(delay, rate)
        self.where = (host, port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.opening = asyncio.ensure_future(self.open())

    async def open(self) -> None:
        back = Pipe(self.delay, self.rate)
        back.target = self.source
        transport, _ = await self.loop.create_connection(lambda: back, *self.where)
        self.target = transport


async def serve(host: str, port: int, delay: float, rate: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Front(host, port, delay, rate), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


@contextlib.contextmanager
def slow_link(url: str, round_trip: float, rate: float = 0.0) -> Iterator[str]:
    """An address that leads to `url`, `round_trip` seconds away. `rate` is in bytes a second; 0 is unbounded."""
    place = url.removeprefix("nats://")
    command: list[Any] = [sys.executable, __file__, place, "--delay", str(round_trip / 2), "--rate", str(rate)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout is not None
        try:
            yield f"nats://127.0.0.1:{int(proxy.stdout.readline())}"
        finally:
            assert proxy.stdin is not None
            proxy.stdin.close()
            proxy.wait(30)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds, one way")
    parser.add_argument("--rate", type=float, default=0.0, help="bytes a second, one way")
    given = parser.parse_args()
    host, _, port = given.server.rpartition(":")
    asyncio.run(serve(host, int(port), given.delay, given.rate))
