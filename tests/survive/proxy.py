"""A proxy before a server that can keep what comes from it, and cut links."""

from __future__ import annotations

import asyncio
import contextlib


class Proxy:
    """Passes bytes on; what the server says is thrown away while it is `deaf`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.deaf = False

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Ends all links."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, away = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, away]
        for pipe in (self._pipe(reader, away, told=False), self._pipe(there, writer, told=True)):
            task = asyncio.create_task(pipe)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, told: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while some := await reader.read(1 << 16):
                if not (told and self.deaf):
                    writer.write(some)
                    await writer.drain()
        writer.close()
