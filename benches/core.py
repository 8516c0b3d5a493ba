"""Core messaging: the same code for jetarrow and nats-py, which differ in `connect` alone, and for a raw socket."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import other_end
import wire
from harness import Run
from peers import TASKS

Connect = Callable[[str], Awaitable[Any]]
TIMEOUT = 60.0  # seconds; against a hang only


@contextmanager
def process(run: Run, what: str) -> Iterator[Callable[[], None]]:
    """other_end.py as `what`, ready; call what is given to let it begin."""
    script = str(Path(other_end.__file__))
    given = [run.url, what, run.subject, str(run.count), str(run.size)]
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, script, *given], stdin=pipe, stdout=pipe, text=True) as started:
        try:
            stdin, stdout = started.stdin, started.stdout
            if stdin is None or stdout is None or stdout.readline() != "ready\n":
                raise RuntimeError(f"other_end.py {what} did not start")
            yield lambda: print("go", file=stdin, flush=True)
        finally:
            started.kill()


async def publish(run: Run, connect: Connect) -> int:
    payloads = run.payloads
    nc = await connect(run.url)
    before = run.server_in()
    with run.clock():
        for payload in payloads:
            await nc.publish(run.subject, payload)
        await nc.flush(TIMEOUT)
    await nc.close()
    run.check_bytes(run.server_in() - before)
    return run.count


def raw_publish(run: Run) -> int:
    made = other_end.blocks(run.subject, wire.make_payload(run.size), run.count)
    before = run.server_in()
    with wire.Wire(run.url) as connection, run.clock():
        for block in made:
            connection.sock.sendall(block)
        connection.resync()
    run.check_bytes(run.server_in() - before)
    return run.count


async def iterate(run: Run, connect: Connect) -> int:
    nc = await connect(run.url)
    subscription = await nc.subscribe(run.subject)
    await nc.flush()
    read = size = 0
    with process(run, "feed") as go, run.clock():
        go()
        async for message in subscription.messages:
            size += len(message.data)
            read += 1
            if read == run.count:
                break
    await nc.close()
    run.check_bytes(size)
    return read


async def callback(run: Run, connect: Connect) -> int:
    nc = await connect(run.url)
    read = size = 0
    done = asyncio.Event()

    async def take(message: Any) -> None:
        nonlocal read, size
        size += len(message.data)
        read += 1
        if read == run.count:
            done.set()

    await nc.subscribe(run.subject, cb=take)
    await nc.flush()
    with process(run, "feed") as go, run.clock():
        go()
        await asyncio.wait_for(done.wait(), TIMEOUT)
    await nc.close()
    run.check_bytes(size)
    return read


def raw_receive(run: Run) -> int:
    marker = f"MSG {run.subject} 1 ".encode()
    got = 0
    with wire.Wire(run.url) as connection:
        connection.sock.sendall(f"SUB {run.subject} 1\r\n".encode())
        connection.resync()
        chunks = wire.Chunks(connection.sock, len(marker))
        with process(run, "feed") as go, run.clock():
            go()
            while got < run.count:
                chunks.next()
                got += chunks.count(marker)
            connection.resync()  # the rest of the last message is before the PONG
    return got


async def request(run: Run, connect: Connect) -> int:
    payloads = run.payloads
    nc = await connect(run.url)
    with process(run, "respond"), run.clock():
        size = await ask(nc, run.subject, payloads)
    await nc.close()
    run.check_bytes(size)
    return len(payloads)


async def request_tasks(run: Run, connect: Connect) -> int:
    payloads = run.payloads
    nc = await connect(run.url)
    with process(run, "respond"), run.clock():
        sizes = await asyncio.gather(*[ask(nc, run.subject, payloads[i::TASKS]) for i in range(TASKS)])
    await nc.close()
    run.check_bytes(sum(sizes))
    return len(payloads)


def raw_request(run: Run) -> int:
    return raw_requests(run, 1)


def raw_request_tasks(run: Run) -> int:
    return raw_requests(run, TASKS)


def raw_requests(run: Run, outstanding: int) -> int:
    """At most `outstanding` requests without an answer, sent by halves of them; the answers are only counted."""
    inbox = f"_INBOX.{uuid.uuid4().hex[:12]}"
    marker = f"MSG {inbox} 1 ".encode()
    one = f"PUB {run.subject} {inbox} {run.size}\r\n".encode() + wire.make_payload(run.size) + b"\r\n"
    sent = got = 0
    with wire.Wire(run.url) as connection:
        connection.sock.sendall(f"SUB {inbox} 1\r\n".encode())
        connection.resync()
        chunks = wire.Chunks(connection.sock, len(marker))
        with process(run, "respond"), run.clock():
            while got < run.count:
                some = min((outstanding + 1) // 2, run.count - sent)
                while some and sent + some - got <= outstanding:
                    connection.sock.sendall(one * some)
                    sent += some
                    some = min(some, run.count - sent)
                chunks.next()
                got += chunks.count(marker)
    return got


async def ask(nc: Any, subject: str, payloads: list[bytes]) -> int:
    """One request after another; the bytes of the answers."""
    size = 0
    for payload in payloads:
        size += len((await nc.request(subject, payload, timeout=TIMEOUT)).data)
    return size
