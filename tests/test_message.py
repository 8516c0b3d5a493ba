"""Features of messages that nats-py's lack: several values of a header, the blocking twin, threads."""

from __future__ import annotations

import copy
import dataclasses
import gc
import inspect
import threading
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg
from jetarrow.js.api import AckKind
from jetarrow.js.client import JetStreamContext

from .tools import fill


async def test_headers_of_several_values_survive_reading_and_writing(nc: Client) -> None:
    answers, sub = await nc.subscribe(inbox := nc.new_inbox()), await nc.subscribe(where := nc.new_inbox())
    await nc.publish(where, b"x", inbox, headers={"many": ["1", "2"], "one": "3", "gone": "4"})
    msg = await sub.next_msg(5)
    assert msg.headers == {"many": "2", "one": "3", "gone": "4"}
    assert msg.headers_all == {"many": ["1", "2"], "one": ["3"], "gone": ["4"]}
    del msg.headers["gone"]
    msg.headers |= {"one": "changed", "new": "5"}
    await msg.respond(b"")
    wanted = {"many": ["1", "2"], "one": ["changed"], "new": ["5"]}
    assert msg.headers_all == (await answers.next_msg(5)).headers_all == wanted
    msg.headers["many"] = "1"
    assert msg.headers_all == {**wanted, "many": ["1"]}
    msg.headers = None
    assert msg.headers_all is None


async def test_a_message_keeps_a_connection_usable(nats_url: str) -> None:
    """Its client is the program's own while that exists, then another one on the same connection."""
    nc = await jetarrow.connect(nats_url)
    sub, inbox = await nc.subscribe("keeps.a"), nc.new_inbox()
    answers = await nc.subscribe(inbox)
    await nc.publish("keeps.a", b"x", inbox)
    msg = await sub.next_msg(5)
    assert msg._client is nc
    del nc
    gc.collect()
    client = msg._client
    assert type(client) is Client
    await msg.respond(b"answer")
    assert (await answers.next_msg(5)).data == b"answer"
    await client.close()


def test_sync_messages_can_be_changed_copied_and_acknowledged(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str
) -> None:
    sync_js.publish_batch(f"{stream}.a", ["secret"] * 5)
    sub = sync_js.pull_subscribe(f"{stream}.>", durable="d")
    msg, two, three, four, five = sub.fetch(5)
    assert type(msg) is jetarrow.sync.Msg
    assert not any(inspect.iscoroutinefunction(getattr(msg, verb)) for verb in ("ack", "ack_sync", "nak", "respond"))
    msg.data, msg.own = {"any": "thing"}, "hung"
    made = copy.copy(msg)
    assert (made == msg, made.own, made.sid) == (True, "hung", msg.sid)
    assert dataclasses.replace(msg, subject="b").subject == "b"
    answer = msg.ack_sync(timeout=20)
    assert (type(answer), msg.is_acked, made.is_acked) == (jetarrow.sync.Msg, True, False)
    two.ack()
    three.term("bad")
    four.ack_with(AckKind.PROGRESS)
    four.ack_with(AckKind.NAK, delay=60)
    with pytest.raises(ValueError, match="other"):
        five.ack_with("other")
    with pytest.raises(errors.MsgAlreadyAckdError) as caught:
        two.nak()
    assert caught.value._msg is two
    assert two.subject in str(caught.value)
    assert "secret" not in str(caught.value)
    with jetarrow.sync.connect(nats_url) as nc:
        answers = nc.subscribe(inbox := nc.new_inbox())
        jetarrow.sync.Msg(nc, reply=inbox, headers={"a": "1"}).respond(b"by hand")
        got = answers.next_msg(timeout=10)
        assert (got.data, got._client, got.headers) == (b"by hand", nc, {"a": "1"})
        jetarrow.sync.Msg(nc, reply=inbox).ack()
        assert answers.next_msg(timeout=10).data == b""
        with pytest.raises(errors.NotJSMessageError):
            got.ack()


def test_sync_client_creates_messages_of_its_msg_class(nats_url: str, stream: str) -> None:
    class Own(jetarrow.sync.Msg):
        pass

    class OwnClient(jetarrow.sync.Client):
        msg_class = Own

    nc = OwnClient()
    with nc:
        nc.connect(nats_url)
        nc.jetstream().publish(f"{stream}.a", b"x")
        sub = nc.jetstream().pull_subscribe(f"{stream}.>")
        first = sub.fetch_batch(1)[0]
        assert (type(first), first.data) == (Own, b"x")
        first.nak()
        (again,) = sub.fetch()
        assert (type(again), type(again.ack_sync(timeout=20))) == (Own, Own)
    assert jetarrow.sync.Client.msg_class is jetarrow.sync.Msg


async def test_rows_of_a_batch_are_messages(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 2)
    batch = await (await js.pull_subscribe(f"{stream}.>")).fetch_batch(2)
    first, second = batch
    first.data = b"written"
    assert (type(first), first.data, second.data, batch[0].data) == (Msg, b"written", b"2", b"1")
    await first.ack_sync(timeout=20)


def test_only_one_of_many_threads_acknowledges_a_message(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sync_js.publish_batch(f"{stream}.a", ["x"] * 50)
    messages = sync_js.pull_subscribe(f"{stream}.>", durable="d").fetch(50)
    outcomes: list[str] = []
    start = threading.Barrier(4)

    def acknowledge() -> None:
        start.wait()
        for msg in messages:
            try:
                msg.ack()
                outcomes.append("done")
            except errors.MsgAlreadyAckdError:
                outcomes.append("refused")

    threads = [threading.Thread(target=acknowledge) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (outcomes.count("done"), outcomes.count("refused")) == (50, 150)


def test_attributes_set_by_two_threads_are_kept() -> None:
    for _ in range(200):
        msg: Any = Msg.__new__(Msg)
        start = threading.Barrier(2)

        def write(name: str, to: Any = msg, start: threading.Barrier = start) -> None:
            start.wait()
            setattr(to, name, name)

        threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (msg.one, msg.two) == ("one", "two")
