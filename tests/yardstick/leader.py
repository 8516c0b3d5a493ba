"""LEADER: three servers; the stream's leader is killed during publishes, the consumer's leader during fetches.

The full form also freezes leaders, which the other servers cannot distinguish from a network failure.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import jetarrow
from jetarrow import errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from ..survive.tools import places
from ..tools import cluster, until
from .figures import Figure, said

FULL: dict[str, Any] = {"count": 300_000, "kills": 6, "stops": 2}
SHORT: dict[str, Any] = {"count": 20_000, "kills": 1, "stops": 0}
BLOCK = 500
STOP = 10.0
Leader = Callable[[], Awaitable[str | None]]


class Faults:
    """Breaks the current leader, waits for the next one, and restores the old one."""

    def __init__(self, js: JetStreamContext, servers: dict[str, NatsServer], leader: Leader) -> None:
        self.js, self.servers, self.leader = js, servers, leader
        self.elections: list[float] = []
        self.recovered: list[float] = []
        # Time of the last message or ack.
        self.last = 0.0

    async def next_leader(self, old: str | None) -> str:
        while True:
            try:
                name = await self.leader()
            except errors.Error:  # There is no leader, or the server is down.
                name = None
            if name is not None and name != old:
                return name
            await asyncio.sleep(0.05)

    async def one(self, stop: bool) -> None:
        old = await self.next_leader(None)
        server = self.servers[old]
        begin = time.monotonic()
        await asyncio.to_thread(server.pause if stop else server.kill)
        await asyncio.wait_for(self.next_leader(old), 60)
        elected = time.monotonic()
        self.elections.append(elected - begin)
        # The next fault follows once work continues and the old leader is available again: two of three must run.
        await until(lambda: self.last > elected, 30)
        self.recovered.append(self.last - elected)
        if stop:
            await asyncio.sleep(max(0.0, begin + STOP - time.monotonic()))
            server.resume()
        else:
            await asyncio.to_thread(server.start)
        await until(self._all_current, 60)

    async def _all_current(self) -> bool:
        try:
            found = (await self.js.stream_info("S")).cluster
        except errors.Error:
            return False
        return found is not None and all(peer.current for peer in found.replicas or [])

    async def all(self, kills: int, stops: int) -> None:
        for number in range(kills + stops):
            await self.one(stop=number >= kills)


class Published:
    """Publishes blocks until all faults are over and all numbers are stored."""

    def __init__(self, js: JetStreamContext, faults: Faults) -> None:
        self.js, self.faults = js, faults
        # The reported sequence of each number.
        self.places: dict[str, int] = {}
        self.most_tries = 0

    async def run(self, count: int, kills: int, stops: int) -> None:
        breaking = asyncio.ensure_future(self.faults.all(kills, stops))
        number = 0
        while number < count or not breaking.done():
            await self._block([str(value) for value in range(number, number + BLOCK)])
            number += BLOCK
        await breaking

    async def _block(self, texts: list[str]) -> None:
        """Publishes a block; resends rows that were lost with the old leader and so are never acknowledged."""
        tries = 0
        while texts:
            tries += 1
            result = await self.js.publish_batch("s.a", texts, msg_ids=texts, timeout=0.5)
            found = zip(texts, result.seqs.to_pylist(), strict=True)
            self.places.update((text, seq) for text, seq in found if seq is not None)
            texts = [texts[row] for row, _ in result.errors]
            if len(texts) < result.count:
                self.faults.last = time.monotonic()
            if texts:
                await asyncio.sleep(min(0.1 * 2**tries, 0.75))
        self.most_tries = max(self.most_tries, tries)


async def fetching(
    patient: JetStreamContext, faults: Faults, count: int, kills: int, stops: int
) -> Counter[int | None]:
    """Fetches slowly enough that all faults happen meanwhile."""
    seen: Counter[int | None] = Counter()

    async def answered() -> bool:
        try:
            await faults.js.consumer_info("S", "d")
        except errors.Error:  # A request that is on its way to a leader that ends has no answer.
            return False
        return True

    # Before the faults: its request for the consumer would be lost with a leader, and it has all the time of `patient`.
    await until(answered, 60)
    sub = await patient.pull_subscribe_bind("d", "S")
    breaking = asyncio.ensure_future(faults.all(kills, stops))
    while len(seen) < count:
        most = max(1, count // (50 * (kills + stops)))
        try:
            batch = await sub.fetch_batch(most, timeout=2)
        except errors.Error:  # No consumer leader: fails at once and is retried.
            await asyncio.sleep(0.1)
            continue
        seen.update(batch.seqs.to_pylist())
        if len(batch):
            faults.last = time.monotonic()
        await batch.ack()
        if not breaking.done():
            await asyncio.sleep(0.1)
    await breaking
    return seen


async def measure(count: int, kills: int, stops: int) -> list[Figure]:
    with cluster() as servers:
        urls = [server.url for server in servers.values()]
        async with await jetarrow.connect(urls, ping_interval=1, max_reconnect_attempts=0) as nc:
            js = nc.jetstream(timeout=0.5)

            async def made() -> bool:
                try:
                    await js.add_stream(name="S", subjects=["s.>"], num_replicas=3)
                except errors.Error:  # The cluster has no leader yet.
                    return False
                return True

            await until(made, 60)

            async def stream_leader() -> str | None:
                found = (await js.stream_info("S")).cluster
                return found.leader if found else None

            async def consumer_leader() -> str | None:
                found = (await js.consumer_info("S", "d")).cluster
                return found.leader if found else None

            of_stream = Faults(js, servers, stream_leader)
            published = Published(js, of_stream)
            await published.run(count, kills, stops)

            async def consumer_made() -> bool:
                try:
                    await js.add_consumer(
                        "S", durable_name="d", ack_wait=5, max_ack_pending=5_000, ack_policy="explicit"
                    )
                except errors.Error:  # The cluster's leader may still be changing.
                    return False
                return True

            await until(consumer_made, 60)
            of_consumer = Faults(js, servers, consumer_leader)
            patient = nc.jetstream(timeout=30)
            seen = await fetching(patient, of_consumer, len(published.places), kills, stops)
            stored = await places(patient, "S")
    acked = published.places
    wrong = sum(stored.get(seq) != int(text) for text, seq in acked.items())
    return [
        said("messages", len(acked)),
        said("leaders broken", len(of_stream.elections) + len(of_consumer.elections)),
        Figure("acknowledged and lost, or elsewhere", wrong, 0),
        Figure("stored twice", len(stored) - len(set(stored.values())), 0),
        Figure("not fetched", len(stored.keys() - seen.keys()), 0),
        said("fetched again", seen.total() - len(seen)),
        Figure("tries of a message", published.most_tries, 20),
        said("election", max(of_stream.elections + of_consumer.elections), "s"),
        Figure("publishing again after it", max(of_stream.recovered), 1, "s"),
        said("fetching again after it", max(of_consumer.recovered), "s"),
    ]
