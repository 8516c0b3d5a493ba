"""A slow link to a server: all bytes arrive, but later."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

# The first bytes of many that a link of a bounded rate carries do not wait for the last ones.
PACKET = 4096


class SlowLink:
    """A proxy on 127.0.0.1 that delays bytes by `delay` seconds each way and keeps their order.

    `delay` may change at any time. The proxy forwards `rate` bytes per second each way, or without a limit if `rate` is
    None. It drops chunks that contain `swallowed`. `most_held` is the maximum number of bytes in flight to the client;
    `pulls` contains the requests of pull consumers, in order; `asked` counts requests to the JetStream API; `came`
    counts bytes received from the server. After the second `marker` sent to the server, `between` runs before the next
    bytes are sent.
    """

    def __init__(self, delay: float, rate: float | None = None) -> None:
        self.delay = delay
        self.rate = rate
        self.swallowed: bytes | None = None
        self.url = ""
        self.most_held = 0
        self.came = 0
        self.marker: bytes | None = None
        self.between: Callable[[], Awaitable[None]] | None = None
        self._marked = 0
        self._tail = b""
        self._said = bytearray()

    @property
    def pulls(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in re.findall(rb"PUB \S+MSG\.NEXT\.[^\r]+\r\n([^\r]+)\r\n", self._said)]

    def asked(self, verb: str) -> int:
        return self._said.count(f" $JS.API.{verb}.".encode())

    def _second(self, chunk: bytes) -> int | None:
        """The offset in this chunk at which the second marker ends; None if it does not."""
        if self.marker is None:
            return None
        # The marker may begin in the previous chunk.
        seen = self._tail + chunk
        found = [match.end() for match in re.finditer(re.escape(self.marker), seen)]
        second = found[1 - self._marked] - len(self._tail) if self._marked < 2 <= self._marked + len(found) else None
        self._marked += len(found)
        self._tail = seen[-(len(self.marker) - 1) :]
        return second

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, down: bool) -> None:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[float, bytes | Callable[[], Awaitable[None]]]] = asyncio.Queue()
        free, held = 0.0, 0

        async def deliver() -> None:
            nonlocal held
            while True:
                due, chunk = await queue.get()
                await asyncio.sleep(due - loop.time())
                if callable(chunk):
                    await chunk()
                    continue
                writer.write(chunk)
                await writer.drain()
                held -= len(chunk)

        delivery = asyncio.ensure_future(deliver())
        try:
            while chunk := await reader.read(1 << 16):
                if self.swallowed is None or self.swallowed not in chunk:
                    free, held = max(free, loop.time()), held + len(chunk)
                    size = PACKET if self.rate else len(chunk)
                    second = None if down else self._second(chunk)
                    for packet in (chunk[at : at + size] for at in range(0, len(chunk), size)):
                        free += len(packet) / self.rate if self.rate else 0.0
                        if second is None or self.between is None:
                            queue.put_nowait((free + self.delay, packet))
                        else:
                            for part in (packet[:second], self.between, packet[second:]):
                                queue.put_nowait((free + self.delay, part))
                if down:
                    self.came += len(chunk)
                    self.most_held = max(self.most_held, held)
                elif b" $JS.API." in chunk:
                    self._said += chunk
        finally:
            delivery.cancel()
            writer.close()


@asynccontextmanager
async def slow_link(url: str, delay: float, rate: float | None = None) -> AsyncIterator[SlowLink]:
    """A slow link to the server at `url`."""
    link = SlowLink(delay, rate)
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        where = urlsplit(url)
        try:
            other, out = await asyncio.open_connection(where.hostname, where.port)
        except OSError:
            # The server is down.
            writer.close()
            return
        for task in (link._carry(reader, out, down=False), link._carry(other, writer, down=True)):
            tasks.add(asyncio.ensure_future(task))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    link.url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield link
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, OSError):
                await task
