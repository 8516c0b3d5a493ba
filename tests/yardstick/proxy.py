"""A TCP proxy that can swallow what passes: a half-open connection, of which neither end is told."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Proxy:
    """Between clients and a server on loopback."""

    def __init__(self, port: int) -> None:
        self._to = port
        # Connections younger than the last `swallow` are served.
        self._age = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def swallow(self) -> None:
        """From now on nothing passes on the connections that there are, in either direction; new ones work."""
        self._age += 1

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
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
            # A swallowed end is swallowed too.
            if born == self._age:
                sink.close()

        try:
            await asyncio.gather(pipe(reader, back), pipe(there, writer))
        except asyncio.CancelledError:
            pass  # Only the end of this proxy cancels; Python 3.11 reports a server's cancelled task as an error.
        finally:
            back.close()
            writer.close()
