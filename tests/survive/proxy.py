"""TCP proxy in front of a server that can hold back or discard the server's data, and close connections."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType

from ..listener import Listener


class Proxy(Listener):
    """Forwards bytes; data from the server is discarded while `deaf` is true and held until `reading` is set."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self.deaf = False
        self.reading = asyncio.Event()
        self.reading.set()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        await super().__aexit__(kind, error, trace)

    def cut(self) -> None:
        """Closes all connections."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards one connection in both directions."""
        there, away = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, away]
        await asyncio.gather(self._pipe(reader, away, told=False), self._pipe(there, writer, told=True))

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, told: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while some := await reader.read(1 << 16):
                if told:
                    await self.reading.wait()
                some = self.from_server(some) if told else self.from_client(some)
                if some and not (told and self.deaf):
                    writer.write(some)
                    await writer.drain()
        writer.close()

    def from_server(self, data: bytes) -> bytes:
        """Returns the part of the server's data that is forwarded; a subclass may discard some."""
        return data

    def from_client(self, data: bytes) -> bytes:
        """Returns the part of a client's data that is forwarded; a subclass may discard some."""
        return data
