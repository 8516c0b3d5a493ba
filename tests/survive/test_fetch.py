"""Fetching while the server is killed, the event loop is blocked, or calls are cancelled."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack

import jetarrow
import pytest
from jetarrow.aio.msg import Msg
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from ..tools import store, until
from ..yardstick import bulk, kill_fetch
from ..yardstick.figures import check
from .proxy import Proxy

COUNT = 100_000


async def fill_stream(js: JetStreamContext, size: int = 100) -> None:
    await js.add_stream(name="S", subjects=["s.>"])
    await store(js, "s.a", [bytes(size)] * COUNT)


@pytest.mark.parametrize(
    "confirm", [pytest.param(False, marks=pytest.mark.slow, id="ack"), pytest.param(True, id="ack_sync")]
)
async def test_kills_while_fetching_and_acknowledging(own_server: NatsServer, confirm: bool) -> None:
    """No message is lost. Only messages in flight, or whose acks the server had not persisted, are redelivered."""
    check(await kill_fetch.fetch(own_server, confirm=confirm, **kill_fetch.SHORT))


async def test_blocked_loop_during_large_fetches(own_server: NatsServer) -> None:
    """All messages arrive; the consumer has no acks, so a dropped message would not be redelivered."""
    check(await bulk.fetch(own_server, bulk.SHORT["count"], "none", hog=False))


async def test_many_fetches_while_nothing_is_read(own_server: NatsServer) -> None:
    """Unread fetches stay below 64 MiB of pending data, at which the server disconnects the client.

    Without acks these messages would be lost.
    """
    calls = 12
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(Proxy(own_server.port))
        direct = (await stack.enter_async_context(await jetarrow.connect(own_server.url))).jetstream()
        nc = await stack.enter_async_context(await jetarrow.connect(proxy.url))
        await direct.add_stream(name="S", subjects=["s.>"])
        for _ in range(4):
            await store(direct, "s.a", [bytes(8_192)] * 5_000)
        sub = await nc.jetstream().pull_subscribe("s.>", durable="d", ack_policy="none")
        part, delivered = 20_000 // calls, [0]

        async def stands_still() -> bool:
            info = await direct.consumer_info("S", "d")
            before, delivered[0] = delivered[0], info.delivered.consumer_seq if info.delivered else 0
            return 0 < before == delivered[0]

        proxy.reading.clear()
        tasks = [asyncio.ensure_future(sub.fetch_batch(part, timeout=100, min_messages=part)) for _ in range(calls)]
        await until(stands_still)
        assert delivered[0] < 20_000, "all of it was written: this proves nothing"
        proxy.reading.set()
        batches = await asyncio.gather(*tasks)
        assert sorted(seq or 0 for batch in batches for seq in batch.seqs.to_pylist()) == list(
            range(1, calls * part + 1)
        )
        assert nc.stats["reconnects"] == 0
    assert "Slow Consumer" not in own_server.log


@pytest.mark.parametrize(
    "ahead", [pytest.param(False, marks=pytest.mark.slow, id="messages"), pytest.param(True, id="consume")]
)
async def test_blocked_loop_during_iteration(own_server: NatsServer, ahead: bool) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream()
        await fill_stream(js, size=1024)
        sub = await js.pull_subscribe("s.>", ack_policy="none")
        seen = []
        begin = time.monotonic()
        async for msg in sub.consume(5_000) if ahead else sub.messages:
            seen.append(msg.seq)
            if len(seen) in (COUNT // 4, COUNT // 2):
                # Runs in the loop's next iteration, when the next request has been sent.
                asyncio.get_running_loop().call_soon(time.sleep, 1.5)
            if len(seen) == COUNT:
                break
        assert time.monotonic() - begin > 3
        assert seen == list(range(1, COUNT + 1))
        assert "Slow Consumer" not in own_server.log


@pytest.mark.parametrize("verb", ["fetch", "fetch_batch"])
async def test_200_cancelled_fetches(own_server: NatsServer, verb: str) -> None:
    """Fetches that are cancelled while they wait, receive or return leave no message undelivered.

    `ack_wait` is longer than the test, so that redelivered messages were released by the cancelled fetches.
    """
    rng = random.Random(verb)
    count, most = 20_000, 50
    acked: set[int | None] = set()
    ends: Counter[str] = Counter()
    async with await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        sub = await js.pull_subscribe("s.>", durable="d", ack_wait=600, max_ack_pending=100_000)

        begun = asyncio.Event()

        async def work(delay: float) -> None:
            """Makes one fetch, and cancels it `delay` seconds after publishing begins unless it has ended before."""
            call = sub.fetch(most, timeout=60) if verb == "fetch" else sub.fetch_batch(most, timeout=60)
            task: asyncio.Task[Iterable[Msg]] = asyncio.ensure_future(call)
            await begun.wait()
            await asyncio.sleep(delay)
            task.cancel()
            try:
                found = await task
            except asyncio.CancelledError:
                ends["cancelled"] += 1
                return
            ends["over"] += 1
            ends["again"] += sum(bool(msg.redelivered) for msg in found)
            acked.update(msg.seq for msg in found)
            await asyncio.gather(*(msg.ack() for msg in found))

        # A hundred fetches wait when the messages arrive; the later ones find stored messages.
        waiting = [asyncio.ensure_future(work(rng.uniform(0, 0.5))) for _ in range(100)]
        while ((await sub.consumer_info()).num_waiting or 0) < 50:
            await asyncio.sleep(0.01)
        begun.set()
        (await js.publish_batch("s.a", [b"x"] * count)).raise_for_errors()
        await asyncio.gather(*waiting)
        while ends["cancelled"] < 200:
            await asyncio.gather(*(work(rng.uniform(0, 0.01)) for _ in range(10)))
        other = await js.pull_subscribe("s.>", durable="d")
        rest: set[int | None] = set()
        begin = time.monotonic()
        while len(rest) + len(acked) < count and time.monotonic() < begin + 60:
            batch = await other.fetch_batch(count, timeout=1, columns=["seq", "delivered"])
            rest.update(batch.seqs.to_pylist())
            ends["again"] += sum(times > 1 for times in batch.to_pyarrow().column("delivered").to_pylist())
            await batch.ack_sync()
        assert rest | acked == set(range(1, count + 1))
        assert not rest & acked
        assert ends["again"], "no cancelled fetch had received anything"
        while (info := await sub.consumer_info()).num_ack_pending or info.num_waiting:
            assert time.monotonic() < begin + 60, info
            await asyncio.sleep(0.01)
