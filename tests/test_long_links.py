"""Requests on connections with high latency or low bandwidth: their size and number."""

from __future__ import annotations

import jetarrow
from jetarrow.jetstream.context import JetStreamContext

from .slow_link import slow_link
from .tools import fill, store, until

# Seconds one way; and bytes a second (20 Mbit/s).
DELAY, RATE = 0.01, 2_500_000


async def test_first_requests_of_a_read_are_small(nats_url: str, js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", [b"x" * 128] * 10_000)
    held = []
    # On a busy machine the link may pause, and the client measures it when it delivers all that waited at once.
    for _ in range(3):
        async with slow_link(nats_url, DELAY, RATE) as link, await jetarrow.connect(link.url) as nc:
            assert (await nc.jetstream().read(stream).read_all()).num_rows == 10_000
        held.append(link.most_held)
    # Other answers queue behind these bytes: they must take less than 0.2 s.
    assert min(held) < RATE / 5, held


async def test_requests_of_a_read_grow_quickly(nats_url: str, js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", [b"x" * 128] * 20_000)
    growth = []
    # The growth follows the rate that the first messages have, which a busy machine may have slowed down.
    for _ in range(3):
        async with slow_link(nats_url, DELAY) as link, await jetarrow.connect(link.url) as nc:
            assert (await nc.jetstream().read(stream).read_all()).num_rows == 20_000
        sizes = [pull["batch"] for pull in link.pulls]
        # The first requests are sent before the client has measured the rate.
        first = sizes[0]
        assert sizes[:4] == [first] * 4
        growth.append(max(sizes[4:12]) / first)
    assert max(growth) > 4, growth


async def test_a_short_read_does_not_shrink_later_requests(nats_url: str, js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 5_000)
    async with slow_link(nats_url, DELAY) as link, await jetarrow.connect(link.url) as nc:
        far = nc.jetstream()
        assert (await far.read(stream, end_seq=3).read_all()).num_rows == 2
        before = len(link.pulls)
        assert (await far.read(stream).read_all()).num_rows == 5_000
    assert link.pulls[before]["batch"] > 100, link.pulls


async def test_messages_that_fill_a_request_are_not_asked_for_one_by_one(
    nats_url: str, js: JetStreamContext, stream: str
) -> None:
    # By the average size of all messages, many more of the last ones would fit into a request.
    await store(js, f"{stream}.a", [b"x" * 100] * 600 + [b"x" * 60_000] * 200)
    async with slow_link(nats_url, DELAY) as link, await jetarrow.connect(link.url) as nc:
        read = nc.jetstream().read(stream, fetch_bytes=1 << 20, columns=["data"]).read_all()
        assert (await read).num_rows == 800
    assert all("max_bytes" in pull for pull in link.pulls), link.pulls


async def test_flow_control_is_answered_while_messages_are_pending(js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", [b"x" * 128] * 60_000)
    sub = await js.subscribe(f"{stream}.>", flow_control=True, idle_heartbeat=5, ack_policy="none")
    # No message is read. The server sends 2 MiB, about 9,000 messages, and more after a flow control reply.
    await until(lambda: sub.pending_msgs > 12_000)
    seen = 0
    async for _ in sub.messages:
        seen += 1
        if seen == 1:
            # But not all messages: flow control limits them.
            assert sub.pending_msgs < 50_000
        if seen == 60_000:
            break
    assert (sub.dropped, sub.delivered) == (0, 60_000)


async def test_object_get_requests_its_metadata_once(nats_url: str, js: JetStreamContext, stream: str) -> None:
    bucket = stream.lower()
    objects = await js.create_object_store(bucket)
    await objects.put("a", bytes(3 << 20))
    # The messages after its last chunk belong to another object.
    await objects.put("b", b"another")
    async with slow_link(nats_url, DELAY) as link, await jetarrow.connect(link.url) as nc:
        far = await nc.jetstream().object_store(bucket)
        assert len((await far.get("a")).data or b"") == 3 << 20
    # The metadata of the object.
    assert link.asked("STREAM.MSG.GET") == 1
    await js.delete_object_store(bucket)
