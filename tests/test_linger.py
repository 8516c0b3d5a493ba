"""A short call drives the connection in the caller's thread; other work of the event loop continues on time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.aio.client import Client

from .tools import wait_until

CALLS = 1_000


@pytest.mark.parametrize("verb", ["publish", "publish in tasks", "request in tasks", "fetch_batch"])
async def test_other_work_of_the_loop_goes_on(nc: Client, stream: str, verb: str) -> None:
    """Timers, calls from other threads and sockets are served while other tasks only await answers."""
    # The best of three: a busy machine may pause the program.
    for _ in range(3):
        took, counts = await work_beside(nc, stream, verb)
        # Each would run 500 times a second on an idle machine.
        if min(counts) > took * 20:
            break
    assert min(counts) > took * 20, (counts, took)


async def work_beside(nc: Client, stream: str, verb: str) -> tuple[float, list[int]]:
    """Returns the seconds of the verb's calls, and how often a timer, a thread's call and a socket ran meanwhile."""
    js, loop = nc.jetstream(), asyncio.get_running_loop()
    done = asyncio.Event()
    ticks: list[float] = []
    called: list[float] = []
    echoed: list[float] = []

    async def tick() -> None:
        while not done.is_set():
            await asyncio.sleep(0.002)
            ticks.append(time.monotonic())

    def call_in() -> None:
        while not done.is_set():
            loop.call_soon_threadsafe(lambda: called.append(time.monotonic()))
            time.sleep(0.002)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    async def talk(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while not done.is_set():
            writer.write(b"x\n")
            await reader.readline()
            echoed.append(time.monotonic())
            await asyncio.sleep(0.002)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        thread = threading.Thread(target=call_in)
        thread.start()
        others = [asyncio.ensure_future(tick()), asyncio.ensure_future(talk(server.sockets[0].getsockname()[1]))]
        sub = await js.pull_subscribe(f"{stream}.b")
        first = (await js.stream_info(stream)).state.last_seq
        begin = time.monotonic()
        if verb == "publish":
            for number in range(CALLS):
                assert (await js.publish(f"{stream}.a", b"x")).seq == first + number + 1
        elif verb == "fetch_batch":
            # Without messages: the thread that waits for them is the loop's, at most for 50 ms.
            for _ in range(20):
                # A busy server may answer too late.
                with suppress(errors.TimeoutError):
                    assert len(await sub.fetch_batch(10, timeout=0.05)) == 0
        else:

            async def call_often() -> None:
                for _ in range(CALLS // 20):
                    if verb == "publish in tasks":
                        await js.publish(f"{stream}.a", b"x")
                    else:
                        await nc.request("$JS.API.INFO", timeout=60)

            await asyncio.gather(*(call_often() for _ in range(100)))
        took = time.monotonic() - begin
        done.set()
        await asyncio.gather(*others)
        await asyncio.to_thread(thread.join)
    return took, [sum(at < begin + took for at in times) for times in (ticks, called, echoed)]


async def test_a_slow_answer_does_not_hold_the_loop(nc: Client, nats_url: str) -> None:
    """The loop answers a request that it has sent itself."""
    service = await jetarrow.connect(nats_url)
    waiting = asyncio.Event()

    async def answer(msg: jetarrow.Msg) -> None:
        waiting.set()
        await asyncio.sleep(0.1)
        await msg.respond(b"late")

    subject = nc.new_inbox()
    await service.subscribe(subject, cb=answer)
    await service.flush()
    assert (await nc.request(subject, b"", timeout=60)).data == b"late"
    assert waiting.is_set()
    await service.close()


@pytest.mark.parametrize("way", ["timeout", "wait_for", "own"])
async def test_unanswered_call_ends_with_its_timeout(nc: Client, way: str) -> None:
    """The timer ends a call without an answer, regardless of earlier calls."""
    subject = nc.new_inbox()
    await nc.subscribe(subject)
    await nc.flush()
    begin = time.monotonic()
    with pytest.raises((TimeoutError, errors.TimeoutError)):
        if way == "timeout":
            async with asyncio.timeout(0.3):
                await nc.request(subject, timeout=60)
        elif way == "wait_for":
            await asyncio.wait_for(nc.request(subject, timeout=60), 0.3)
        else:
            await nc.request(subject, timeout=0.3)
    assert 0.29 < time.monotonic() - begin < 30


async def test_cancelled_timers_do_not_pile_up(nc: Client) -> None:
    await nc.flush()
    scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    most = 0
    for _ in range(2_000):
        async with asyncio.timeout(600):
            await nc.flush()
        most = max(most, len(scheduled))
    assert most < 1_000


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal")
async def test_signal_handler_runs_during_a_request(nc: Client) -> None:
    subject, got = nc.new_inbox(), asyncio.Event()
    await nc.subscribe(subject)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, got.set)
    request = asyncio.ensure_future(nc.request(subject, timeout=60))
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(got.wait(), 30)
    asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)
    request.cancel()


async def test_callback_runs_while_a_request_waits(nc: Client, nats_url: str) -> None:
    """A callback runs while the loop's only other task waits for an answer that depends on it."""
    subject, arrived = nc.new_inbox(), asyncio.Event()

    async def take(msg: jetarrow.Msg) -> None:
        arrived.set()

    await nc.subscribe(f"{subject}.a", cb=take)
    other = await jetarrow.connect(nats_url)

    async def answer(msg: jetarrow.Msg) -> None:
        await other.publish(f"{subject}.a", b"x")
        await asyncio.wait_for(arrived.wait(), 30)
        await msg.respond(b"done")

    await other.subscribe(f"{subject}.b", cb=answer)
    await other.flush()
    assert (await nc.request(f"{subject}.b", timeout=60)).data == b"done"
    await other.close()


def test_loops_and_threads_at_once(nats_url: str, stream: str) -> None:
    """Every thread receives its answers, regardless of which one drives the connection."""
    failed: list[BaseException] = []

    async def publish() -> None:
        async with await jetarrow.connect(nats_url) as nc:
            js = nc.jetstream()
            for _ in range(CALLS // 4):
                await js.publish(f"{stream}.a", b"x")

    def blocking() -> None:
        with jetarrow.sync.connect(nats_url) as nc:
            js = nc.jetstream()
            for _ in range(CALLS // 4):
                js.publish(f"{stream}.a", b"x")

    def guarded(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    works: list[Callable[[], object]] = [lambda: asyncio.run(publish()), blocking] * 3
    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    with jetarrow.sync.connect(nats_url) as nc:
        assert nc.jetstream().stream_info(stream).state.messages == 6 * (CALLS // 4)


def test_publish_is_sent_without_a_waiting_call(nats_url: str) -> None:
    """A publish is sent without a waiting call, also right after a call that waited."""
    with jetarrow.sync.connect(nats_url) as nc, jetarrow.sync.connect(nats_url) as other:
        subject = nc.new_inbox()
        sub = other.subscribe(subject)
        other.flush()
        for number in range(200):
            nc.flush()
            nc.publish(subject, b"%d" % number)
            # A waiting call of the other client drives both; without one, the client's own thread must send.
            if number % 20 == 0:
                wait_until(lambda: sub.pending_msgs > 0)
            assert sub.next_msg(timeout=30).data == b"%d" % number


OTHER_LOOPS = """
import asyncio, sys
import uvloop
import jetarrow

async def main():
    async with await jetarrow.connect(sys.argv[1]) as nc:
        for _ in range(200):
            await nc.flush()
uvloop.run(main())
class Mine(asyncio.SelectorEventLoop):
    pass
with asyncio.Runner(loop_factory=Mine) as runner:
    runner.run(main())
print("done")
"""


def test_calls_work_on_uvloop_and_custom_loops(nats_url: str) -> None:
    pytest.importorskip("uvloop")
    command = [sys.executable, "-c", OTHER_LOOPS, nats_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")
