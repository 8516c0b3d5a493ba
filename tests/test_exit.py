"""Messages published before the end of a program are sent, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from subprocess import PIPE

import jetarrow
import pytest
from jetarrow.server import NatsServer

from .forks import Forks
from .tools import until

# Seconds to the end of a program: an exit waits for the server at most 2 s, and the machine may be busy.
MOST_SECONDS = 8.0

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
from jetarrow.core import at_exit, connect

# A busy machine may leave the server without a processor for as long as an exit waits.
at_exit.STALL = at_exit.SEND_TIMEOUT = connect.LAST_ACKS_TIMEOUT = 60

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


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks("asyncio", "jetarrow", "jetarrow.sync") as forks:
        yield forks


def run(forks: Forks, program: str, *arguments: str) -> float:
    """Runs the program and returns how many seconds it took from its last line to its end."""
    child = forks.start(program, *arguments)
    try:
        status = child.wait(30)
        end = time.time()
        assert (status, child.stderr.read()) == (0, "")
        return end - float(child.stdout.read())
    finally:
        child.kill()


@pytest.mark.parametrize("ending", ["drain", "close", "nothing"])
async def test_core_messages_are_sent(forks: Forks, nats_url: str, ending: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        for _ in range(20):
            subject = f"exit.{uuid.uuid4().hex}"
            sub = await nc.subscribe(subject)
            await nc.flush()
            assert run(forks, PROGRAM, nats_url, subject, ending) < MOST_SECONDS
            await nc.flush()
            numbers = [int((await sub.next_msg(timeout=5)).data) for _ in range(10_000)]
            assert numbers == list(range(10_000))
            await sub.unsubscribe()


@pytest.mark.parametrize("ending", ["drain", "close", "nothing"])
async def test_core_messages_are_sent_blocking(forks: Forks, nats_url: str, ending: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        for _ in range(3):
            subject = f"exit.{uuid.uuid4().hex}"
            sub = await nc.subscribe(subject)
            await nc.flush()
            assert run(forks, BLOCKING, nats_url, subject, ending) < MOST_SECONDS
            await until(lambda sub=sub: sub.pending_msgs >= 10_000)  # type: ignore[misc]
            assert (sub.pending_msgs, sub.dropped) == (10_000, 0)
            await sub.unsubscribe()


@pytest.mark.parametrize("ending", ["close", "nothing"])
async def test_stream_messages_are_sent(forks: Forks, nats_url: str, stream: str, ending: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        for times in range(1, 4):
            assert run(forks, STREAM, nats_url, f"{stream}.a", ending) < MOST_SECONDS
            stored = 2_000 * times

            async def is_stored(stored: int = stored) -> bool:
                return (await nc.jetstream().stream_info(stream)).state.messages >= stored

            await until(is_stored)
            assert (await nc.jetstream().stream_info(stream)).state.messages == stored


# Programs that only Ctrl-C ends, while the server is paused; they differ in the pending messages and answers.
WAITING = {
    "async": """
async def main():
    nc = await jetarrow.connect(url)
    pause()
    for _ in range(100):
        await nc.publish("a", b"x" * 1_000)
    go()
    await nc.request("a", timeout=60)
asyncio.run(main())
""",
    "async_with": """
async def main():
    async with await jetarrow.connect(url) as nc:
        pause()
        go()
        await nc.flush(60)
asyncio.run(main())
""",
    "async_streams": """
async def main():
    nc = await jetarrow.connect(url)
    js = nc.jetstream()
    await js.add_stream(name="S", subjects=["S"])
    pause()
    futures = [await js.publish_async("S", b"x" * 100_000) for _ in range(100)]
    go()
    await asyncio.gather(*futures)
asyncio.run(main())
""",
    "async_close": """
async def main():
    nc = await jetarrow.connect(url)
    js = nc.jetstream()
    await js.add_stream(name="S", subjects=["S"])
    pause()
    try:
        await nc.publish("a", b"x" * 1_000)
        futures = [await js.publish_async("S", b"x" * 1_000) for _ in range(100)]
        publisher = js.publisher("S")
        await publisher.publish(b"x")
        go()
        await asyncio.sleep(60)
    finally:
        await nc.close()
asyncio.run(main())
""",
    "sync_close": """
nc = jetarrow.sync.connect(url)
js = nc.jetstream()
js.add_stream(name="S", subjects=["S"])
pause()
try:
    nc.publish("a", b"x" * 1_000)
    futures = [js.publish_async("S", b"x" * 1_000) for _ in range(100)]
    go()
    futures[0].result()
finally:
    nc.close()
""",
    "sync": """
nc = jetarrow.sync.connect(url)
pause()
for _ in range(20):
    nc.publish("a", b"x" * 500_000)
go()
nc.flush(60)
""",
    "sync_with": """
with jetarrow.sync.connect(url) as nc:
    pause()
    go()
    nc.request("a", timeout=60)
""",
    "sync_streams": """
nc = jetarrow.sync.connect(url)
js = nc.jetstream()
js.add_stream(name="S", subjects=["S"])
pause()
futures = [js.publish_async("S", b"x" * 100_000) for _ in range(100)]
go()
futures[0].result()
""",
}

START = """
import asyncio, sys
import jetarrow, jetarrow.sync

url = sys.argv[1]

def pause():
    print("pause", flush=True)
    sys.stdin.readline()

def go():
    print("go", flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no server can be stopped here")
@pytest.mark.parametrize("program", WAITING)
def test_ctrl_c_ends_a_program_with_a_paused_server(own_server: NatsServer, program: str) -> None:
    measured = []
    # The best of three: a busy machine may pause the program.
    for _ in range(3):
        took, start = interrupt_paused(own_server, program)
        measured.append((took, start))
        # The duration of the interpreter's exit depends on the machine, like that of its start.
        if took < 1.0 + start:
            return
    pytest.fail(f"seconds after Ctrl-C, and of the start: {measured}")


def interrupt_paused(own_server: NatsServer, program: str) -> tuple[float, float]:
    """Sends Ctrl-C to the program with a paused server; returns the seconds to its end, and those of its start."""
    command = [sys.executable, "-c", START + WAITING[program], own_server.url]
    began = time.monotonic()
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            assert child.stdout.readline() == "pause\n"
            start = time.monotonic() - began
            # Only the server's parent process can wait until all its threads have stopped.
            own_server.pause()
            print(file=child.stdin, flush=True)
            if child.stdout.readline() != "go\n":
                pytest.fail(f"the program ended by itself with {child.wait(10)}: {child.stderr.read()}")
            time.sleep(0.2)
            pressed = time.monotonic()
            child.send_signal(signal.SIGINT)
            child.wait(10)
            took = time.monotonic() - pressed
        finally:
            child.kill()
            own_server.resume()
        assert "KeyboardInterrupt" in child.stderr.read()
    return took, start
