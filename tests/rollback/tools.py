"""A server that comes back with an older copy of its store."""

from __future__ import annotations

import asyncio
import shutil
import time
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
    """The store of a server as it was."""

    def __init__(self, server: NatsServer, place: Path) -> None:
        self.server, self.place = server, place

    def take(self) -> None:
        self.server.stop()
        shutil.copytree(self.server.store_dir, self.place)
        self.server.start()

    def put_back(self) -> None:
        """As after the restoration of a backup: what was stored since is gone."""
        self.server.kill()
        shutil.rmtree(self.server.store_dir)
        shutil.copytree(self.place, self.server.store_dir)
        self.server.start()


async def publish(js: JetStreamContext, count: int, word: str = "old") -> None:
    """Messages that say which history they are of."""
    result = await js.publish_batch(f"{STREAM}.a", [f"{word} {number}" for number in range(count)], timeout=20)
    result.raise_for_errors()


async def _behind(js: JetStreamContext) -> None:
    """The stream is shorter than what was read."""
    await publish(js, 10, "new")


async def _past(js: JetStreamContext) -> None:
    """It has grown past it, with others."""
    await publish(js, 2 * COUNT, "new")


async def _equal(js: JetStreamContext) -> None:
    """It has as many as it had."""
    await publish(js, COUNT, "new")


async def _deleted(js: JetStreamContext) -> None:
    """It has grown past it, and around the position messages were deleted."""
    await _past(js)
    for seq in (2 * COUNT - 1, 2 * COUNT + 1):
        await js.delete_msg(STREAM, seq)


async def _trimmed(js: JetStreamContext) -> None:
    """It has grown past it, and of what came before it all was purged."""
    await _past(js)
    await js.purge_stream(STREAM, seq=2 * COUNT)


async def _expired(js: JetStreamContext) -> None:
    """It has grown past it, and what it had in common with what was read is too old."""
    await asyncio.sleep(1)
    last = (await js.get_msg(STREAM, COUNT)).time_ns or 0
    await _past(js)
    config = (await js.stream_info(STREAM)).config
    age = (time.time_ns() - last) / 1e9
    # The new ones are younger by a second; at once after the old ones are gone, nothing is too old any more.
    await js.update_stream(config, max_age=age, duplicate_window=age)
    await until(lambda: _first_seq(js, COUNT + 1))
    await js.update_stream(config, max_age=0)


async def _first_seq(js: JetStreamContext, seq: int) -> bool:
    return (await js.stream_info(STREAM)).state.first_seq == seq


async def _emptied(js: JetStreamContext) -> None:
    """Nothing came, and all was purged."""
    await js.purge_stream(STREAM)


async def _nothing(js: JetStreamContext) -> None:
    """It is as it was when it was copied."""


# What happens to the stream, which had twice COUNT messages and now has COUNT, before anybody looks.
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
    """Does work by a client of its own."""
    async with await jetarrow.connect(server.url) as nc:
        js = nc.jetstream()
        for _ in range(100):
            # A stream is recovered a moment after its server answers.
            try:
                await js.stream_info(STREAM)
                break
            except jetarrow.errors.Error:
                await asyncio.sleep(0.05)
        await work(js)
