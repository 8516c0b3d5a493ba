"""Rows in atomic batches, and a proxy that breaks a connection at one of their commits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from jetarrow.js.client import JetStreamContext

from .listener import Listener


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def rows_of(js: JetStreamContext, stream: str) -> list[bytes]:
    """The payloads of a stream in order, after a check that each batch in it is whole."""
    table = await js.read(stream, columns=["data", "headers"]).read_all()
    batches: Counter[str] = Counter()
    lengths: dict[str, int] = {}
    for headers in table.column("headers").to_pylist():
        found = dict(headers or [])
        if "Nats-Batch-Id" in found:
            (batch,) = found["Nats-Batch-Id"]
            batches[batch] += 1
            if "Nats-Batch-Commit" in found:
                lengths[batch] = int(found["Nats-Batch-Sequence"][0])
    assert dict(batches) == lengths
    data: list[bytes] = table.column("data").to_pylist()
    return data


class Cutter(Listener):
    """Forwards to a server, and ends the first connection at the n-th commit of a batch.

    Without `stored` the commit does not arrive. With it the commit arrives, answers do not, and the connection ends
    when `stored` returns.
    """

    def __init__(self, port: int, *, commit: int, stored: Callable[[], Awaitable[None]] | None) -> None:
        self._port = port
        self._commit = commit
        self._stored = stored
        self.cuts = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        cut = asyncio.Event()

        async def up() -> None:
            commits, rest = 0, b""
            while data := await reader.read(1 << 16):
                seen = rest + data
                commits += seen.count(b"Nats-Batch-Commit")
                rest = seen[-16:]
                if not self.cuts and commits >= self._commit:
                    self.cuts += 1
                    if self._stored is None:
                        return
                    cut.set()
                back.write(data)
                await back.drain()

        async def down() -> None:
            while data := await there.read(1 << 16):
                if not cut.is_set():
                    writer.write(data)
                    await writer.drain()

        async def end() -> None:
            await cut.wait()
            if self._stored is not None:
                await self._stored()

        tasks = [asyncio.ensure_future(part()) for part in (up, down, end)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            back.close()
            writer.close()
