"""Push and core subscriptions deliver messages with unreadable headers and continue after them."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.aio.msg import Msg
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext

from .test_read_malformed import MALFORMED, publish_raw, wait_stored
from .tools import until

GOOD = b"NATS/1.0\r\nA: 1\r\n\r\n"


def mixed(bad: set[int], count: int) -> list[tuple[bytes, bytes]]:
    """Messages 1 to `count`; those in `bad` are malformed."""
    kinds = [raw for raw, _ in MALFORMED.values()]
    return [(kinds[n % len(kinds)] if n in bad else GOOD, b"%d" % n) for n in range(1, count + 1)]


class Told:
    """Errors that the error callback received."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    async def tell(self, error: Exception) -> None:
        self.errors.append(error)

    def malformed(self) -> set[tuple[str, int]]:
        found = [error for error in self.errors if isinstance(error, js_errors.MalformedMessageError)]
        return {(error.stream, error.seq) for error in found if error.stream and error.seq}


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "durable"])
@pytest.mark.parametrize("kind", MALFORMED)
async def test_push_delivers_malformed_message_and_reports_it(
    js: JetStreamContext, nats_url: str, stream: str, kind: str, ordered: bool
) -> None:
    raw, headers = MALFORMED[kind]
    publish_raw(nats_url, f"{stream}.a", [(GOOD, b"1"), (raw, b"2"), (GOOD, b"3")])
    await wait_stored(js, stream, 3)
    told = Told()
    async with await jetarrow.connect(nats_url, error_cb=told.tell, reconnect_time_wait=0.05) as nc:
        options: dict[str, Any] = {"ordered_consumer": True} if ordered else {"durable": "d", "ack_wait": 600}
        sub = await nc.jetstream().subscribe(f"{stream}.>", stream=stream, **options)
        seen = [await sub.next_msg(timeout=20) for _ in range(3)]
        if not ordered:
            for msg in seen:
                await msg.ack_sync(timeout=20)
        assert [msg.data for msg in seen] == [b"1", b"2", b"3"]
        assert [msg.headers_all for msg in seen] == [{"A": ["1"]}, headers, {"A": ["1"]}]
        assert seen[1].metadata.sequence.stream == 2
        assert seen[1].metadata.stream == stream
        assert nc.stats["reconnects"] == 0
        if not ordered:

            async def acknowledged() -> bool:
                info = await sub.consumer_info()
                return info.num_ack_pending == 0 and info.num_pending == 0

            await until(acknowledged)
    assert told.malformed() == {(stream, 2)}


@pytest.mark.parametrize("bad", [{1}, {20}, {5, 6, 7}, {1, 4, 9, 15, 20}, set(range(1, 21))], ids=str)
@pytest.mark.parametrize("policy", ["ordered", "none", "explicit"])
async def test_push_delivers_malformed_messages_at_any_position(
    js: JetStreamContext, nats_url: str, stream: str, policy: str, bad: set[int]
) -> None:
    publish_raw(nats_url, f"{stream}.a", mixed(bad, 20))
    await wait_stored(js, stream, 20)
    told = Told()
    async with await jetarrow.connect(nats_url, error_cb=told.tell, reconnect_time_wait=0.05) as nc:
        options: dict[str, Any] = {"durable": "d", "ack_wait": 600, "ack_policy": policy}
        if policy == "ordered":
            options = {"ordered_consumer": True, "idle_heartbeat": 1}
        sub = await nc.jetstream().subscribe(f"{stream}.>", stream=stream, **options)
        for seq in range(1, 21):
            msg = await sub.next_msg(timeout=20)
            assert (msg.seq, msg.data) == (seq, b"%d" % seq)
            if policy == "explicit":
                await msg.ack()
        assert nc.stats["reconnects"] == 0
        # The subscription continues.
        publish_raw(nats_url, f"{stream}.a", [(GOOD, b"21")])
        assert (await sub.next_msg(timeout=20)).seq == 21
    assert told.malformed() == {(stream, seq) for seq in bad}


async def test_filtered_push_delivers_malformed_messages_of_its_subject_only(
    js: JetStreamContext, nats_url: str, stream: str
) -> None:
    raw = MALFORMED["space"][0]
    for subject, headers in (("a", GOOD), ("b", raw), ("a", raw), ("b", GOOD), ("a", GOOD)):
        publish_raw(nats_url, f"{stream}.{subject}", [(headers, b"x")])
    async with await jetarrow.connect(nats_url, reconnect_time_wait=0.05) as nc:
        sub = await nc.jetstream().subscribe(f"{stream}.a", ordered_consumer=True, headers_only=True)
        seen = [await sub.next_msg(timeout=20) for _ in range(3)]
    assert [msg.seq for msg in seen] == [1, 3, 5]
    assert [msg.data for msg in seen] == [b""] * 3


async def test_unacknowledged_malformed_message_is_redelivered(
    js: JetStreamContext, nats_url: str, stream: str
) -> None:
    publish_raw(nats_url, f"{stream}.a", [(MALFORMED["latin-1"][0], b"1")])
    await wait_stored(js, stream, 1)
    async with await jetarrow.connect(nats_url, reconnect_time_wait=0.05) as nc:
        sub = await nc.jetstream().subscribe(f"{stream}.>", durable="d", ack_wait=1)
        assert (await sub.next_msg(timeout=20)).data == b"1"
        again = await sub.next_msg(timeout=20)
        assert again.seq == 1
        await again.ack_sync(timeout=20)


async def test_callback_receives_malformed_messages(js: JetStreamContext, nats_url: str, stream: str) -> None:
    publish_raw(nats_url, f"{stream}.a", mixed({2, 3}, 5))
    await wait_stored(js, stream, 5)
    seen: set[int | None] = set()
    done = asyncio.Event()

    async def take(msg: Msg) -> None:
        seen.add(msg.seq)
        if len(seen) == 5:
            done.set()

    async with await jetarrow.connect(nats_url, reconnect_time_wait=0.05) as nc:
        await nc.jetstream().subscribe(f"{stream}.>", durable="d", ack_wait=1, cb=take)
        await asyncio.wait_for(done.wait(), 20)


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "durable"])
def test_sync_push_delivers_malformed_messages(nats_url: str, ordered: bool) -> None:
    with jetarrow.sync.connect(nats_url, reconnect_time_wait=0.05) as nc:
        js = nc.jetstream()
        name = f"SYNC_{'ORDERED' if ordered else 'DURABLE'}"
        js.add_stream(name=name, subjects=[f"{name}.>"])
        publish_raw(nats_url, f"{name}.a", mixed({2, 3}, 5))
        options: dict[str, Any] = {"ordered_consumer": True} if ordered else {"durable": "d", "ack_wait": 600}
        sub = js.subscribe(f"{name}.>", **options)
        seen = set()
        while len(seen) < 5:
            msg = sub.next_msg(timeout=20)
            seen.add(msg.seq)
            if not ordered:
                msg.ack()
        js.delete_stream(name)


@pytest.mark.parametrize("kind", MALFORMED)
async def test_core_subscription_delivers_malformed_message_and_reports_it(nats_url: str, kind: str) -> None:
    raw, headers = MALFORMED[kind]
    told = Told()
    async with await jetarrow.connect(nats_url, error_cb=told.tell) as nc:
        sub = await nc.subscribe(f"malformed.{kind.split()[0]}.*")
        await nc.flush()
        subject = sub.subject.replace("*", "x")
        publish_raw(nats_url, subject, [(GOOD, b"1"), (raw, b"2"), (GOOD, b"3")])
        messages = [await sub.next_msg(5) for _ in range(3)]
        assert [msg.data for msg in messages] == [b"1", b"2", b"3"]
        assert [msg.headers_all for msg in messages] == [{"A": ["1"]}, headers, {"A": ["1"]}]
        assert nc.stats["reconnects"] == 0
    (error,) = told.errors
    assert isinstance(error, js_errors.MalformedMessageError)
    assert (error.subject, error.stream, error.seq) == (subject, None, None)
    assert subject in str(error)


async def test_subject_that_is_not_utf8_is_decoded_with_replacement(nats_url: str) -> None:
    """The server accepts any bytes in a subject."""
    async with await jetarrow.connect(nats_url) as nc:
        sub = await nc.subscribe("malformed.subject.>")
        await nc.flush()
        where = urlsplit(nats_url)
        with socket.create_connection((where.hostname, where.port)) as sock, sock.makefile("rwb") as file:
            file.write(
                b"CONNECT {}\r\nPUB malformed.subject.caf\xe9 r\xe9ply 1\r\nx\r\nPUB malformed.subject.b 1\r\ny\r\n"
            )
            file.flush()
            first, second = [await sub.next_msg(5) for _ in range(2)]
        assert (first.subject, first.reply, first.data) == ("malformed.subject.caf\ufffd", "", b"x")
        assert (second.subject, second.data) == ("malformed.subject.b", b"y")
        assert nc.stats["reconnects"] == 0


@pytest.mark.parametrize("face", ["async", "sync"])
async def test_errors_pending_for_error_cb_are_bounded(nats_url: str, face: str) -> None:
    """All messages are delivered and counted; errors are discarded while too many wait for the callback."""
    # At most 10,000 errors wait in each of two queues.
    count, subject = 25_000, f"malformed.many.{face}"
    gate, told = threading.Event(), list[Exception]()
    publish = (nats_url, subject, [(MALFORMED["space"][0], b"")] * count)
    if face == "async":
        come = asyncio.Event()

        async def error_cb(error: Exception) -> None:
            await come.wait()
            told.append(error)

        async with await jetarrow.connect(nats_url, error_cb=error_cb) as nc:
            sub = await nc.subscribe(subject)
            await nc.flush()
            await asyncio.to_thread(publish_raw, *publish)
            for _ in range(count):
                await sub.next_msg(5)
            await until(lambda: nc.stats["errors_received"] == count)
            come.set()
    else:

        def tell(error: Exception) -> None:
            gate.wait()
            told.append(error)

        def drive() -> None:
            with jetarrow.sync.connect(nats_url, error_cb=tell) as nc:
                sub = nc.subscribe(subject)
                nc.flush()
                publish_raw(*publish)
                for _ in range(count):
                    sub.next_msg(5)
                gate.set()

        await asyncio.to_thread(drive)
    assert 10_000 <= len(told) < count
