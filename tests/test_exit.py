"""What was published before the end is sent, however the program ends."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid

import jetarrow
import pytest

PROGRAM = """
import asyncio, sys, time
import jetarrow

url, subject, ending = sys.argv[1:]

async def main():
    nc = await jetarrow.connect(url)
    for number in range(10_000):
        await nc.publish(subject, b"%d" % number)
    if ending == "drain":
        await nc.drain()
    elif ending == "close":
        await nc.close()

asyncio.run(main())
print(time.time())
"""

STREAM = """
import asyncio, sys, time
import jetarrow

url, subject, ending = sys.argv[1:]

async def main():
    nc = await jetarrow.connect(url)
    js = nc.jetstream()
    for number in range(2_000):
        await js.publish_async(subject, b"%d" % number)
    if ending == "close":
        await nc.close()

asyncio.run(main())
print(time.time())
"""

BLOCKING = """
import sys, time
import jetarrow.sync

url, subject, ending = sys.argv[1:]
nc = jetarrow.sync.connect(url)
for number in range(10_000):
    nc.publish(subject, b"%d" % number)
if ending == "drain":
    nc.drain()
elif ending == "close":
    nc.close()
print(time.time())
"""


def run(program: str, *arguments: str) -> float:
    """Runs the program and returns how many seconds it took from its last line to its end."""
    command = [sys.executable, "-W", "default", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    end = time.time()
    assert (done.returncode, done.stderr) == (0, "")
    return end - float(done.stdout)


@pytest.mark.parametrize("ending", ["drain", "close", "nothing"])
async def test_core_messages_are_sent(nats_url: str, ending: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        for _ in range(20):
            subject = f"exit.{uuid.uuid4().hex}"
            sub = await nc.subscribe(subject)
            await nc.flush()
            assert run(PROGRAM, nats_url, subject, ending) < 2
            await nc.flush()
            numbers = [int((await sub.next_msg(timeout=5)).data) for _ in range(10_000)]
            assert numbers == list(range(10_000))
            await sub.unsubscribe()


@pytest.mark.parametrize("ending", ["drain", "close", "nothing"])
async def test_core_messages_are_sent_blocking(nats_url: str, ending: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        for _ in range(3):
            subject = f"exit.{uuid.uuid4().hex}"
            sub = await nc.subscribe(subject)
            await nc.flush()
            assert run(BLOCKING, nats_url, subject, ending) < 2
            await nc.flush()
            assert (sub.pending_msgs, sub.dropped) == (10_000, 0)
            await sub.unsubscribe()


@pytest.mark.parametrize("ending", ["close", "nothing"])
async def test_stream_messages_are_sent(nats_url: str, stream: str, ending: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        for times in range(1, 4):
            assert run(STREAM, nats_url, f"{stream}.a", ending) < 2
            state = (await nc.jetstream().stream_info(stream)).state
            assert state.messages == 2_000 * times
