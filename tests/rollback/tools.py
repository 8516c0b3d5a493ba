"""Restores a server with an older copy of its store."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jetarrow
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.server import NatsServer

from ..tools import until

STREAM = "ROLLED"
COUNT = 100


class Copy:
    """A copy of a server's store."""

    def __init__(self, server: NatsServer, place: Path) -> None:
        self.server, self.place = server, place

    def take(self) -> None:
        self.server.stop()
        shutil.copytree(self.server.store_dir, self.place)
        self.server.start()

    def put_back(self) -> None:
        """Replaces the store by the copy, as the restoration of a backup does."""
        self.server.kill()
        shutil.rmtree(self.server.store_dir)
        shutil.copytree(self.place, self.server.store_dir)
        self.server.start()


async def publish(js: JetStreamContext, count: int, word: str = "old") -> None:
    """Publishes messages whose payload contains `word`, which identifies their history."""
    result = await js.publish_batch(f"{STREAM}.a", [f"{word} {number}" for number in range(count)], timeout=20)
    result.raise_for_errors()


async def _behind(js: JetStreamContext) -> None:
    """The stream's last sequence is lower than the position."""
    await publish(js, 10, "new")


async def _past(js: JetStreamContext) -> None:
    """New messages raise the last sequence above the position."""
    await publish(js, 2 * COUNT, "new")


async def _equal(js: JetStreamContext) -> None:
    """The last sequence is equal to the position."""
    await publish(js, COUNT, "new")


async def _deleted(js: JetStreamContext) -> None:
    """The stream grew past the position, and the messages around the position were deleted."""
    await _past(js)
    for seq in (2 * COUNT - 1, 2 * COUNT + 1):
        await js.delete_msg(STREAM, seq)


async def _trimmed(js: JetStreamContext) -> None:
    """The stream grew past the position, and all messages before the position were purged."""
    await _past(js)
    await js.purge_stream(STREAM, seq=2 * COUNT)


async def _expired(js: JetStreamContext) -> None:
    """The stream grew past the position, and the messages of both histories expired."""
    config = (await js.stream_info(STREAM)).config
    await js.update_stream(config, max_age=0.1, duplicate_window=0.1)
    await until(lambda: _first_seq(js, COUNT + 1))
    await js.update_stream(config, max_age=0)
    await _past(js)


async def _first_seq(js: JetStreamContext, seq: int) -> bool:
    return (await js.stream_info(STREAM)).state.first_seq == seq


async def _emptied(js: JetStreamContext) -> None:
    """No message was published, and all were purged."""
    await js.purge_stream(STREAM)


async def _nothing(js: JetStreamContext) -> None:
    """The stream is unchanged since the copy."""


# Changes of the stream after the restoration from 2 * COUNT to COUNT messages, before any client looks at it.
SINCE: dict[str, Callable[[JetStreamContext], Any]] = {
    "behind": _behind,
    "past": _past,
    "equal": _equal,
    "deleted": _deleted,
    "trimmed": _trimmed,
    "expired": _expired,
    "emptied": _emptied,
    "nothing": _nothing,
}


async def with_other_client(server: NatsServer, work: Callable[[JetStreamContext], Any]) -> None:
    """Runs `work` with a separate client."""
    async with await jetarrow.connect(server.url) as nc:
        js = nc.jetstream()
        for _ in range(100):
            # The stream is recovered shortly after its server accepts connections.
            try:
                await js.stream_info(STREAM)
                break
            except jetarrow.errors.Error:
                await asyncio.sleep(0.05)
        await work(js)
