"""Each finding of `js.doctor` about consumers, planted on a real server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import jetarrow
import pytest
from jetarrow.jetstream.doctor.finding import Finding
from jetarrow.jetstream.doctor.thresholds import Thresholds
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from ..tools import until

# No time without activity is short enough.
AT_ONCE = Thresholds(idle=0, ephemeral_idle=0)


@pytest.fixture
async def filled(own: JetStreamContext) -> JetStreamContext:
    await own.add_stream(name="P", subjects=["p"])
    await own.publish_batch("p", [b"x"] * 500)
    return own


async def only(js: JetStreamContext, thresholds: Thresholds | None = None) -> Finding:
    (finding,) = await js.doctor("P", thresholds=thresholds)
    return finding


async def test_a_push_consumer_without_a_subscriber(filled: JetStreamContext) -> None:
    await filled.add_consumer("P", durable_name="C", deliver_subject="to.me")
    finding = await only(filled)
    assert (finding.severity, finding.object) == ("warning", "consumer P > C")
    assert "push consumer without a subscriber" in finding.problem


async def test_requests_without_permission_are_listed_as_not_checked() -> None:
    """They do not end the diagnosis."""
    config = """
        authorization { users: [
          {user: app, password: pw, permissions: {publish: {deny: ["$JS.API.INFO", "$JS.API.CONSUMER.LIST.P"]}}}
        ] }
    """
    with NatsServer(config=config) as server:
        async with await jetarrow.connect(server.url, user="app", password="pw", error_cb=ignore) as nc:
            js = nc.jetstream()
            for name in "PQ":
                await js.add_stream(name=name, subjects=[name])
                await js.add_consumer(name, durable_name="C", deliver_subject="to.me")
            found = await js.doctor()
            assert [one.object for one in found] == ["consumer Q > C"]
            assert [text.partition(":")[0] for text in found.not_checked[1:]] == [
                "limits of the account",
                "part of stream P",
            ]


async def ignore(_: Exception) -> None:
    """Permission violations are expected."""


async def test_a_pull_consumer_that_no_client_uses(filled: JetStreamContext) -> None:
    await filled.add_consumer("P", durable_name="C")
    assert list(await filled.doctor("P")) == []
    finding = await only(filled, AT_ONCE)
    assert "pull consumer without activity" in finding.problem
    assert "500 unprocessed messages" in finding.evidence
    sub = await filled.pull_subscribe_bind(stream="P", consumer="C")
    await sub.fetch(500)
    waiting = asyncio.ensure_future(sub.fetch(1, timeout=20))

    async def is_used() -> bool:
        return not any("activity" in one.problem for one in await filled.doctor("P", thresholds=AT_ONCE))

    await until(is_used)
    waiting.cancel()


async def test_ephemeral_consumers_left_behind(filled: JetStreamContext) -> None:
    for number in range(2):
        await filled.add_consumer("P", name=f"E{number}", inactive_threshold=3600)
    assert list(await filled.doctor("P")) == []
    finding = await only(filled, AT_ONCE)
    assert (finding.severity, finding.object) == ("warning", "stream P")
    assert "2 ephemeral consumers left behind" in finding.problem
    assert "E0, E1" in finding.evidence


async def test_a_consumer_that_lags(filled: JetStreamContext) -> None:
    await filled.add_consumer("P", durable_name="C")
    finding = await only(filled, Thresholds(lag=0.001))
    assert "lags by more than" in finding.problem
    assert "500 to deliver" in finding.evidence


async def test_a_lag_that_reaches_max_age(own: JetStreamContext) -> None:
    await own.add_stream(name="P", subjects=["p"], max_age=3600, duplicate_window=60)
    await own.publish("p", b"x")
    await own.add_consumer("P", durable_name="C")
    assert list(await own.doctor("P")) == []
    finding = await only(own, Thresholds(full=1e-9))
    assert (finding.severity, finding.object) == ("error", "consumer P > C")
    assert "deleted by max_age" in finding.problem


async def test_a_paused_consumer(filled: JetStreamContext) -> None:
    await filled.add_consumer("P", durable_name="C")
    await filled.pause_consumer("P", "C", datetime.now(UTC) + timedelta(hours=1))
    finding = await only(filled, AT_ONCE)
    assert (finding.severity, finding.problem) == ("info", "the consumer is paused")


@pytest.mark.parametrize("config", [{"max_ack_pending": 999}, {"max_ack_pending": 1000, "max_request_batch": 1001}])
async def test_max_ack_pending_below_the_batch(filled: JetStreamContext, config: dict[str, Any]) -> None:
    await filled.add_consumer("P", durable_name="C", **config)
    finding = await only(filled)
    assert "max_ack_pending is smaller than" in finding.problem
    assert list(await filled.doctor("P", thresholds=Thresholds(batch=100))) == [
        one for one in [finding] if "max_request_batch" in config
    ]


async def test_max_ack_pending_that_is_reached(filled: JetStreamContext) -> None:
    await filled.add_consumer("P", durable_name="C", max_ack_pending=50)
    sub = await filled.pull_subscribe_bind(stream="P", consumer="C")
    await sub.fetch(50)
    finding = await only(filled, Thresholds(measure=0.1))
    assert "max_ack_pending is reached" in finding.problem
    assert "50 unacknowledged of 50" in finding.evidence


async def test_waiting_requests_at_their_limit(own: JetStreamContext) -> None:
    await own.add_stream(name="P", subjects=["p"])
    await own.add_consumer("P", durable_name="C", max_waiting=2)
    subs = [await own.pull_subscribe_bind(stream="P", consumer="C") for _ in range(2)]
    waiting = [asyncio.ensure_future(sub.fetch(1, timeout=20)) for sub in subs]

    async def both() -> bool:
        return (await own.consumer_info("P", "C")).num_waiting == 2

    await until(both)
    finding = await only(own)
    assert "max_waiting is 100% full" in finding.problem
    for fetch in waiting:
        fetch.cancel()


async def acknowledge_slowly(js: JetStreamContext, **config: Any) -> asyncio.Task[None]:
    """Takes 500 messages at once, and acknowledges 50 a second in the background."""
    await js.add_consumer("P", durable_name="C", **config)
    sub = await js.pull_subscribe_bind(stream="P", consumer="C")
    batch = await sub.fetch(500)

    async def work() -> None:
        for msg in batch:
            await msg.ack()
            await asyncio.sleep(0.02)

    return asyncio.ensure_future(work())


@pytest.mark.parametrize("config", [{}, {"sample_freq": "100%"}])
async def test_ack_wait_below_the_time_to_the_ack(filled: JetStreamContext, config: dict[str, Any]) -> None:
    """500 messages at 50 a second take 10 s; the consumer without samples is judged by its counts."""
    task = await acknowledge_slowly(filled, ack_wait=0.2, **config)
    finding = await only(filled, Thresholds(measure=0.5))
    task.cancel()
    assert (finding.severity, finding.object) == ("warning", "consumer P > C")
    assert ("ack sample" in finding.evidence) == bool(config)
    assert "ack_wait" in finding.problem


async def test_ack_wait_above_the_time_to_the_ack(filled: JetStreamContext) -> None:
    task = await acknowledge_slowly(filled, ack_wait=30, sample_freq="100%")
    assert list(await filled.doctor("P", thresholds=Thresholds(measure=0.5))) == []
    task.cancel()


async def test_redelivered_messages_are_a_sign(filled: JetStreamContext) -> None:
    await filled.add_consumer("P", durable_name="C", max_ack_pending=20, ack_wait=0.1)
    sub = await filled.pull_subscribe_bind(stream="P", consumer="C")
    await sub.fetch(20)

    async def are_redelivered() -> bool:
        await sub.fetch(20)
        return ((await filled.consumer_info("P", "C")).num_redelivered or 0) >= 10

    await until(are_redelivered)
    finding, *_ = [one for one in await filled.doctor("P", thresholds=Thresholds(measure=0)) if "redel" in one.problem]
    assert (finding.severity, "redelivered" in finding.problem) == ("warning", True)


async def test_the_position_of_a_durable_consumer_in_memory(filled: JetStreamContext) -> None:
    await filled.add_consumer("P", durable_name="C", mem_storage=True)
    assert "position of a durable consumer is in memory" in (await only(filled)).problem
