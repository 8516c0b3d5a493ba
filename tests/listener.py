"""A server on loopback whose protocol a test implements."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from types import TracebackType
from typing import Self


class Listener(ABC):
    """Serves connections while its block lasts; tasks that still run at its end are cancelled."""

    _tasks: set[asyncio.Task[None]]

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @abstractmethod
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection."""

    async def __aenter__(self) -> Self:
        self._tasks = set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Only the end of the block cancels; Python 3.11 reports a server's cancelled task as an error.
        with suppress(asyncio.CancelledError):
            await self.serve(reader, writer)
