"""JetStream advisories."""

from __future__ import annotations

import asyncio
import gc
import json
from datetime import UTC, datetime, timedelta

import jetarrow
import jetarrow.sync
import nats
import pytest
from jetarrow.js.api import Advisory, AdvisoryKind
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .tools import connections, free_port, until

WAIT = 10


async def test_stream_and_consumer_actions_are_reported(js: JetStreamContext, nats_url: str, stream: str) -> None:
    name = f"{stream}A"
    async with js.advisories(name) as events, await jetarrow.connect(nats_url) as other:
        # Changes from another connection: the subscription is confirmed before the block begins.
        doer = other.jetstream()
        await doer.add_stream(name=name, subjects=[name])
        await doer.add_stream(name=f"{name}2", subjects=[f"{name}2"])
        await doer.add_consumer(name, durable_name="c")
        await doer.delete_consumer(name, "c")
        await doer.delete_stream(f"{name}2")
        await doer.delete_stream(name)
        seen: list[Advisory] = []
        async with asyncio.timeout(WAIT):
            async for event in events:
                seen.append(event)
                if event.data["type"].endswith("stream_action") and event.data["action"] == "delete":
                    break
    assert {event.stream for event in seen} == {name}
    told = [(event.kind, event.data["action"], event.consumer) for event in seen]
    assert told == [
        (AdvisoryKind.STREAM_ACTION, "create", None),
        (AdvisoryKind.CONSUMER_ACTION, "create", "c"),
        (AdvisoryKind.CONSUMER_ACTION, "delete", "c"),
        (AdvisoryKind.STREAM_ACTION, "delete", None),
    ]
    first = seen[0]
    assert first.type == "io.nats.jetstream.advisory.v1.stream_action"
    assert first.id
    assert first.timestamp is not None
    assert abs(datetime.now(UTC) - first.timestamp) < timedelta(minutes=1)


async def test_acks_terms_and_exceeded_deliveries_are_reported(js: JetStreamContext, stream: str) -> None:
    kinds = ["max_deliver", "TERMINATED", AdvisoryKind.ACK]
    async with js.advisories(kinds=kinds, stream=stream) as events:
        consumer = await js.stream(stream).create_consumer(durable_name="c", max_deliver=1, sample_freq="100%")
        await js.publish_batch(f"{stream}.a", [b"1", b"2", b"3"])
        acked, ended, again = await consumer.fetch(3)
        await acked.ack()
        await ended.term("no use")
        await again.nak()
        # The server publishes max_deliver when the next delivery is requested.
        asking = asyncio.create_task(consumer.fetch(timeout=2 * WAIT))
        found: dict[object, Advisory] = {}
        async with asyncio.timeout(WAIT):
            while len(found) < 3:
                event = await anext(events)
                found[event.kind] = event
        asking.cancel()
    assert set(found) == {AdvisoryKind.MAX_DELIVER, AdvisoryKind.TERMINATED, AdvisoryKind.ACK}
    assert found[AdvisoryKind.ACK].data["stream_seq"] == 1
    terminated = found[AdvisoryKind.TERMINATED]
    assert (terminated.consumer, terminated.data["stream_seq"], terminated.data["reason"]) == ("c", 2, "no use")
    assert found[AdvisoryKind.DELIVERY_EXCEEDED].data["stream_seq"] == 3


async def test_payloads_that_are_no_advisory_are_skipped(js: JetStreamContext, nats_url: str, stream: str) -> None:
    other = await nats.connect(nats_url)
    async with js.advisories(kinds="consumer_ack") as events:
        subject = "$JS.EVENT.METRIC.CONSUMER.ACK.X.c"
        for payload in (b"", b"\xff", b"[]", b"7", b'{"type": 7}', b'{"timestamp": "soon"}'):
            await other.publish(subject, payload)
        fake = {"type": "io.nats.jetstream.metric.v1.consumer_ack", "stream": "X", "consumer": "c"}
        await other.publish(subject, json.dumps(fake).encode())
        event = await asyncio.wait_for(anext(events), WAIT)
    await other.close()
    assert (event.kind, event.stream, event.consumer, event.data) == (AdvisoryKind.ACK, "X", "c", fake)


async def test_unknown_kinds(js: JetStreamContext, nats_url: str) -> None:
    with pytest.raises(ValueError, match="'api_audit', 'stream_action'"):
        js.advisories(kinds=["mouse"])
    other = await nats.connect(nats_url)
    async with js.advisories("X") as events:
        fake = {"type": "io.nats.jetstream.advisory.v9.brand_new", "stream": "X"}
        await other.publish("$JS.EVENT.ADVISORY.STREAM.NEW.X", json.dumps(fake).encode())
        assert (await asyncio.wait_for(anext(events), WAIT)).kind == "brand_new"
    await other.close()


async def test_iteration_ends_when_the_connection_closes(js: JetStreamContext, nats_url: str) -> None:
    nc = await jetarrow.connect(nats_url)
    events = nc.jetstream().advisories(kinds="api_audit")
    listening = asyncio.Event()

    async def watch() -> int:
        count = 0
        async for event in events:
            assert event.kind is AdvisoryKind.API
            count += 1
            listening.set()
        return count

    task = asyncio.create_task(watch())
    while not listening.is_set():
        # The task subscribes in its first step.
        await js.account_info()
    await nc.close()
    assert await asyncio.wait_for(task, WAIT) >= 1
    await events.close()


async def test_leaving_the_loop_ends_the_interest() -> None:
    monitor = free_port()
    with NatsServer(config=f"http: 127.0.0.1:{monitor}\n") as server:
        await leave_the_loop(server.url, monitor)


async def leave_the_loop(url: str, monitor: int) -> None:
    async def interest() -> list[str]:
        (one,) = await asyncio.to_thread(connections, monitor)
        return [subject for subject in one.get("subscriptions_list", []) if subject.startswith("$JS.EVENT")]

    async with await jetarrow.connect(url) as nc:
        js = nc.jetstream()
        config = (await js.add_stream(name="S", subjects=["s.>"])).config

        async def one() -> Advisory:
            async for event in js.advisories(kinds="stream_action"):
                return event
            raise AssertionError

        task = asyncio.create_task(one())
        await until(interest)
        await js.update_stream(config)
        assert (await task).data["action"] == "modify"
        del task
        gc.collect()

        async def left() -> bool:
            return not await interest()

        await until(left)


def test_sync_twin(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    name = f"{stream}S"
    with sync_js.advisories(name, kinds="stream_action") as events:
        sync_js.add_stream(name=name, subjects=[name])
        sync_js.delete_stream(name)
        actions = []
        for event in events:
            actions.append(event.data["action"])
            if len(actions) == 2:
                break
        sync_js.add_stream(name=name, subjects=[name])
        assert next(events).data["action"] == "create"
        sync_js.delete_stream(name)
    assert actions == ["create", "delete"]
