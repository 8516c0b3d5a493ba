"""Publishes 200,000 messages that get no ack (80,000 with blocking calls), and prints the memory 20 times.

A program of its own, so that the memory contains nothing else: `unanswered.py <face> <url> <pid to freeze or 0>`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading

import jetarrow
import jetarrow.sync
from jetarrow import errors
from tools import rss

WINDOW = 5_000
PART = 10_000
THREADS = 40
EACH = 100


async def awaiting(url: str, pid: int) -> None:
    async with await jetarrow.connect(url) as nc:
        js = nc.jetstream(publish_async_max_pending=WINDOW, ack_timeout=0.1)
        if pid:
            os.kill(pid, signal.SIGSTOP)
        for _ in range(20):
            for _ in range(PART // WINDOW):
                futures = [await js.publish_async("deaf.a", bytes(128)) for _ in range(WINDOW)]
                ends = await asyncio.gather(*futures, return_exceptions=True)
                assert {type(end) for end in ends} == {errors.TimeoutError}
                del futures, ends
            print(rss())
        if pid:
            os.kill(pid, signal.SIGCONT)
        assert (await nc.jetstream().publish("s.a", b"still alive")).stream == "S"


def blocking(url: str) -> None:
    late: list[None] = []

    def publish() -> None:
        for _ in range(EACH):
            try:
                js.publish("deaf.a", bytes(128), timeout=0.002)
            except errors.TimeoutError:
                late.append(None)

    with jetarrow.sync.connect(url) as nc:
        js = nc.jetstream()
        for part in range(1, 21):
            threads = [threading.Thread(target=publish) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(late) == part * THREADS * EACH
            print(rss())
        assert js.publish("s.a", b"still alive").stream == "S"


if __name__ == "__main__":
    face, url, pid = sys.argv[1:]
    if face == "sync":
        blocking(url)
    else:
        asyncio.run(awaiting(url, int(pid)))
