"""The examples of the document on nats.js, translated to Python, work with a real server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.errors import BadSubscriptionError
from jetarrow.js.api import ConsumerConfig, ErrorCode, PubAck, PurgeResponse, StreamConfig
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import BadRequestError, Error, NotFoundError
from jetarrow.server import NatsServer

from ..tools import fill, fill_subjects


@pytest.fixture
async def js(nats_url: str) -> AsyncIterator[JetStreamContext]:
    async with await jetarrow.connect(nats_url) as nc:
        yield nc.jetstream()


async def test_publishing(js: JetStreamContext, stream: str) -> None:
    order = {"orderId": "ord-123", "amount": 99.99}
    ack = await js.publish(f"{stream}.created", json.dumps(order))
    assert (ack.stream, ack.seq, ack.duplicate, ack.domain) == (stream, 1, False, None)
    for expected in (False, True):
        ack = await js.publish(f"{stream}.created", b"x", msg_id="order-1", timeout=10)
        assert (ack.seq, ack.duplicate) == (2, expected)
    with pytest.raises(BadRequestError) as info:
        await js.publish(f"{stream}.updated", b"x", expected_last_subject_seq=42)
    assert info.value.err_code == ErrorCode.STREAM_WRONG_LAST_SEQUENCE == 10071
    ack = await js.publish(
        f"{stream}.updated", b"x", headers={"source": "order-service", "version": "1.0"}, msg_id="update-7"
    )
    found = await js.get_msg(stream, ack.seq)
    assert (found.headers or {})["source"] == "order-service"
    assert PubAck("S", 1) == PubAck("S", 1, duplicate=False)


async def test_a_durable_push_consumer_with_a_subject_of_its_own(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3)
    sub = await js.subscribe(f"{stream}.*", durable="user-processor", deliver_subject=f"process.{stream}")
    data = []
    async for msg in sub:
        data.append(msg.data)
        await msg.ack_sync(timeout=20)
        if len(data) == 3:
            break
    assert data == [b"1", b"2", b"3"]
    info = await sub.consumer_info()
    assert (info.config.deliver_subject, info.config.filter_subject) == (f"process.{stream}", f"{stream}.*")
    assert not sub.is_closed
    await sub.destroy()
    assert sub.is_closed
    await asyncio.wait_for(sub.closed, 20)
    with pytest.raises(NotFoundError):
        await js.consumer_info(stream, "user-processor")
    # A second call succeeds, because the consumer is already deleted.
    await sub.destroy()


@pytest.mark.parametrize("push", [True, False])
async def test_filter_subject_overrides_subject(js: JetStreamContext, stream: str, push: bool) -> None:
    await fill_subjects(js, stream, ["info", "error.disk", "error.net", "info"])
    wanted = f"{stream}.error.*"
    if push:
        sub = await js.subscribe(f"{stream}.*", stream=stream, filter_subject=wanted)
        first = await sub.next_msg(5)
        info = await sub.consumer_info()
    else:
        pulled = await js.pull_subscribe(f"{stream}.*", stream=stream, config=ConsumerConfig(filter_subject=wanted))
        first = (await pulled.fetch(1))[0]
        info = await pulled.consumer_info()
    assert (first.subject, info.config.filter_subject) == (f"{stream}.error.disk", wanted)


async def test_an_existing_durable_with_another_subject(js: JetStreamContext, stream: str) -> None:
    one, other = f"{stream}.one", f"{stream}.other"
    await js.subscribe(one, durable="d", queue="q")
    await js.subscribe(one, durable="d", queue="q")
    with pytest.raises(Error, match=r"subject does not match consumer 'd'.*one, not .*other"):
        await js.subscribe(other, durable="d", queue="q")
    with pytest.raises(Error, match="subject does not match consumer"):
        await js.subscribe(one, durable="d", queue="q", filter_subject=other)
    await js.pull_subscribe(one, durable="p")
    with pytest.raises(Error, match="subject does not match"):
        await js.pull_subscribe(other, durable="p")
    # A consumer without a filter delivers every subject.
    await js.add_consumer(stream, durable_name="all", deliver_subject=f"d.{stream}")
    await js.subscribe(one, durable="all", stream=stream)


async def test_fetch_and_consume_by_name(js: JetStreamContext, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    await fill(js, stream, 20)
    await js.add_consumer(stream, durable_name="worker")
    fetched = await js.fetch(stream, "worker", 5, timeout=5)
    assert [msg.data for msg in fetched] == [b"1", b"2", b"3", b"4", b"5"]
    assert [msg.data for msg in await js.fetch(stream, "worker", max_messages=2, no_wait=True)] == [b"6", b"7"]
    more = []
    async for msg in js.consume(stream, "worker", 3):
        more.append(int(msg.data))
        await msg.ack_sync(timeout=20)
        if len(more) == 4:
            break
    assert more == [8, 9, 10, 11]
    with pytest.raises(NotFoundError):
        await js.fetch(stream, "nobody")
    assert len(sync_js.fetch(stream, "worker", 1)) == 1
    assert next(sync_js.consume(stream, "worker")).data


async def test_pull_and_iterate(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 6)
    sub = await js.pull_subscribe(f"{stream}.>", durable="event-worker")
    sub.pull(batch=4, max_wait=5)
    got = []
    async for msg in sub:
        got.append((msg.seq, msg.info.pending, msg.info.redelivered))
        await msg.ack()
        if msg.info.pending == 2:
            sub.pull(2, idle_heartbeat=0.5)
        if len(got) == 6:
            break
    assert got == [(1, 5, False), (2, 4, False), (3, 3, False), (4, 2, False), (5, 1, False), (6, 0, False)]
    with pytest.raises(TypeError, match="pass one of them"):
        sub.pull(1, expires=1, max_wait=1)


async def test_pull_no_wait_ends_when_stream_has_no_more_messages(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3)
    sub = await js.pull_subscribe(f"{stream}.>")
    sub.pull(10, no_wait=True)
    sub.pull(1, expires=20)
    got: list[bytes] = []
    began = time.monotonic()
    async for msg in sub:
        got.append(msg.data)
        if len(got) == 3:
            # The first pull has ended, and the second one waits.
            await js.publish(f"{stream}.a", b"4")
        if len(got) == 4:
            break
    assert (got, time.monotonic() - began < 20) == ([b"1", b"2", b"3", b"4"], True)


async def test_pull_within_bytes(js: JetStreamContext, stream: str) -> None:
    for _ in range(6):
        await js.publish(f"{stream}.a", bytes(1000))
    sub = await js.pull_subscribe(f"{stream}.>")
    # Two messages fit, and a third one does not. The pull ends then, although its batch is not complete.
    sub.pull(6, max_bytes=2800, expires=30)
    sub.pull(1)
    got = []
    async for msg in sub:
        got.append(msg.seq)
        if len(got) == 3:
            break
    assert got == [1, 2, 3]
    with pytest.raises(ValueError, match="max_bytes"):
        sub.pull(1, max_bytes=0)


async def test_the_end_of_a_pull_subscription(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 10)
    sub = await js.pull_subscribe(f"{stream}.>", durable="end")
    assert not sub.is_closed
    await sub.unsubscribe(limit=4)
    assert not sub.is_closed
    assert [msg.seq async for msg in sub.messages] == [1, 2, 3, 4]
    assert (sub.is_closed, sub.delivered) == (True, 4)
    await asyncio.wait_for(sub.closed, 20)
    with pytest.raises(BadSubscriptionError):
        await sub.fetch(1)

    waiting = await js.pull_subscribe(f"{stream}.none", durable="waits")
    ended = asyncio.ensure_future(anext(aiter(waiting.messages)))
    closed = asyncio.ensure_future(_seen(waiting.closed))
    await asyncio.sleep(0)
    await waiting.drain()
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(ended, 20)
    await asyncio.wait_for(closed, 20)
    with pytest.raises(BadSubscriptionError):
        await waiting.drain()
    assert (await js.consumer_info(stream, "waits")).name == "waits"
    await waiting.destroy()
    with pytest.raises(NotFoundError):
        await js.consumer_info(stream, "waits")


async def _seen(ending: object) -> None:
    await ending  # type: ignore[misc]


async def test_a_limit_of_batches(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 10)
    consumer = await js.stream(stream).create_consumer(durable_name="c")
    await consumer.unsubscribe(limit=5)
    sizes = [len(batch) async for batch in consumer.batches(3, min_messages=3)]
    assert (sizes, consumer.is_closed) == ([3, 2], True)


async def test_drain_during_iteration_delivers_buffered_messages(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 10)
    sub = await js.pull_subscribe(f"{stream}.>", durable="drained")
    got = []
    async for msg in sub.consume(5):
        got.append(msg.seq)
        if len(got) == 2:
            await sub.drain()
    assert got == [1, 2, 3, 4, 5]


async def test_connection_close_closes_subscriptions(nats_url: str, stream: str) -> None:
    nc = await jetarrow.connect(nats_url)
    js = nc.jetstream()
    subs = [await js.pull_subscribe(f"{stream}.>"), await js.subscribe(f"{stream}.>")]
    closed = [asyncio.ensure_future(_seen(sub.closed)) for sub in subs]
    await asyncio.sleep(0)
    await nc.close()
    await asyncio.wait_for(asyncio.gather(*closed), 20)
    assert [sub.is_closed for sub in subs] == [True, True]


def test_sync_subscriptions_set_closed_event(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sync_js.publish(f"{stream}.a", b"x")
    sub = sync_js.pull_subscribe(f"{stream}.>", durable="c")
    assert not sub.closed.wait(0)
    sub.unsubscribe(limit=1)
    assert [msg.data for msg in sub.messages()] == [b"x"]
    assert sub.closed.wait(5)
    push = sync_js.subscribe(f"{stream}.>")
    push.destroy()
    assert (push.is_closed, push.closed.wait(5)) == (True, True)


async def test_message_info_contains_delivery_metadata(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 2)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d")
    msg = (await sub.fetch(1))[0]
    info = msg.info
    assert (info.stream, info.consumer, info.domain) == (stream, "d", None)
    assert (info.stream_sequence, info.consumer_sequence, info.delivery_count, info.delivery_sequence) == (1, 1, 1, 1)
    assert (info.pending, info.redelivered) == (1, False)
    await (await sub.fetch(1))[0].ack()
    await msg.nak()
    again = (await sub.fetch(1))[0].info
    assert (again.stream_sequence, again.consumer_sequence, again.delivery_count, again.redelivered) == (1, 3, 2, True)
    assert info.timestamp_nanos // 1000 == int(info.timestamp.timestamp() * 1e6 + 0.5)


async def test_the_manager(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        jsm = await nc.jetstream_manager()
        day = 24 * 60 * 60
        made = await jsm.add_stream(
            name="events", subjects=["events.*"], max_msgs=100_000, max_age=day, duplicate_window=300
        )
        assert made.config.name == "events"
        js = jsm.jetstream()
        for number in range(30):
            await js.publish("events.a", b"%d" % number)
        account = await jsm.account_info()
        state = (await jsm.stream_info("events")).state
        assert (account.streams, account.messages, account.bytes) == (1, 30, state.bytes)
        assert (await jsm.account_info(totals=False)).messages is None
        changed = await jsm.update_stream("events", max_msgs=50)
        assert (changed.config.max_msgs, changed.config.max_age) == (50, day)
        assert changed.config.subjects == ["events.*"]
        response = await jsm.purge_stream("events", keep=10)
        assert (response.purged, response.success, bool(response)) == (20, True, True)
        assert response == PurgeResponse(True, 20)
        with pytest.raises(NotFoundError):
            await jsm.update_stream("none", max_msgs=1)


async def test_options_of_a_manager(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        jsm = nc.jsm(domain="hub", timeout=2.5)
        assert jsm.get_options() == {"api_prefix": "$JS.hub.API", "domain": "hub", "timeout": 2.5}
        assert jsm.jetstream().get_options() == jsm.get_options()
        assert nc.jsm(api_prefix="$X.API").jetstream().get_options()["api_prefix"] == "$X.API"
        with pytest.raises(TypeError, match="not both"):
            nc.jsm(domain="hub", prefix="$X.API")
    with jetarrow.sync.connect(own_server.url) as sync_nc:
        manager = sync_nc.jsm(timeout=3)
        context = manager.jetstream()
        assert isinstance(context, jetarrow.sync.JetStream)
        assert context.get_options() == manager.get_options()
        assert context.account_info().messages == 0


def test_other_clients_names_of_fields() -> None:
    consumer = ConsumerConfig(rate_limit=1000, max_pull_waiting=7, opt_start_sequence=3)
    assert (consumer.rate_limit_bps, consumer.max_waiting, consumer.opt_start_seq) == (1000, 7, 3)
    assert (consumer.rate_limit, consumer.max_pull_waiting, consumer.opt_start_sequence) == (1000, 7, 3)
    assert consumer.evolve(max_pull_waiting=8).max_waiting == 8
    assert "max_pull_waiting" not in consumer.as_dict()
    stream = StreamConfig(max_messages=1, max_messages_per_subject=2, first_sequence=3)
    assert (stream.max_msgs, stream.max_msgs_per_subject, stream.first_seq) == (1, 2, 3)
    assert (stream.max_messages, stream.max_messages_per_subject, stream.first_sequence) == (1, 2, 3)
    with pytest.raises(TypeError, match="max_messages and max_msgs are names of one field"):
        StreamConfig(max_messages=1, max_msgs=1)


async def test_other_clients_names_as_keywords(js: JetStreamContext, stream: str) -> None:
    config = (await js.update_stream(stream, max_messages=100, max_messages_per_subject=9)).config
    assert (config.max_msgs, config.max_msgs_per_subject) == (100, 9)
    info = await js.add_consumer(stream, durable_name="c", max_pull_waiting=5)
    assert info.config.max_waiting == 5
