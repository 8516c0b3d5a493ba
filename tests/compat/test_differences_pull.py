"""Intended differences from nats-py of pull subscriptions. MIGRATION.md names each test, with the reason."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import pytest

from .face import Collector, Face, asked, spread
from .pull_proxy import PullProxy

SIZES = pytest.mark.parametrize("batch", [1, 5])


@pytest.fixture
async def nc(ours: Face) -> Any:
    return await ours.connect()


@SIZES
@pytest.mark.parametrize("heartbeat", [0.2, None])
async def test_a_lost_pull_request_is_sent_again(
    ours: Face, nats_url: str, js: Any, stream: str, batch: int, heartbeat: float | None
) -> None:
    # nats-py: waits until the timeout, although heartbeats are missing. Without `heartbeat` jetarrow requests some too.
    await js.add_consumer(stream, durable_name="work", ack_policy="explicit")
    async with PullProxy(urlsplit(nats_url).port or 0) as proxy:
        behind = (await ours.connect(proxy.url)).jetstream()
        sub = await behind.pull_subscribe_bind("work", stream=stream)
        proxy.loses = True
        waiting = asyncio.create_task(sub.fetch(batch, timeout=8, heartbeat=heartbeat))
        await proxy.lost.wait()
        await spread(js, stream, 1)
        assert [msg.data for msg in await waiting] == [b"0"]


async def test_heartbeats_of_a_fetch_without_a_timeout(js: Any, stream: str) -> None:
    # nats-py: APIError "heartbeat value too large", as its request has no expiry.
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    waiting = asyncio.create_task(sub.fetch(1, timeout=None, heartbeat=0.5))
    await asked(sub, 1)
    await spread(js, stream, 1)
    assert [msg.data for msg in await waiting] == [b"0"]


async def test_a_heartbeat_of_half_the_timeout(ours: Face, js: Any, stream: str) -> None:
    # nats-py: APIError "heartbeat value too large", as its request expires a little before the timeout.
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    assert await ours.failure(sub.fetch(1, timeout=0.4, heartbeat=0.2)) == "js.errors.FetchTimeoutError"
    # nats-py: sent, and ignored by the server.
    assert await ours.failure(sub.fetch(1, timeout=0.4, heartbeat=-1)) == "ValueError"


@pytest.mark.parametrize(
    "limit", [{"pending_msgs_limit": 4}, {"pending_bytes_limit": 400}], ids=lambda it: next(iter(it))
)
async def test_pending_limits_of_a_pull_subscription(ours: Face, js: Any, stream: str, limit: dict[str, int]) -> None:
    # nats-py: drops the messages beyond them with a SlowConsumerError each, and waits for the timeout. The server
    # redelivers them after `ack_wait`.
    for number in range(10):
        await js.publish(f"{stream}.a", b"%d" % number + b"x" * 59)
    errors = Collector()
    limited = (await ours.connect(error_cb=errors.callback)).jetstream()
    sub = await limited.pull_subscribe(f"{stream}.>", durable="work", **limit)
    found: list[int] = []
    while len(found) < 10:
        found += [int(msg.data[:1]) for msg in await sub.fetch(10, timeout=5)]
    assert (found, errors.all) == (list(range(10)), [])
