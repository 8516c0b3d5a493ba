"""Servers on disks whose power can be cut, and the rows that they keep. This file contains no tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jetarrow.sync
from jetarrow.errors import Error
from jetarrow.js.errors import NotFoundError
from jetarrow.server import NatsServer

from .power import Disk
from .tools import free_ports, wait_until

# Rows of each of two calls: the first is on the disk before the second is made.
ROWS = 100
KEPT, LOST = "kept", "lost"
_MODES = ("window", "fast", "atomic")


class Streams:
    """Streams of one server or cluster, one for each storage, persist mode and mode of publishing."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        kinds = [("file", "default", mode) for mode in _MODES] + [("memory", "default", mode) for mode in _MODES]
        # The server refuses the persist mode async for replicas and for atomic batches.
        kinds += [("file", "async", mode) for mode in _MODES if mode != "atomic" and replicas == 1]
        self.names = {kind: "-".join(kind) for kind in kinds}

    def add(self, js: jetarrow.sync.JetStream) -> None:
        for (storage, persist, mode), name in self.names.items():
            config: dict[str, Any] = {"storage": storage, "num_replicas": self._replicas}
            config |= {"allow_atomic": mode == "atomic", "allow_batched": mode == "fast"}
            if persist != "default":
                config["persist_mode"] = persist
            js.add_stream(name=name, subjects=[name], **config)

    def publish(self, js: jetarrow.sync.JetStream, first: int) -> None:
        """Publishes as many rows to each; all of them are acknowledged afterwards."""
        for (_, _, mode), name in self.names.items():
            result = js.publish_batch(name, [b"%d" % row for row in range(first, first + ROWS)], mode=mode)
            result.raise_for_errors()
            assert result.stored == ROWS

    def outcomes(self, js: jetarrow.sync.JetStream) -> dict[tuple[str, str, str], str]:
        return {kind: outcome(js, name) for kind, name in self.names.items()}


def is_settled(js: jetarrow.sync.JetStream, stream: str) -> bool:
    """Whether the stream has a leader, and all other replicas have what it has."""
    try:
        cluster = js.stream_info(stream).cluster
    except NotFoundError:
        return True
    except Error:
        return False
    if cluster is None or cluster.name is None:
        return True
    replicas = cluster.replicas or []
    return bool(cluster.leader) and all(one.current and not one.offline and not one.lag for one in replicas)


def outcome(js: jetarrow.sync.JetStream, stream: str) -> str:
    """Returns whether all acknowledged rows are there, in order; fails if a row is another one."""
    wait_until(lambda: is_settled(js, stream), 60)
    try:
        found = js.read(stream, columns=["data"]).read_all()["data"].to_pylist()
    except NotFoundError:
        return LOST
    assert found == [b"%d" % row for row in range(len(found))]
    assert len(found) <= 2 * ROWS
    return KEPT if len(found) == 2 * ROWS else LOST


@contextlib.contextmanager
def running(disks: Sequence[Path], ports: Sequence[int], sync: str) -> Iterator[list[NatsServer]]:
    """Starts a server on each disk, as a cluster if there are several."""
    listed = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    common = "" if sync == "default" else f"jetstream {{ sync_interval: {sync} }}\n"
    with contextlib.ExitStack() as stack:
        servers = []
        for number, (disk, port) in enumerate(zip(disks, ports, strict=True)):
            routes = f"cluster {{ name: C, listen: 127.0.0.1:{port}, routes: [{listed}], no_advertise: true }}\n"
            config = f"server_name: n{number}\n{common}{routes if len(disks) > 1 else ''}"
            servers.append(stack.enter_context(contextlib.closing(NatsServer(disk / "store", config))))
        start(servers)
        yield servers


def start(servers: Sequence[NatsServer]) -> None:
    with ThreadPoolExecutor() as executor:
        list(executor.map(NatsServer.start, servers))


@contextlib.contextmanager
def jetstream(server: NatsServer) -> Iterator[jetarrow.sync.JetStream]:
    with jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream(timeout=10)
        wait_until(lambda: answers(js), 60)
        yield js


def answers(js: jetarrow.sync.JetStream) -> bool:
    """Whether the cluster has a leader."""
    try:
        return js.account_info() is not None
    except Error:
        return False


@contextlib.contextmanager
def cut(disks: Sequence[Disk]) -> Iterator[list[Path]]:
    """Yields copies of the disks after a power loss."""
    with contextlib.ExitStack() as stack:
        copies = []
        for disk in disks:
            copies.append(disk.cut())
            stack.callback(copies[-1].close)
        yield [copy.path for copy in copies]


@contextlib.contextmanager
def filled_cluster(streams: Streams, disks: list[Disk], sync: str) -> Iterator[tuple[list[NatsServer], list[int]]]:
    """Runs three servers whose disks have the first rows of each stream; yields them with their ports of routes."""
    ports = free_ports(3)
    with running([disk.path for disk in disks], ports, sync) as servers:
        with jetstream(servers[0]) as js:
            streams.add(js)
            streams.publish(js, 0)
            for name in streams.names.values():
                wait_until(lambda name=name: is_settled(js, name), 60)  # type: ignore[misc]
        for disk in disks:
            disk.sync()
        yield servers, ports


@contextlib.contextmanager
def replaced(server: NatsServer, disk: Path) -> Iterator[NatsServer]:
    """Yields a server with the configuration of another one and another disk; it is not started."""
    with contextlib.closing(NatsServer(disk / "store", server._config)) as other:
        yield other


def has_leader(js: jetarrow.sync.JetStream, name: str) -> bool:
    try:
        cluster = js.stream_info(name).cluster
    except Error:
        return False
    return cluster is not None and bool(cluster.leader)
