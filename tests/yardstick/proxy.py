"""A TCP proxy that can swallow all data: neither end is notified that the connection is half-open."""

from __future__ import annotations

import asyncio

from ..listener import Listener


class Proxy(Listener):
    """Forwards between clients and a server on loopback."""

    def __init__(self, port: int) -> None:
        self._to = port
        # Connections younger than the last `swallow` are served.
        self._age = 0

    def swallow(self) -> None:
        """Discards all further data of the existing connections, in both directions; new ones work."""
        self._age += 1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        born = self._age
        there, back = await asyncio.open_connection("127.0.0.1", self._to)

        async def pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(1 << 16):
                    if born == self._age:
                        sink.write(data)
                        await sink.drain()
            except ConnectionError:
                pass
            # The end of a swallowed connection is not forwarded either.
            if born == self._age:
                sink.close()

        try:
            await asyncio.gather(pipe(reader, back), pipe(there, writer))
        finally:
            back.close()
            writer.close()
