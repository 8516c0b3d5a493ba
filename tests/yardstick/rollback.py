"""ROLLBACK: everything that keeps a position detects a restored older store, and no ordinary event is taken for one.

Rounds on one server and on three replicas; then restarts, kills, purges, expiries, deletes, compactions and leader
changes, with a mirror, after which all holders must continue; then the cost of the comparison.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import jetarrow
from jetarrow.jetstream import models
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.errors import StreamRolledBackError
from jetarrow.server import NatsServer

from ..tools import cluster, until
from .figures import Figure, said
from .kill_pub import quiet

FULL: dict[str, Any] = {"rounds": 50, "cluster_rounds": 5, "events": 1_000, "changes": 60, "reconnects": 100, "seed": 1}
SHORT: dict[str, Any] = {"rounds": 1, "cluster_rounds": 1, "events": 30, "changes": 3, "reconnects": 3, "seed": 2}
STREAM, MIRROR, BUCKET = "ROLLED", "MIRRORED", "B"
# Timeout in seconds for a holder to continue or to end.
PATIENCE = 60


async def connection(urls: Any) -> Any:
    return await jetarrow.connect(
        urls, error_cb=quiet, reconnect_time_wait=0.05, max_reconnect_attempts=-1, connect_timeout=5
    )


async def patiently(call: Callable[[], Awaitable[Any]]) -> Any:
    """Retries a call while a server recovers its streams or has no leader."""
    begin = time.monotonic()
    while True:
        try:
            return await call()
        except (jetarrow.errors.Error, OSError):
            if time.monotonic() - begin > PATIENCE:
                raise
            await asyncio.sleep(0.05)


async def publish(js: JetStreamContext, count: int, word: str) -> int:
    """Publishes `count` messages and keys; returns the last sequence.

    A message that was stored and not acknowledged may be stored twice.
    """
    last = 0
    kv = await patiently(lambda: js.key_value(BUCKET))
    for number in range(count):
        last = (await patiently(lambda: js.publish(f"{STREAM}.a", word.encode(), timeout=2))).seq
        await patiently(partial(kv.put, f"k{number % 20}", word.encode()))
    return last


class Holder:
    """Something that keeps a position: the last sequence that it saw, and the error that it ended with."""

    def __init__(self, name: str, positions: Any) -> None:
        self.name, self.seen, self.error = name, 0, None
        self._positions = positions
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            async for seq in self._positions:
                self.seen = max(self.seen, seq)
        except jetarrow.errors.Error as error:
            self.error: BaseException | None = error

    async def until(self, seq: int) -> None:
        await until(lambda: self.seen >= seq or self.task.done(), PATIENCE)


async def _read(js: JetStreamContext, stream: str) -> Any:
    async with js.read(stream, follow=True, columns=("seq",)) as reader:
        async for batch in reader:
            yield batch.seqs.to_pylist()[-1]


async def _ordered(js: JetStreamContext) -> Any:
    async for msg in js.ordered_consumer(STREAM):
        yield msg.seq


async def _watched(js: JetStreamContext) -> Any:
    kv = await patiently(lambda: js.key_value(BUCKET))
    async with await patiently(kv.watchall) as watcher:
        async for entry in watcher:
            if entry is not None:
                yield entry.revision


class Holders:
    """All holders, on one connection of their own, and a sink that is run repeatedly."""

    def __init__(self, js: JetStreamContext, folder: Path, *, mirrored: bool) -> None:
        self.js, self.folder = js, folder
        self.stream = [Holder("reader", _read(js, STREAM)), Holder("ordered consumer", _ordered(js))]
        if mirrored:
            self.stream.append(Holder("reader of a mirror", _read(js, MIRROR)))
        self.watch = Holder("watch", _watched(js))
        self.sink_error: BaseException | None = None

    @property
    def all(self) -> list[Holder]:
        return [*self.stream, self.watch]

    async def until(self, seq: int) -> None:
        revision = (await patiently(lambda: self.js.stream_info(f"KV_{BUCKET}"))).state.last_seq
        for holder in self.stream:
            await holder.until(seq)
        await self.watch.until(revision)

    async def sink(self) -> None:
        try:
            await self.js.to_parquet(STREAM, self.folder).run()
        except StreamRolledBackError as error:
            self.sink_error = error

    async def end(self) -> list[BaseException]:
        """Stops all holders; returns the errors that they ended with."""
        errors = [error for error in [*(holder.error for holder in self.all), self.sink_error] if error is not None]
        for holder in self.all:
            holder.task.cancel()
        await asyncio.gather(*(holder.task for holder in self.all), return_exceptions=True)
        return errors


async def prepare(js: JetStreamContext, replicas: int) -> None:
    await patiently(lambda: js.add_stream(name=STREAM, subjects=[f"{STREAM}.>"], num_replicas=replicas))
    await patiently(lambda: js.create_key_value(bucket=BUCKET, history=3, replicas=replicas))
    mirror = models.StreamConfig(name=MIRROR, mirror=models.StreamSource(name=STREAM), num_replicas=replicas)
    await patiently(lambda: js.add_stream(mirror))


async def one_rollback(servers: list[NatsServer], dice: random.Random) -> tuple[int, int]:
    """Returns the number of holders, and of those that did not detect the rollback."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls = [server.url for server in servers]
        nc, other = [await stack.enter_async_context(await connection(urls)) for _ in range(2)]
        await prepare(other.jetstream(), len(servers))
        await publish(other.jetstream(), dice.randrange(1, 30), "common")
        for server in servers:
            await asyncio.to_thread(server.stop)
        for number, server in enumerate(servers):
            shutil.copytree(server.store_dir, folder / str(number))
        for server in servers:
            await asyncio.to_thread(server.start)
        last = await publish(other.jetstream(), dice.randrange(1, 30), "gone")
        holders = Holders(nc.jetstream(), folder / "archive", mirrored=False)
        await holders.until(last)
        await patiently(holders.sink)
        for server in servers:
            await asyncio.to_thread(server.kill)
        for number, server in enumerate(servers):
            shutil.rmtree(server.store_dir)
            shutil.copytree(folder / str(number), server.store_dir)
        for server in servers:
            await asyncio.to_thread(server.start)
        await publish(other.jetstream(), dice.choice([0, 1, 10, 60]), "new")
        for holder in holders.all:
            await until(holder.task.done, PATIENCE)
        await patiently(holders.sink)
        found = await holders.end()
        noticed = sum(isinstance(error, StreamRolledBackError) for error in found)
        return len(holders.all) + 1, len(holders.all) + 1 - noticed


class Ordinary:
    """Ordinary events of a server, which are no rollbacks."""

    def __init__(self, server: NatsServer, js: JetStreamContext, dice: random.Random) -> None:
        self.server, self.js, self.dice = server, js, dice
        self.kinds = {
            "restart": self.restart,
            "kill": self.kill,
            "purge": self.purge,
            "expiry": self.expiry,
            "limit": self.limit,
            "delete": self.delete,
            "compaction": self.compaction,
        }

    async def restart(self) -> None:
        await asyncio.to_thread(self.server.stop)
        await asyncio.to_thread(self.server.start)

    async def kill(self) -> None:
        await asyncio.to_thread(self.server.kill)
        await asyncio.to_thread(self.server.start)

    async def purge(self) -> None:
        await self.js.purge_stream(STREAM, keep=self.dice.choice([None, 1, 5]))
        await self.js.purge_stream(f"KV_{BUCKET}", keep=self.dice.choice([None, 1, 5]))

    async def expiry(self) -> None:
        await self._limited(max_age=0.1, duplicate_window=0.1)

    async def limit(self) -> None:
        await self._limited(max_msgs=1)

    async def _limited(self, **limit: Any) -> None:
        config = (await self.js.stream_info(STREAM)).config
        await self.js.update_stream(config, **limit)
        await until(lambda: self._at_most(1), PATIENCE)
        await self.js.update_stream(config)

    async def _at_most(self, count: int) -> bool:
        return (await self.js.stream_info(STREAM)).state.messages <= count

    async def delete(self) -> None:
        for stream in (STREAM, f"KV_{BUCKET}"):
            state = (await self.js.stream_info(stream)).state
            # The newest mark is that of the last message.
            for seq in {state.last_seq, self.dice.randrange(state.first_seq, state.last_seq + 1)}:
                try:
                    await self.js.delete_msg(stream, seq)
                except jetarrow.errors.Error:
                    continue

    async def compaction(self) -> None:
        await self.js.publish(f"{STREAM}.a", b"all", headers={"Nats-Rollup": "all"})
        kv = await self.js.key_value(BUCKET)
        for key in await kv.keys():
            await kv.purge(key)


async def false_alarms(events: int, dice: random.Random) -> list[Figure]:
    """Runs `events` ordinary events on one server; after each, all holders must continue."""
    async with AsyncExitStack() as stack:
        server = stack.enter_context(NatsServer())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        nc, other = [await stack.enter_async_context(await connection(server.url)) for _ in range(2)]
        js = other.jetstream()
        await prepare(js, 1)
        config = (await js.stream_info(STREAM)).config
        await js.update_stream(config, allow_rollup_hdrs=True)
        holders = Holders(nc.jetstream(), folder / "archive", mirrored=True)
        ordinary = Ordinary(server, js, dice)
        for _ in range(events):
            await holders.until(await publish(js, dice.randrange(1, 4), "word"))
            await patiently(holders.sink)
            kind = dice.choice(list(ordinary.kinds))
            await patiently(ordinary.kinds[kind])
            if dice.randrange(3) == 0:
                await nc.force_reconnect()
        await holders.until(await publish(js, 1, "word"))
        await patiently(holders.sink)
        return [said("ordinary events", events), Figure("false alarms", len(await holders.end()), 0)]


async def leader_changes(changes: int, dice: random.Random) -> list[Figure]:
    """Three replicas: the leaders step down, or a server is killed and restarted."""
    async with AsyncExitStack() as stack:
        servers = stack.enter_context(cluster())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls = [server.url for server in servers.values()]
        nc, other = [await stack.enter_async_context(await connection(urls)) for _ in range(2)]
        js = other.jetstream()
        await prepare(js, 3)
        holders = Holders(nc.jetstream(), folder / "archive", mirrored=True)
        for _ in range(changes):
            await holders.until(await publish(js, dice.randrange(1, 4), "word"))
            await patiently(holders.sink)
            if dice.randrange(3):
                for stream in (STREAM, f"KV_{BUCKET}"):
                    await patiently(partial(other.request, f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}"))
                await nc.force_reconnect()
            else:
                server = servers[dice.choice(list(servers))]
                await asyncio.to_thread(server.kill)
                await publish(js, 1, "word")
                await asyncio.to_thread(server.start)
        await holders.until(await publish(js, 1, "word"))
        await patiently(holders.sink)
        return [said("leader changes", changes), Figure("false alarms among them", len(await holders.end()), 0)]


async def cost(reconnects: int) -> Figure:
    """Messages that are looked up for each holder, at each start and reconnect."""
    async with AsyncExitStack() as stack:
        server = stack.enter_context(NatsServer())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        nc, other = [await stack.enter_async_context(await connection(server.url)) for _ in range(2)]
        js, gets = other.jetstream(), 0

        async def count(_: Any) -> None:
            nonlocal gets
            gets += 1

        for subject in ("$JS.API.STREAM.MSG.GET.>", "$JS.API.DIRECT.GET.>"):
            await other.subscribe(subject, cb=count)
        await prepare(js, 1)
        last = await publish(js, 20, "word")
        gets = 0
        holders = Holders(nc.jetstream(), folder / "archive", mirrored=True)
        await holders.until(last)
        await holders.sink()
        for _ in range(reconnects):
            await nc.force_reconnect()
            # A message stored afterwards is read once the position has been compared.
            await holders.until(await publish(js, 1, "word"))
            await holders.sink()
        assert not await holders.end()
        await other.flush()
        return Figure(
            "looked up for a holder at a start or reconnect", gets / (len(holders.all) + 1) / (reconnects + 1), 1
        )


@contextmanager
def single() -> Iterator[dict[str, NatsServer]]:
    with NatsServer() as server:
        yield {"n0": server}


async def measure(
    rounds: int, cluster_rounds: int, events: int, changes: int, reconnects: int, seed: int
) -> list[Figure]:
    dice = random.Random(seed)
    held = missed = 0
    for number in range(rounds + cluster_rounds):
        with cluster() if number >= rounds else single() as servers:
            found = await one_rollback(list(servers.values()), dice)
        held, missed = held + found[0], missed + found[1]
    return [
        said("rollbacks", rounds),
        said("of three replicas", cluster_rounds),
        said("positions", held),
        Figure("not noticed", missed, 0),
        *await false_alarms(events, dice),
        *await leader_changes(changes, dice),
        await cost(reconnects),
    ]
