"""Messages that arrive after a fetch has returned are part of the next one; received messages are not discarded."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import jetarrow
import pytest
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .listener import Listener
from .slow_link import slow_link
from .tools import fill, until
from .yardstick.liar import INFO, requests

ROUND_TRIP = 0.4


@pytest.mark.parametrize("verb", ["fetch", "fetch_batch"])
async def test_fetch_without_acks_over_slow_link_loses_nothing(
    js: JetStreamContext, nats_url: str, stream: str, verb: str
) -> None:
    """Without acks there is no redelivery. Each call ends long before its messages arrive."""
    await fill(js, stream, 1_500)
    async with slow_link(nats_url, ROUND_TRIP / 2) as link, await jetarrow.connect(link.url) as nc:
        sub = await nc.jetstream().pull_subscribe(f"{stream}.>", ack_policy="none")
        seen: list[int | None] = []
        deadline = time.monotonic() + 30
        while len(seen) < 1_500:
            assert time.monotonic() < deadline, f"{len(seen)} of 1500"
            if verb == "fetch_batch":
                with suppress(jetarrow.errors.TimeoutError):
                    seen += (await sub.fetch_batch(500, timeout=0.05)).seqs.to_pylist()
            else:
                with suppress(js_errors.FetchTimeoutError):
                    seen += [msg.seq for msg in await sub.fetch(500, timeout=0.05)]
        assert seen == list(range(1, 1_501))
        assert len(await sub.fetch_batch(10, timeout=15 * ROUND_TRIP)) == 0


async def test_late_request_filled_to_last_byte_ends_at_once(js: JetStreamContext, nats_url: str, stream: str) -> None:
    """The server sends no status; the next call requests more at once, not after five seconds without a message."""
    await fill(js, stream, 9)
    probe = await js.pull_subscribe(f"{stream}.>", durable="a", ack_policy="none")
    sizes = [len(msg.subject) + len(msg.reply) + len(msg.data) for msg in await probe.fetch(9, timeout=10)]
    async with slow_link(nats_url, ROUND_TRIP / 2) as link, await jetarrow.connect(link.url) as nc:
        sub = await nc.jetstream().pull_subscribe(f"{stream}.>", durable="b", ack_policy="none")
        with pytest.raises(jetarrow.errors.TimeoutError, match="has not answered"):
            await sub.fetch_batch(9, timeout=0, max_bytes=sum(sizes[:4]))
        link.delay = 0.0
        batch = await sub.fetch_batch(9, timeout=4.5, min_messages=9)
        assert batch.seqs.to_pylist() == list(range(1, 10))


async def test_no_wait_waits_for_response_over_slow_link(js: JetStreamContext, nats_url: str, stream: str) -> None:
    await fill(js, stream, 10)
    async with slow_link(nats_url, ROUND_TRIP / 2) as link, await jetarrow.connect(link.url) as nc:
        sub = await nc.jetstream().pull_subscribe(f"{stream}.>", durable="d")
        assert [msg.seq for msg in await sub.fetch(10, no_wait=True)] == list(range(1, 11))
        assert await sub.fetch(10, no_wait=True) == []


async def test_late_messages_respect_limits_of_next_call(js: JetStreamContext, nats_url: str, stream: str) -> None:
    await fill(js, stream, 20)
    async with slow_link(nats_url, ROUND_TRIP / 2) as link, await jetarrow.connect(link.url) as nc:
        sub = await nc.jetstream().pull_subscribe(f"{stream}.>", ack_policy="none")
        with pytest.raises(jetarrow.errors.TimeoutError, match="has not answered"):
            await sub.fetch_batch(20, timeout=0)
        link.delay = 0.0
        sizes: Counter[int] = Counter()
        seen: list[int | None] = []
        with pytest.raises(ValueError, match="max_bytes=5"):
            await sub.fetch_batch(3, timeout=5, max_bytes=5)
        while len(seen) < 20:
            batch = await sub.fetch_batch(3, timeout=5)
            sizes[len(batch)] += 1
            seen += batch.seqs.to_pylist()
        assert seen == list(range(1, 21))
        assert max(sizes) == 3


async def test_late_messages_are_nakd_at_unsubscribe(js: JetStreamContext, nats_url: str, stream: str) -> None:
    await fill(js, stream, 20)
    async with slow_link(nats_url, ROUND_TRIP / 2) as link, await jetarrow.connect(link.url) as nc:
        sub = await nc.jetstream().pull_subscribe(f"{stream}.>", durable="d", ack_wait=600)
        with pytest.raises(jetarrow.errors.TimeoutError, match="has not answered"):
            await sub.fetch_batch(20, timeout=0)
        await sub.unsubscribe()
        other = await js.pull_subscribe(f"{stream}.>", durable="d")
        batch = await other.fetch_batch(20, timeout=10, min_messages=20, columns=["seq", "delivered"])
        assert sorted(seq or 0 for seq in batch.seqs.to_pylist()) == list(range(1, 21))
        assert set(batch.to_pyarrow().column("delivered").to_pylist()) == {2}


async def test_messages_of_stopped_server_are_in_next_fetch(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        (await js.publish_batch("s.a", [b"x"] * 100)).raise_for_errors()
        sub = await js.pull_subscribe("s.>", durable="d", ack_policy="none")
        await sub.fetch_batch(10)
        own_server.pause()
        begin = time.monotonic()
        try:
            for _ in range(3):
                with pytest.raises(jetarrow.errors.TimeoutError, match="has not answered"):
                    await sub.fetch_batch(10, timeout=0.2)
            assert time.monotonic() - begin < 10
        finally:
            own_server.resume()
        seen: list[int | None] = []
        while len(seen) < 90:
            batch = await sub.fetch_batch(90, timeout=30)
            assert len(batch), f"{len(seen)} of 90"
            seen += batch.seqs.to_pylist()
        assert seen == list(range(11, 101))


async def test_fetch_error_in_later_request_keeps_rows(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 5)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", ack_policy="none")
    fetching = asyncio.ensure_future(sub.fetch_batch(10, timeout=20, min_messages=10))

    async def has_sent() -> bool:
        info = await sub.consumer_info()
        return (info.num_waiting, info.num_pending) == (1, 0)

    await until(has_sent)
    await js.delete_consumer(stream, "d")
    assert (await fetching).seqs.to_pylist() == [1, 2, 3, 4, 5]
    with pytest.raises(js_errors.NotFoundError):
        await sub.fetch_batch(10, timeout=5)


async def test_consumer_check_ends_with_fetch(js: JetStreamContext, nats_url: str, stream: str) -> None:
    async with slow_link(nats_url, 0) as link, await jetarrow.connect(link.url) as nc:
        sub = await nc.jetstream().pull_subscribe(f"{stream}.>", durable="d")
        await js.delete_consumer(stream, "d")
        link.swallowed = b"CONSUMER.INFO"
        begin = time.monotonic()
        with pytest.raises(jetarrow.errors.TimeoutError):
            await sub.fetch(1, timeout=1)
        # The check itself has 5 s.
        assert time.monotonic() - begin < 4.5


class Dry(Listener):
    """A server that sends "404 No Messages" after every second message of six.

    It does not answer requests for the consumer's state. The messages of the second request take `pause` seconds.
    """

    asked = 0
    pause = 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        subs: dict[bytes, bytes] = {}
        async for verb, words in requests(reader):
            if verb == b"PING":
                writer.write(b"PONG\r\n")
            elif verb == b"SUB":
                subs[words[0].rstrip(b"*>")] = words[-1]
            elif verb == b"PUB" and b"MSG.NEXT" in words[0]:
                reply = words[1]
                sid = next(sid for subject, sid in subs.items() if reply.startswith(subject))
                self.asked += 1
                await asyncio.sleep(self.pause if self.asked == 2 else 0)
                for seq in (2 * self.asked - 1, 2 * self.asked) if self.asked <= 3 else ():
                    ack = b"$JS.ACK.S.c.1.%d.%d.1700000000000000000.%d" % (seq, seq, 6 - seq)
                    writer.write(b"MSG s.a %s %s 1\r\nx\r\n" % (sid, ack))
                status = b"NATS/1.0 404 No Messages\r\n\r\n"
                writer.write(b"HMSG %s %s %d %d\r\n%s\r\n" % (reply, sid, len(status), len(status), status))


@pytest.mark.parametrize("pause", [0.0, 1.0])
@pytest.mark.parametrize("verb", ["fetch", "fetch_batch"])
async def test_fetch_repeats_request_after_premature_end(verb: str, pause: float) -> None:
    """It sends "404 No Messages" too early; the pending count of the last message shows that more are stored.

    After a pause the fetch asks for the consumer's state, and takes the messages although that is not answered.
    """
    async with Dry() as dry, await jetarrow.connect(dry.url, allow_reconnect=False) as nc:
        dry.pause = pause
        sub = await nc.jetstream().pull_subscribe_bind(consumer="c", stream="S")
        if verb == "fetch":
            seqs = [msg.seq for msg in await sub.fetch(10, no_wait=True)]
        else:
            seqs = (await sub.fetch_batch(10, min_messages=0)).seqs.to_pylist()
    assert seqs == [1, 2, 3, 4, 5, 6]
    # If nothing is pending, no further request is sent.
    assert dry.asked == 3


async def without_the_first_request(nc: jetarrow.Client, stream: str) -> tuple[Any, list[str]]:
    """A subscription whose first request is lost, and the subjects of its requests."""
    asked: list[str] = []

    async def forward(msg: jetarrow.Msg) -> None:
        if ".MSG.NEXT." in msg.subject:
            asked.append(msg.subject)
            if len(asked) == 1:
                return
        await nc.publish(f"$JS.API.{msg.subject.partition('.')[2]}", msg.data, reply=msg.reply)

    prefix = f"P{stream}"
    await nc.subscribe(f"{prefix}.>", cb=forward)
    return await nc.jetstream(prefix=prefix).pull_subscribe_bind("d", stream), asked


async def test_fetch_recovers_from_request_without_response(
    nc: jetarrow.Client, js: JetStreamContext, stream: str
) -> None:
    """For example to a lost leader of the consumer: calls with a shorter timeout continue after it."""
    await fill(js, stream, 10)
    await js.add_consumer(stream, durable_name="d", ack_policy="none")
    sub, _ = await without_the_first_request(nc, stream)
    found = 0
    for _ in range(20):
        with suppress(jetarrow.errors.TimeoutError):
            found = len(await sub.fetch_batch(10, timeout=0.5))
        if found:
            break
    assert found == 10


async def test_one_call_repeats_a_request_without_response(
    nc: jetarrow.Client, js: JetStreamContext, stream: str
) -> None:
    """The server drops a request for messages at hand if the consumer is deleted meanwhile."""
    await fill(js, stream, 10)
    await js.add_consumer(stream, durable_name="d")
    sub, asked = await without_the_first_request(nc, stream)
    assert len(await sub.fetch_batch(10, timeout=60)) == 10
    assert len(asked) == 2
