"""The examples of the document on async-nats, translated to Python, work with a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.aio.client import Client
from jetarrow.js.api import DeliverPolicy, ErrorCode, ReplayPolicy, StreamSource
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import BadRequestError, BatchError, MaxAckPendingError, NotFoundError
from jetarrow.server import NatsServer

from ..tools import fill, fill_subjects, fill_sync, free_port, until


@pytest.fixture
async def nc(nats_url: str) -> AsyncIterator[Client]:
    async with await jetarrow.connect(nats_url) as nc:
        yield nc


@pytest.fixture
async def js(nc: Client) -> JetStreamContext:
    return nc.jetstream()


def test_contexts(nc: Client) -> None:
    assert nc.jetstream(domain="hub").get_options()["api_prefix"] == "$JS.hub.API"
    assert nc.jetstream(prefix="JS.acc@hub.API").get_options()["api_prefix"] == "JS.acc@hub.API"
    context = nc.jetstream(
        timeout=5, api_prefix="MY.JS.API", max_ack_inflight=1000, backpressure_on_inflight=True, ack_timeout=30
    )
    assert context.get_options() == {"api_prefix": "MY.JS.API", "domain": None, "timeout": 5}


async def test_at_the_limit_without_backpressure(nc: Client, stream: str) -> None:
    js = nc.jetstream(max_ack_inflight=1, backpressure_on_inflight=False)
    future = await js.publish_async(f"{stream}.a", b"x")
    with pytest.raises(MaxAckPendingError):
        await js.publish_async(f"{stream}.a", b"y")
    assert (await future).sequence == 1


async def test_a_stream_by_handle(js: JetStreamContext, stream: str) -> None:
    await js.update_stream(stream, allow_direct=True)
    await fill_subjects(js, stream, "abca")
    handle = await js.get_stream(stream)
    assert handle.cached_info is not None
    assert handle.cached_info.state.messages == 4
    assert (await handle.get_msg(2)).data == b"2"
    assert (await handle.get_last_msg(f"{stream}.a")).data == b"4"
    assert (await handle.direct_get(3)).data == b"3"
    assert (await handle.direct_get_last_for_subject(f"{stream}.a")).seq == 4
    assert await handle.delete_msg(1) is True
    assert await handle.purge(subject=f"{stream}.b") == 1
    assert await handle.purge() == 2
    changed = await handle.update(description="changed")
    assert (changed.config.description, changed.config.allow_direct) == ("changed", True)
    assert handle.cached_info is changed
    other = await js.get_or_create_stream(name=f"{stream}X", subjects=[f"{stream}X.>"])
    assert await other.delete() is True
    with pytest.raises(NotFoundError):
        await other.info()


async def test_a_pull_consumer(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 10)
    consumer = await js.stream(stream).get_or_create_consumer("my-consumer", durable_name="my-consumer")
    assert len(await consumer.fetch(max_messages=3, timeout=5)) == 3
    async for batch in consumer.batches(4):
        assert len(batch) == 4
        await batch.ack_sync()
        break
    async for msg in consumer.messages:
        assert msg.seq == 8
        break
    reset = await consumer.reset()
    assert reset.reset_seq == 1
    assert (await consumer.fetch(1))[0].seq == 1
    assert await consumer.delete() is True
    with pytest.raises(NotFoundError):
        await consumer.info()


@pytest.mark.parametrize("known", [True, False])
async def test_a_push_consumer_by_handle(nc: Client, js: JetStreamContext, stream: str, known: bool) -> None:
    await fill(js, stream, 5)
    handle = js.stream(stream)
    consumer = await handle.create_consumer(deliver_subject=nc.new_inbox(), durable_name="push-consumer")
    # A new handle looks up the kind of the consumer at its first use.
    consumer = consumer if known else handle.consumer("push-consumer")
    got = []
    async for msg in consumer.messages():
        got.append(msg.data)
        await msg.ack_sync(timeout=20)
        if len(got) == 5:
            break
    assert got == [b"1", b"2", b"3", b"4", b"5"]
    assert (await consumer.info()).num_ack_pending == 0


def test_a_push_consumer_by_a_blocking_handle(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 2)
    sync_js.add_consumer(stream, durable_name="push", deliver_subject=f"deliver.{stream}")
    messages = sync_js.stream(stream).consumer("push").messages()
    assert [next(messages).data, next(messages).data] == [b"1", b"2"]


# Options, and the sequences that are delivered first. The stream has the subjects a, b, a, c, b as 1 to 5.
ORDERED: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [1, 2, 3, 4, 5]),
    ({"deliver_policy": DeliverPolicy.ALL, "subjects": ["b"]}, [2, 5]),
    ({"deliver_policy": "last"}, [5]),
    ({"deliver_policy": "last", "subjects": ["a", "c"]}, [4]),
    ({"deliver_policy": "last", "subjects": ["none"]}, []),
    ({"deliver_policy": "new"}, []),
    ({"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT}, [3, 4, 5]),
    ({"deliver_policy": "last_per_subject", "subjects": "b"}, [5]),
    ({"deliver_policy": "by_start_sequence", "start_seq": 4}, [4, 5]),
    ({"headers_only": True, "start_seq": 2}, [2, 3, 4, 5]),
    ({"replay_policy": ReplayPolicy.ORIGINAL, "start_time": datetime.now(UTC) - timedelta(hours=1)}, [1, 2, 3, 4, 5]),
]


def ordered_options(stream: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with subjects below the name of the stream."""
    given = options.get("subjects")
    if given is None:
        return options
    return {**options, "subjects": f"{stream}.{given}" if isinstance(given, str) else [f"{stream}.{s}" for s in given]}


@pytest.mark.parametrize(("options", "expected"), ORDERED)
async def test_ordered_consumers(
    js: JetStreamContext, stream: str, options: dict[str, Any], expected: list[int]
) -> None:
    await fill_subjects(js, stream, "abacb")
    wanted = ordered_options(stream, options)
    messages = aiter(js.stream(stream).ordered_consumer(**wanted))
    got = [await anext(messages) for _ in expected]
    assert [msg.seq for msg in got] == expected
    assert [msg.data for msg in got] == [b"" if options.get("headers_only") else b"%d" % n for n in expected]
    # The consumer continues with new messages. If it delivers no old ones, wait until it exists before the publish.
    token = wanted["subjects"] if isinstance(wanted.get("subjects"), str) else None
    subject = token or (wanted["subjects"][0] if wanted.get("subjects") else f"{stream}.z")
    following = asyncio.ensure_future(anext(messages))
    if not expected:
        await until(lambda: consumers(js, stream))
    ack = await js.publish(subject, b"next")
    assert (await asyncio.wait_for(following, 10)).seq == ack.seq
    await messages.aclose()  # type: ignore[attr-defined]
    await until(lambda: nobody(js, stream))


async def consumers(js: JetStreamContext, stream: str) -> bool:
    return bool([name async for name in js.stream(stream).consumer_names()])


async def nobody(js: JetStreamContext, stream: str) -> bool:
    return not await consumers(js, stream)


def test_ordered_consumers_that_block(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 3)
    assert next(sync_js.ordered_consumer(stream, deliver_policy="last")).seq == 3
    messages = sync_js.stream(stream).ordered_consumer(headers_only=True)
    assert [next(messages).seq for _ in range(3)] == [1, 2, 3]


def test_contradicting_start_options_raise(js: JetStreamContext) -> None:
    with pytest.raises(ValueError, match="contradicts"):
        js.ordered_consumer("S", deliver_policy="last", start_seq=4)
    with pytest.raises(ValueError, match="contradicts"):
        js.ordered_consumer("S", deliver_policy="by_start_sequence")
    with pytest.raises(ValueError, match="not both"):
        js.ordered_consumer("S", start_seq=4, start_time=datetime.now(UTC))


async def test_ordered_push_survives_its_consumer(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3)
    messages = aiter(js.ordered_consumer(stream, headers_only=True))
    assert [(await anext(messages)).seq for _ in range(3)] == [1, 2, 3]
    names = [name async for name in js.stream(stream).consumer_names()]
    assert len(names) == 1
    await js.delete_consumer(stream, names[0])
    ack = await js.publish(f"{stream}.a", b"4")
    assert (await asyncio.wait_for(anext(messages), 30)).seq == ack.seq
    await messages.aclose()  # type: ignore[attr-defined]


async def test_fields_of_a_message(nc: Client, js: JetStreamContext, stream: str) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    await fill(js, stream, 2)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d")
    msg = (await sub.fetch(1))[0]
    assert (msg.stream, msg.consumer) == (stream, "d")
    assert (msg.stream_sequence, msg.consumer_sequence, msg.delivered, msg.pending) == (1, 1, 1, 1)
    assert msg.published is not None
    assert before < msg.published < datetime.now(UTC) + timedelta(seconds=5)
    assert msg.ack_subject == msg.reply
    core = await nc.subscribe(f"core.{stream}")
    await nc.publish(f"core.{stream}", b"x", reply="somewhere")
    plain = await core.next_msg(5)
    assert (plain.stream, plain.stream_sequence, plain.published, plain.ack_subject) == (None, None, None, None)


async def test_expectations(js: JetStreamContext, stream: str) -> None:
    ack = await js.publish(f"{stream}.a", b"data", msg_id="uuid-123", expected_stream=stream)
    assert (ack.sequence, ack.seq) == (1, 1)
    await js.publish(f"{stream}.a", b"data", expected_last_msg_id="uuid-123", expected_last_seq=1)
    with pytest.raises(BadRequestError) as info:
        await js.publish(f"{stream}.a", b"data", expected_last_msg_id="other")
    assert info.value.err_code == ErrorCode.STREAM_WRONG_LAST_MSG_ID


async def test_expectations_of_a_publisher(js: JetStreamContext, stream: str) -> None:
    async with js.publisher(f"{stream}.a") as publisher:
        assert (await (await publisher.publish(b"1", expected_last_subject_seq=0, expected_stream=stream))).seq == 1
        future = await publisher.publish(b"2", expected_last_seq=7)
        with pytest.raises(BadRequestError):
            await future
    with pytest.raises(BatchError):
        async with js.publisher(f"{stream}.a") as publisher:
            await publisher.publish(b"2", expected_last_msg_id="nobody's")


def test_the_domain_of_a_source() -> None:
    source = StreamSource(name="ORDERS", domain="hub", opt_start_sequence=5)
    assert source.as_dict() == {"name": "ORDERS", "opt_start_seq": 5, "external": {"api": "$JS.hub.API"}}
    read = StreamSource.from_response(source.as_dict())
    assert (read.domain, read.opt_start_sequence) == ("hub", 5)
    assert source.evolve(domain="leaf").external == StreamSource(name="ORDERS", domain="leaf").external
    assert StreamSource(name="ORDERS").domain is None
    with pytest.raises(TypeError, match="domain and external are names of one field"):
        StreamSource(name="ORDERS", domain="hub", external=source.external)
    with pytest.raises(ValueError, match="domain"):
        StreamSource(name="ORDERS", domain="two.tokens")


async def test_a_mirror_of_another_domain() -> None:
    port = free_port()
    hub = f"leafnodes {{ listen: 127.0.0.1:{port} }}\njetstream {{ domain: hub }}\n"
    leaf = f'leafnodes {{ remotes: [ {{ url: "nats://127.0.0.1:{port}" }} ] }}\njetstream {{ domain: leaf }}\n'
    with NatsServer(config=hub) as one, NatsServer(config=leaf) as other:
        async with await jetarrow.connect(one.url) as nc, await jetarrow.connect(other.url) as near:
            await nc.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
            await fill(nc.jetstream(), "orders", 5)
            js = near.jetstream()
            await js.add_stream(name="COPY", mirror=StreamSource(name="ORDERS", domain="hub"))
            await js.add_stream(name="SOME", sources=[StreamSource("ORDERS", domain="hub", opt_start_sequence=4)])
            for name, count in (("COPY", 5), ("SOME", 2)):

                async def copied(name: str = name, count: int = count) -> bool:
                    return (await js.stream_info(name)).state.messages == count

                await until(copied, patience=30)
            mirror = (await js.stream_info("COPY")).config.mirror
            assert mirror is not None
            assert mirror.domain == "hub"
