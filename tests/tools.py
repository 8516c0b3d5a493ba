"""Helpers for the tests of all folders. This file contains no tests."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import random
import re
import socket
import string
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jetarrow.sync
from jetarrow.aio.client import Client
from jetarrow.errors import Error
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

# Timeout in seconds for conditions that are certain to become true.
PATIENCE = 30.0


def numbers(count: int) -> list[bytes]:
    """The payloads of `fill`: 1 to `count`, as text."""
    return [b"%d" % number for number in range(1, count + 1)]


async def store(js: JetStreamContext, subject: str, payloads: Sequence[bytes]) -> None:
    """Publishes the payloads to one subject; all of them are stored afterwards."""
    (await js.publish_batch(subject, payloads)).raise_for_errors()


async def fill(js: JetStreamContext, stream: str, count: int) -> None:
    """Stores the numbers from 1 on at `<stream>.a`: message n of a new stream is the number n."""
    await store(js, f"{stream}.a", numbers(count))


def fill_sync(js: jetarrow.sync.JetStream, stream: str, count: int) -> None:
    """Like `fill`, without an event loop."""
    js.publish_batch(f"{stream}.a", numbers(count)).raise_for_errors()


async def fill_subjects(js: JetStreamContext, stream: str, tokens: Iterable[str]) -> None:
    """Stores the numbers from 1 on, one at `<stream>.<token>` for each token."""
    for number, token in enumerate(tokens, 1):
        await js.publish(f"{stream}.{token}", b"%d" % number)


async def until(condition: Callable[[], Any], patience: float = PATIENCE) -> None:
    """Polls (or awaits) the condition until it holds: for states that no event reports."""
    deadline = time.monotonic() + patience
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await asyncio.wait_for(found, max(0.1, deadline - time.monotonic()))
        if found:
            return
        assert time.monotonic() < deadline, f"not within {patience} s: {inspect.getsource(condition).strip()}"
        await asyncio.sleep(0.005)


async def no_consumer_stays(js: JetStreamContext, stream: str) -> None:
    """Waits until the stream has no consumer: the end of a read, unlike its close, does not wait for the deletion."""

    async def gone() -> bool:
        return (await js.stream_info(stream)).state.consumer_count == 0

    await until(gone)


async def settle(nc: Any) -> None:
    """Waits until the server has received all written data; nats-py's flush overtakes data written just before it."""
    await nc.flush()
    await nc.flush()


async def delete_stream(js: JetStreamContext, server: NatsServer, name: str) -> None:
    """Deletes a stream and waits until its files are gone: the server removes them later, and a restore can find them.

    Seen with nats-server 2.15.
    """
    folders = f"jetstream/*/streams/*{name}"
    assert list(server.store_dir.glob(folders))
    await js.delete_stream(name)
    await until(lambda: not list(server.store_dir.glob(folders)))


def wait_until(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Like `until`, without an event loop."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience} s: {inspect.getsource(condition).strip()}"
        time.sleep(0.005)


def wait_until_blocked(pid: int) -> None:
    """Returns once the main thread has run or been runnable for less than 5 ms within 200 ms, and waits for no disk."""
    thread = Path(f"/proc/{pid}/task/{pid}")

    def busy() -> int:
        return sum(map(int, (thread / "schedstat").read_text().split()[:2]))

    def sleeps() -> bool:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "S"

    while True:
        before, asleep = busy(), True
        for _ in range(10):
            time.sleep(0.02)
            asleep &= sleeps()
        if asleep and busy() - before < 5_000_000:
            return


def time_without_processor(pid: int) -> float:
    """Seconds for which threads of a process were ready to run and had no processor."""
    found = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            found += int(thread.read_text().split()[1])
    return found / 1e9


def free_port() -> int:
    """A port of 127.0.0.1 for a server that is started right afterwards."""
    return free_ports(1)[0]


def connections(monitor: int) -> list[dict[str, Any]]:
    """Returns a server's list of connections; its configuration must contain `http: 127.0.0.1:<monitor>`."""
    with urllib.request.urlopen(f"http://127.0.0.1:{monitor}/connz?subs=1", timeout=5) as answer:
        found: list[dict[str, Any]] = json.load(answer)["connections"]
        return found


def port_of(nc: Client) -> int | None:
    """The port of the server that the client is connected to."""
    url = nc.connected_url
    return None if url is None else url.port


def alive(pid: int) -> bool:
    """Whether the process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Runs `work(0)`, `work(1)` … at once, each in a thread; raises their first error."""
    failed: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def free_ports(count: int) -> list[int]:
    """Returns different free ports, below the range from which the system assigns ports."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(ports) < count:
            sock, port = stack.enter_context(socket.socket()), random.randrange(first // 2, first)
            with contextlib.suppress(OSError):
                sock.bind(("127.0.0.1", port))
                ports.append(port)
    return ports


def wait_for_leader(url: str, **options: Any) -> None:
    """Returns once the cluster of this server has elected the leader of JetStream's API.

    Before that, a request to the API gets no response, and a test would wait for the request's timeout.
    """
    deadline = time.monotonic() + PATIENCE
    with jetarrow.sync.connect(url, **options) as nc:
        while True:
            try:
                nc.request("$JS.API.INFO", timeout=0.1)
                return
            except Error:
                assert time.monotonic() < deadline, f"no leader within {PATIENCE} s"


@contextlib.contextmanager
def cluster(count: int = 3, more: str = "") -> Iterator[dict[str, NatsServer]]:
    """Servers of one cluster with a leader, by name; `more` is added to their configuration.

    With accounts in `more` there may be no leader yet.
    """
    routes = free_ports(count)
    listed = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
    with contextlib.ExitStack() as stack:
        servers = {}
        for number, port in enumerate(routes):
            config = (
                f"server_name: n{number}\n"
                f"cluster {{ name: C, listen: 127.0.0.1:{port}, routes: [{listed}], no_advertise: true }}\n"
                f"{more}\n"
            )
            servers[f"n{number}"] = stack.enter_context(NatsServer(config=config))
        if "accounts" not in more:
            wait_for_leader(servers["n0"].url)
        yield servers


def python_blocks(text: str) -> list[str]:
    """The Python examples of a document."""
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run_example(block: str, url: str, folder: Path) -> str:
    """Runs an example, with only the server's address replaced, in its own folder; returns its output."""
    assert "nats://localhost:4222" in block
    script = folder / "example.py"
    script.write_text(block.replace("nats://localhost:4222", url), "utf-8")
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def gjson(value: Any, path: str) -> Any:
    """Returns the value at a GJSON path of keys, as KEDA's `metrics-api` scaler finds it; None if there is none.

    A backslash escapes a special character of a key. Wildcards, queries and modifiers raise.
    """
    for part in re.findall(r"(?:\\.|[^.\\])+", path):
        key = re.sub(r"\\(.)", r"\1", part)
        if special := re.sub(r"\\.", "", part).strip(string.ascii_letters + string.digits + "_-"):
            raise ValueError(f"{path}: {special} is special")
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value
