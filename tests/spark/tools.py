"""Helpers of the Spark tests: streams made with nats-py, the source without a JVM, processes and their sockets."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import pickle
import signal
import time
import urllib.request
import uuid
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import nats
import pyarrow as pa
import pyspark
import pytest
from jetarrow.server import NatsServer
from jetarrow.spark.datasource import JetStreamSource
from jetarrow.spark.schema import arrow_schema
from jetarrow.spark.source.partitioning import StreamRange
from jetarrow.spark.source.stream_reader import JetStreamStreamReader
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from .. import tools

T = TypeVar("T")
# Seconds: a JVM may have to start workers first.
PATIENCE = 60.0
LIMITS = {"maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger"}
free_ports = tools.free_ports
wait_until = functools.partial(tools.wait_until, patience=PATIENCE)


def release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    return tuple(int(number) for number in version.split(".")[:2])


class Socket(NamedTuple):
    local: int
    remote: int
    unread: int
    inode: str


def sockets() -> list[Socket]:
    """The TCP sockets of this machine, with their ports and unread bytes."""
    found = []
    for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, remote = (int(address.rpartition(":")[2], 16) for address in fields[1:3])
        found.append(Socket(local, remote, int(fields[4].partition(":")[2], 16), fields[9]))
    return found


def clients(port: int) -> set[int]:
    """The processes that are connected to a server's port, without this one."""
    wanted = {f"socket:[{socket.inode}]" for socket in sockets() if socket.remote == port}
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(file) in wanted for file in (process / "fd").iterdir()):
                found.add(int(process.name))
        except OSError:  # it has ended meanwhile
            continue
    return found - {os.getpid()}


def port_of(server: NatsServer) -> int:
    return int(server.url.rpartition(":")[2])


def has_unread(server: NatsServer) -> bool:
    """Whether the server has bytes that it has not read."""
    return any(socket.unread for socket in sockets() if socket.local == port_of(server))


def children() -> dict[int, list[tuple[int, str]]]:
    """Parent to (process, command line)."""
    found: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            found.setdefault(parent, []).append((int(entry.name), command))
    return found


def workers() -> list[int]:
    """The Python workers of this process's executor, without the daemon that makes them."""
    below = children()
    return [
        worker
        for jvm, _ in below.get(os.getpid(), [])
        for daemon, command in below.get(jvm, [])
        if "pyspark.daemon pyspark.worker" in command
        for worker, _ in below.get(daemon, [])
    ]


def kill_workers() -> int:
    """Kill the Python workers; the daemon stays."""
    found = workers()
    for worker in found:
        os.kill(worker, signal.SIGKILL)
    return len(found)


def end_idle_workers() -> None:
    """End the workers that earlier tests left, which Spark reuses, and wait until they are reaped."""
    kill_workers()
    wait_until(lambda: not workers())


class Streams:
    """Makes and changes streams on one server, with nats-py."""

    def __init__(self, url: str) -> None:
        self.url = url

    def new(self, **config: Any) -> str:
        """Make a stream that no other test has; it takes `<its name>.>`. `config` are fields of its configuration."""
        name = f"S{uuid.uuid4().hex[:12]}"
        self.create(name, **config)
        return name

    def create(self, name: str, **config: Any) -> None:
        self.request(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **config})

    def update(self, name: str, **config: Any) -> None:
        now = self.request(f"STREAM.INFO.{name}")["config"]
        self.request(f"STREAM.UPDATE.{name}", {**now, **config})

    def messages(self, name: str) -> int:
        return int(self.request(f"STREAM.INFO.{name}")["state"]["messages"])

    def request(self, what: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """A request to the API: nats-py does not know all fields of a stream."""

        async def work(js: JetStreamContext) -> dict[str, Any]:
            payload = json.dumps(body).encode() if body else b""
            answer: dict[str, Any] = json.loads((await js._nc.request(f"$JS.API.{what}", payload, timeout=30)).data)
            assert "error" not in answer, answer["error"]
            return answer

        return self.run(work)

    def delete(self, name: str) -> None:
        self.run(lambda js: js.delete_stream(name))

    def publish(self, name: str, payloads: list[bytes]) -> None:
        """Publish to `<name>.<0, 1 or 2 in turn>`."""

        async def work(js: JetStreamContext) -> None:
            for i, payload in enumerate(payloads):
                await js.publish_async(f"{name}.{i % 3}", payload, wait_stall=20)
            await js.publish_async_completed()

        self.run(work)

    def delete_messages(self, name: str, seqs: list[int]) -> None:
        async def work(js: JetStreamContext) -> None:
            for seq in seqs:
                await js.delete_msg(name, seq)

        self.run(work)

    def purge(self, name: str, *, before: int) -> None:
        """Remove every message below sequence `before`."""
        self.run(lambda js: js.purge_stream(name, seq=before))

    def consumers(self, name: str) -> int:
        async def work(js: JetStreamContext) -> int:
            return (await js.stream_info(name)).state.consumer_count

        return self.run(work)

    def readers(self, name: str) -> set[str]:
        """The consumers with which tasks read; the driver's are short and only count messages."""

        async def work(js: JetStreamContext) -> set[str]:
            return {info.name for info in await js.consumers_info(name)}

        return {consumer for consumer in self.run(work) if not consumer.startswith("jetarrow-count-")}

    def left(self, name: str) -> list[int]:
        """The sequences that the stream still has."""

        async def work(js: JetStreamContext) -> list[int]:
            state = (await js.stream_info(name)).state
            found = []
            for seq in range(max(1, state.first_seq), state.last_seq + 1):
                with contextlib.suppress(NotFoundError):
                    found.append((await js.get_msg(name, seq)).seq or 0)
            return found

        return self.run(work)

    def run(self, work: Callable[[JetStreamContext], Coroutine[Any, Any, T]]) -> T:
        async def connected() -> T:
            client = await nats.connect(self.url)
            try:
                return await work(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(connected())


class Here:
    """The source without Spark's JVM: planned and read in this process, as Spark does it in several."""

    def __init__(self, url: str) -> None:
        self.url = url

    def source(self, stream: str | None = None, **options: object) -> JetStreamSource:
        given = {"servers": self.url} | ({} if stream is None else {"stream": stream})
        return JetStreamSource(given | {name: str(value) for name, value in options.items()})

    def plan(self, stream: str | None = None, **options: object) -> list[StreamRange]:
        source = self.source(stream, **options)
        schema = source.schema()
        assert isinstance(schema, StructType)
        return list(source.reader(schema).partitions())

    def read(self, stream: str | None = None, schema: StructType | None = None, **options: object) -> pa.Table:
        source = self.source(stream, **options)
        columns = schema or source.schema()
        assert isinstance(columns, StructType)
        reader = source.reader(columns)
        return self.table(columns, reader, reader.partitions())

    def stream(self, stream: str | None = None, **options: object) -> JetStreamStreamReader:
        """A streaming reader as a new process of the driver has it. Limits skip the test where Spark has none."""
        if options.keys() & LIMITS and release(pyspark.__version__) < (4, 2):
            pytest.skip(f"limits per micro-batch need Spark 4.2, this is {pyspark.__version__}")
        source = self.source(stream, **options)
        schema = source.schema()
        assert isinstance(schema, StructType)
        reader = source.streamReader(schema)
        assert isinstance(reader, JetStreamStreamReader)
        return reader

    def batch(self, reader: JetStreamStreamReader, start: Any, end: Any) -> pa.Table:
        return self.table(reader._schema, reader, reader.partitions(start, end))

    def table(self, schema: StructType, reader: Any, partitions: Sequence[InputPartition]) -> pa.Table:
        # Spark pickles them too, and demands exactly this schema.
        parts = pickle.loads(pickle.dumps(list(partitions)))
        batches = [batch for part in parts for batch in reader.read(part)]
        return pa.Table.from_batches(batches, arrow_schema(schema))


class Stored(NamedTuple):
    """A message after a write; `headers` without its id and the expected stream."""

    subject: str
    data: bytes
    id: str | None
    headers: dict[str, list[str]]


def bytes_out(monitor: int) -> int:
    """Bytes that a server has sent to its clients; its configuration must contain `http: 127.0.0.1:<monitor>`.

    The server updates the counter a moment after it has sent, so it is read until it no longer changes.
    """
    seen = -1
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{monitor}/varz", timeout=10) as answer:
            last, seen = seen, int(json.load(answer)["out_bytes"])
        if seen == last:
            return seen
        time.sleep(0.1)
