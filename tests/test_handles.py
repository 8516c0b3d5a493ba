"""Handles of streams and consumers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import jetarrow
import pytest
from jetarrow.errors import NoRespondersError
from jetarrow.js import api
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import APIError, BadRequestError, FetchTimeoutError, NotFoundError

from .tools import fill


async def test_a_handle_makes_no_request(js: JetStreamContext) -> None:
    total = (await js.account_info(totals=False)).api.total
    stream = js.stream("NOT_THERE")
    consumer = stream.consumer("nor_this")
    assert (stream.name, stream.cached_info) == ("NOT_THERE", None)
    assert (consumer.name, consumer.stream_name, consumer.cached_info) == ("nor_this", "NOT_THERE", None)
    assert (repr(stream), repr(consumer)) == ("<Stream NOT_THERE>", "<Consumer nor_this of NOT_THERE>")
    assert (await js.account_info(totals=False)).api.total == total + 1
    for call in (stream.info(), stream.purge(), consumer.info(), stream.get_msg(1), consumer.fetch(timeout=30)):
        with pytest.raises(NotFoundError):
            await call


async def test_get_stream(js: JetStreamContext, stream: str) -> None:
    handle = await js.get_stream(stream)
    assert type(handle) is type(js.stream(stream))
    assert handle.cached_info is not None
    assert handle.cached_info.state.messages == 0
    await fill(js, stream, 3)
    assert handle.cached_info.state.messages == 0
    info = await handle.info(f"{stream}.>")
    assert (info.state.messages, info.state.subjects) == (3, {f"{stream}.a": 3})
    assert handle.cached_info is info
    with pytest.raises(NotFoundError):
        await js.get_stream(f"{stream}X")


async def test_get_or_create_stream(js: JetStreamContext, stream: str) -> None:
    name = f"{stream}G"
    handle = await js.get_or_create_stream(api.StreamConfig(name=name, subjects=[name]), storage="memory")
    assert handle.cached_info is not None
    assert handle.cached_info.config.storage == "memory"
    again = await js.get_or_create_stream(name=name, subjects=["other"], storage="file", max_msgs=1)
    assert again.cached_info is not None
    assert again.cached_info.config == handle.cached_info.config
    with pytest.raises(BadRequestError) as info:
        await js.get_or_create_stream(name=f"{name}2", subjects=[name])
    assert info.value.err_code == 10065
    await js.delete_stream(name)


async def test_create_or_update_stream(js: JetStreamContext, stream: str) -> None:
    name = f"{stream}U"
    made = (await js.create_or_update_stream(name=name, subjects=[name], max_msgs=5)).cached_info
    changed = (await js.create_or_update_stream(name=name, subjects=[name], max_age=60)).cached_info
    assert made is not None
    assert changed is not None
    assert (changed.created, changed.config.max_msgs, changed.config.max_age) == (made.created, -1, 60)
    with pytest.raises(APIError, match="storage"):
        await js.create_or_update_stream(name=name, subjects=[name], storage="memory")
    await js.delete_stream(name)


async def test_concurrent_get_or_create_calls_succeed(nats_url: str, stream: str) -> None:
    name = f"{stream}R"
    clients = [await jetarrow.connect(nats_url) for _ in range(8)]
    contexts = [nc.jetstream() for nc in clients]
    # Each call has a configuration of its own: later calls must not fail because of that.
    handles = await asyncio.gather(
        *(js.get_or_create_stream(name=name, subjects=[name], max_msgs=n) for n, js in enumerate(contexts, 1))
    )
    assert {handle.name for handle in handles} == {name}
    consumers = await asyncio.gather(
        *(handle.get_or_create_consumer("c", max_deliver=n) for n, handle in enumerate(handles, 1))
    )
    configs = {c.cached_info.config.max_deliver for c in consumers if c.cached_info}
    assert len(configs) == 1
    updated = await asyncio.gather(
        *(
            js.create_or_update_stream(name=f"{name}2", subjects=[f"{name}2"], max_msgs=n)
            for n, js in enumerate(contexts, 1)
        )
    )
    assert len(updated) == 8
    await contexts[0].delete_stream(name)
    await contexts[0].delete_stream(f"{name}2")
    for nc in clients:
        await nc.close()


async def test_messages_of_a_stream(js: JetStreamContext, stream: str) -> None:
    handle = js.stream(stream)
    await fill(js, stream, 3)
    await js.publish(f"{stream}.b", b"b")
    assert (await handle.get_msg(2)).data == b"2"
    assert (await handle.get_msg(subject=f"{stream}.a")).seq == 3
    assert (await handle.get_msg(2, f"{stream}.b", next=True)).seq == 4
    assert (await handle.get_last_msg(f"{stream}.>")).data == b"b"
    assert await handle.delete_msg(2) is True
    assert await handle.delete_msg(3, erase=False) is True
    with pytest.raises(NotFoundError):
        await handle.get_msg(2)
    info = await handle.info(deleted_details=True)
    assert info.state.deleted == [2, 3]


async def test_direct_get(js: JetStreamContext, stream: str) -> None:
    handle = js.stream(stream)
    await fill(js, stream, 2)
    with pytest.raises(NoRespondersError, match="allow_direct"):
        await handle.direct_get(1)
    await js.update_stream((await handle.info()).config, allow_direct=True)
    msg = await handle.direct_get(1)
    assert (msg.seq, msg.subject, msg.data, msg.stream) == (1, f"{stream}.a", b"1", stream)
    assert (await handle.direct_get_last_for_subject(f"{stream}.a")).seq == 2
    assert (await handle.direct_get_last_for_subject(f"{stream}.*")).seq == 2
    for absent in (handle.direct_get(9), handle.direct_get_last_for_subject(f"{stream}.z")):
        with pytest.raises(NotFoundError):
            await absent


async def test_purge_returns_the_number_of_messages(js: JetStreamContext, stream: str) -> None:
    handle = js.stream(stream)
    await fill(js, stream, 10)
    await js.publish(f"{stream}.b", b"")
    assert await handle.purge(seq=4) == 3
    assert await handle.purge(subject=f"{stream}.b") == 1
    assert await handle.purge(keep=5) == 2
    assert await handle.purge() == 5
    assert await handle.purge() == 0
    with pytest.raises(BadRequestError):
        await handle.purge(seq=1, keep=1)


async def test_consumers_of_a_stream(js: JetStreamContext, stream: str) -> None:
    handle = js.stream(stream)
    made = await handle.create_consumer(api.ConsumerConfig(durable_name="d"), max_deliver=2)
    assert type(made) is type(handle.consumer("c"))
    assert made.cached_info is not None
    assert (made.name, made.cached_info.config.max_deliver) == ("d", 2)
    nameless = await handle.create_consumer()
    assert nameless.name == (await nameless.info()).name
    found = await handle.get_consumer("d")
    assert found.cached_info is not None
    assert found.cached_info.config == made.cached_info.config
    with pytest.raises(NotFoundError):
        await handle.get_consumer("other")

    kept = await handle.get_or_create_consumer("d", max_deliver=9)
    assert kept.cached_info is not None
    assert kept.cached_info.config.max_deliver == 2
    fresh = await handle.get_or_create_consumer("e", api.ConsumerConfig(durable_name="e"), max_deliver=9)
    assert fresh.cached_info is not None
    assert fresh.cached_info.config.max_deliver == 9
    with pytest.raises(ValueError, match="could not create consumer 'y': the configuration has the name 'x'"):
        await handle.get_or_create_consumer("y", durable_name="x")
    with pytest.raises(NotFoundError) as gone:
        await js.stream(f"{stream}X").get_or_create_consumer("c")
    assert gone.value.err_code == 10059

    changed = await handle.update_consumer(name="e", ack_wait=timedelta(seconds=5))
    assert changed.cached_info is not None
    assert (changed.name, changed.cached_info.config.ack_wait) == ("e", 5)
    assert changed.cached_info.config.max_deliver == 9
    assert await handle.delete_consumer("e") is True
    with pytest.raises(NotFoundError):
        await fresh.info()


async def test_consumer_lists_go_through_all_pages(js: JetStreamContext, stream: str) -> None:
    handle = js.stream(stream)
    assert [name async for name in handle.consumer_names()] == []
    wanted = [f"c{number:03}" for number in range(600)]  # The server lists 256 per page.
    await asyncio.gather(*(handle.create_consumer(durable_name=name, mem_storage=True) for name in wanted))
    assert [name async for name in handle.consumer_names()] == wanted
    assert [info.name async for info in handle.consumers()] == wanted
    with pytest.raises(NotFoundError):
        _ = [info async for info in js.stream(f"{stream}X").consumers()]


async def test_reading_by_handle(js: JetStreamContext, stream: str) -> None:
    consumer = await js.stream(stream).create_consumer(durable_name="c", max_ack_pending=-1)
    with pytest.raises(FetchTimeoutError):
        await consumer.fetch(1, timeout=0.1)
    await fill(js, stream, 30)
    messages = await consumer.fetch(10)
    assert [msg.data for msg in messages] == [str(n).encode() for n in range(1, 11)]
    await asyncio.gather(*(msg.ack_sync(timeout=20) for msg in messages))
    batch = await consumer.fetch_batch(5)
    assert batch.seqs.to_pylist() == [11, 12, 13, 14, 15]
    await batch.ack_sync()
    seqs = []
    async for msg in consumer.messages():
        await msg.ack_sync(timeout=20)
        seqs.append(msg.seq)
        if msg.seq == 20:
            break
    assert seqs == [16, 17, 18, 19, 20]
    info = await consumer.info()
    assert info.ack_floor is not None
    assert (info.ack_floor.stream_seq, consumer.cached_info) == (20, info)


async def test_batches(js: JetStreamContext, stream: str) -> None:
    consumer = await js.stream(stream).create_consumer(durable_name="c", max_ack_pending=-1)
    await fill(js, stream, 25)
    sizes, seqs = [], []
    later = None
    async for batch in consumer.batches(10, columns=["seq", "data"], timeout=5):
        await batch.ack_sync()
        sizes.append(len(batch))
        seqs += batch.seqs.to_pylist()
        if len(seqs) == 25:
            later = asyncio.create_task(fill(js, stream, 3))  # While the next batch is waited for.
        if len(seqs) == 28:
            break
    assert later is not None
    await later
    assert sizes[:3] == [10, 10, 5]
    assert seqs == list(range(1, 29))
    assert batch.schema.names == ["seq", "data"]


async def test_pause_and_resume(js: JetStreamContext, stream: str) -> None:
    consumer = await js.stream(stream).create_consumer(durable_name="c")
    await fill(js, stream, 1)
    paused = await consumer.pause(datetime.now(UTC) + timedelta(hours=1))
    assert paused.paused
    assert await consumer.fetch(no_wait=True) == []
    assert (await consumer.info()).paused
    assert not (await consumer.resume()).paused
    assert [msg.seq for msg in await consumer.fetch()] == [1]


async def test_a_push_consumer_is_not_pulled(js: JetStreamContext, stream: str) -> None:
    consumer = await js.stream(stream).create_consumer(durable_name="p", deliver_subject=f"deliver.{stream}")
    with pytest.raises(APIError):
        await consumer.fetch(timeout=30)
