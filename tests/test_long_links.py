"""Links that are long, or slow: what is asked for, and when."""

from __future__ import annotations

import jetarrow
from jetarrow.jetstream.context import JetStreamContext

from .slow_link import slow_link
from .tools import fill, store, until

# One way; and bytes a second, as 20 Mbit/s.
DELAY, RATE = 0.01, 2_500_000


async def test_a_read_begins_with_little(nats_url: str, js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", [b"x" * 128] * 10_000)
    async with slow_link(nats_url, DELAY, RATE) as link, await jetarrow.connect(link.url) as nc:
        assert (await nc.jetstream().read(stream).read_all()).num_rows == 10_000
    # Whatever else is answered stands behind it: it was more than half a second.
    assert link.most_held < RATE / 5, link.most_held


async def test_a_read_soon_asks_for_much(nats_url: str, js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", [b"x" * 128] * 20_000)
    async with slow_link(nats_url, DELAY) as link, await jetarrow.connect(link.url) as nc:
        assert (await nc.jetstream().read(stream).read_all()).num_rows == 20_000
    sizes = [pull["batch"] for pull in link.pulls]
    # The first ones are answered before it is known that the link carries more.
    first = sizes[0]
    assert sizes[:4] == [first] * 4
    assert max(sizes[4:12]) > 4 * first, sizes


async def test_a_few_rows_do_not_say_what_a_link_carries(nats_url: str, js: JetStreamContext, stream: str) -> None:
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
    # By the average of all many more of the last ones would find room in a request.
    await store(js, f"{stream}.a", [b"x" * 100] * 600 + [b"x" * 60_000] * 200)
    async with slow_link(nats_url, DELAY) as link, await jetarrow.connect(link.url) as nc:
        read = nc.jetstream().read(stream, fetch_bytes=1 << 20, columns=["data"]).read_all()
        assert (await read).num_rows == 800
    assert all("max_bytes" in pull for pull in link.pulls), link.pulls


async def test_flow_control_is_answered_while_some_wait(js: JetStreamContext, stream: str) -> None:
    await store(js, f"{stream}.a", [b"x" * 128] * 60_000)
    sub = await js.subscribe(f"{stream}.>", flow_control=True, idle_heartbeat=5, ack_policy="none")
    # Nothing is taken. The server sends 2 MiB, about 9,000 of them, and more once it is answered.
    await until(lambda: sub.pending_msgs > 12_000)
    seen = 0
    async for _ in sub.messages:
        seen += 1
        if seen == 1:
            # But not all of them: that is what flow control is for.
            assert sub.pending_msgs < 50_000
        if seen == 60_000:
            break
    assert (sub.dropped, sub.delivered) == (0, 60_000)


async def test_an_object_is_asked_for_once(nats_url: str, js: JetStreamContext, stream: str) -> None:
    bucket = stream.lower()
    objects = await js.create_object_store(bucket)
    await objects.put("a", bytes(3 << 20))
    # What comes after its last chunk is known to be no part of it.
    await objects.put("b", b"another")
    async with slow_link(nats_url, DELAY) as link, await jetarrow.connect(link.url) as nc:
        far = await nc.jetstream().object_store(bucket)
        assert len((await far.get("a")).data or b"") == 3 << 20
    # What is said about it.
    assert link.asked("STREAM.MSG.GET") == 1
    await js.delete_object_store(bucket)
