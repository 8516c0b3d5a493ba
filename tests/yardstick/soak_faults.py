"""A cluster of three whose routes pass through proxies, and faults of it, one at a time."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from jetarrow import errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from ..tools import free_ports, until
from .proxy import Proxy

NODES = 3
# Routes notice a partition after two pings.
CONFIG = """server_name: n{number}
ping_interval: "2s"
ping_max: 2
cluster {{ name: C, listen: 127.0.0.1:{port}, routes: [{routes}], no_advertise: true, advertise: "127.0.0.1:9" }}
"""
RECOVERY = 180.0


class Route(Proxy):
    """The way from one server to another."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._cut = False

    def cut(self) -> None:
        self._cut = True
        self.swallow()

    def heal(self) -> None:
        self._cut = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.close()
            return
        # The server behind it may be down.
        with suppress(ConnectionError):
            await super().serve(reader, writer)


class Cluster:
    """Three servers; the way from n1 to n2 is `routes[1, 2]`."""

    def __init__(self, servers: list[NatsServer], routes: dict[tuple[int, int], Route]) -> None:
        self.servers, self.routes = servers, routes

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.servers]

    def routes_of(self, node: int) -> list[Route]:
        return [route for pair, route in self.routes.items() if node in pair]


@asynccontextmanager
async def proxied_cluster() -> AsyncIterator[Cluster]:
    ports = free_ports(NODES)
    async with AsyncExitStack() as stack:
        pairs = [(one, other) for one in range(NODES) for other in range(NODES) if one != other]
        routes = {pair: await stack.enter_async_context(Route(ports[pair[1]])) for pair in pairs}
        servers = []
        for number, port in enumerate(ports):
            listed = ", ".join(f'"{route.url}"' for pair, route in routes.items() if pair[0] == number)
            server = NatsServer(config=CONFIG.format(number=number, port=port, routes=listed))
            servers.append(server)
            await asyncio.to_thread(server.start)
            stack.push_async_callback(asyncio.to_thread, server.close)
        yield Cluster(servers, routes)


class Faults:
    """Breaks something every few seconds; `seed` decides what."""

    def __init__(self, cluster: Cluster, js: JetStreamContext, stream: str, seed: int) -> None:
        self._cluster, self._js, self._stream = cluster, js, stream
        self._random = random.Random(seed)
        self.kinds: Counter[str] = Counter()
        self.recovery = 0.0

    async def run(self, seconds: float) -> None:
        """Breaks things for this time; all is whole at the end."""
        kinds: list[tuple[str, Callable[[int], Awaitable[None]]]] = [
            ("kill", self._kill),
            ("pause", self._pause),
            ("partition", self._partition),
            ("leader", self._leader),
        ]
        end = time.monotonic() + seconds
        # Each kind once, then at random.
        waiting = self._random.sample(kinds, len(kinds))
        while waiting or time.monotonic() < end:
            kind, fault = waiting.pop() if waiting else self._random.choice(kinds)
            await fault(self._random.randrange(NODES))
            self.kinds[kind] += 1
            # A second fault before the cluster is whole could take the majority.
            begin = time.monotonic()
            await until(self._whole, RECOVERY)
            self.recovery = max(self.recovery, time.monotonic() - begin)
            await asyncio.sleep(self._random.uniform(0.5, 3))

    async def _kill(self, node: int) -> None:
        server = self._cluster.servers[node]
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(self._random.uniform(0, 3))
        await asyncio.to_thread(server.restart)

    async def _pause(self, node: int) -> None:
        server = self._cluster.servers[node]
        server.pause()
        await asyncio.sleep(self._random.uniform(0.5, 8))
        server.resume()

    async def _partition(self, node: int) -> None:
        routes = self._cluster.routes_of(node)
        for route in routes:
            route.cut()
        await asyncio.sleep(self._random.uniform(1, 10))
        for route in routes:
            route.heal()

    async def _leader(self, _: int) -> None:
        # Without a leader there is nothing to change.
        with suppress(errors.Error):
            await self._js.stream(self._stream).step_down()
        with suppress(errors.Error):
            async for name in self._js.stream(self._stream).consumer_names():
                await self._js.stream(self._stream).consumer(name).step_down()

    async def _whole(self) -> bool:
        try:
            infos = [(await self._js.stream_info(self._stream)).cluster]
        except errors.Error:
            return False
        return all(
            info is not None
            and info.leader is not None
            and len(info.replicas or []) == NODES - 1
            and all(peer.current and not peer.offline for peer in info.replicas or [])
            for info in infos
        )
