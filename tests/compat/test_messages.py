"""Messages can be constructed, modified, subclassed, copied, compared and mocked, with both clients."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any
from unittest import mock

import pytest

from ..tools import settle
from .face import Face, make_stream, received, spread, subject
from .test_acks import one, pull

NINE = "$JS.ACK.ORDERS.work.2.30.4.1700000000123456789.5"
ELEVEN = "$JS.ACK.hub.ACCHASH.ORDERS.work.2.30.4.1700000000123456789.5"


async def test_fields_can_be_written(nc: Any) -> None:
    msg = await received(nc, headers={"a": "1"}, reply="r")
    msg.subject, msg.reply, msg.data, msg.headers = "s", "t", {"decoded": [1, 2]}, {"b": "2"}
    assert (msg.subject, msg.reply, msg.data, msg.headers, msg.header) == (
        "s",
        "t",
        {"decoded": [1, 2]},
        *[{"b": "2"}] * 2,
    )
    msg.headers = None
    assert (msg.headers, msg.header) == (None, None)


async def test_headers_that_are_written_into_are_kept(nc: Any) -> None:
    msg = await received(nc, headers={"a": "1"})
    msg.headers["b"] = "2"
    assert (msg.headers, msg.header) == ({"a": "1", "b": "2"}, {"a": "1", "b": "2"})
    assert msg.headers is msg.headers


async def test_respond_sends_the_headers_that_the_handler_wrote(face: Face, nc: Any) -> None:
    async def handle(msg: Any) -> None:
        msg.headers["status"] = "done"
        await msg.respond(b"answer")

    await nc.subscribe(where := subject(), cb=handle)
    answer = await nc.request(where, b"", timeout=5, headers={"id": "1"})
    assert (answer.data, answer.headers) == (b"answer", {"id": "1", "status": "done"})


async def test_respond_uses_assigned_reply_subject(nc: Any) -> None:
    inbox = await nc.subscribe(elsewhere := nc.new_inbox())
    msg = await received(nc, reply="nobody")
    msg.reply = elsewhere
    await msg.respond(b"answer")
    assert (await inbox.next_msg(5)).data == b"answer"


async def test_message_accepts_new_attributes(nc: Any) -> None:
    msg = await received(nc)
    assert not hasattr(msg, "span")
    msg.span, msg.more = "a", [msg]
    assert (msg.span, msg.more[0] is msg, vars(msg)["span"]) == ("a", True, "a")
    # Attributes of jetarrow's messages that nats-py's messages lack.
    for name in ("stream", "consumer", "pending", "seq", "info", "headers_all"):
        setattr(msg, name, name)
        assert getattr(msg, name) == name
    assert (msg.data, msg.span) == (b"x", "a")
    del msg.span
    assert not hasattr(msg, "span")
    with pytest.raises(AttributeError, match="Msg"):
        _ = msg.span


async def test_a_message_that_holds_itself_is_collected(nc: Any) -> None:
    msg = await received(nc)
    msg.context = {"message": msg}
    gone = weakref.ref(msg)
    del msg
    # Callbacks of the current loop iteration may reference the message.
    await asyncio.sleep(0)
    gc.collect()
    assert gone() is None


async def test_vars_contains_all_fields(nc: Any) -> None:
    msg = await received(nc, b"data", headers={"a": "1"}, reply="r")
    found, where = vars(msg), msg.subject
    assert [found[name] for name in ("subject", "reply", "data", "headers")] == [where, "r", b"data", {"a": "1"}]
    assert (found["_client"], found["_sid"], found["_ackd"]) == (nc, msg.sid, False)
    found["data"] = b"other"
    assert msg.data == b"other"
    assert type(msg)(**found) == msg


async def test_read_only_members_reject_assignment(nc: Any) -> None:
    msg = await received(nc)
    for name in ("is_acked", "header", "metadata", "sid"):
        with pytest.raises(AttributeError):
            setattr(msg, name, None)


async def test_the_client_of_a_message(face: Face, nc: Any, js: Any) -> None:
    where, stream = subject(), await make_stream(js)
    await spread(js, stream, 1)
    sub = await nc.subscribe(where)
    await nc.publish(where, b"")
    pulled = await js.pull_subscribe(f"{stream}.>", "d")
    for msg in (await sub.next_msg(5), *await pulled.fetch(1)):
        assert msg._client is nc
    other = await face.connect()
    msg = await received(nc, reply=(inbox := other.new_inbox()))
    answers = await other.subscribe(inbox)
    await settle(other)
    msg._client = other
    await msg.respond(b"by the other")
    assert ((await answers.next_msg(5)).data, msg._client is other) == (b"by the other", True)


async def test_message_constructor_accepts_fields(msg_class: Any, nc: Any) -> None:
    msg = msg_class(nc, subject="a", data={"any": "thing"})
    assert (msg.subject, msg.reply, msg.data, msg.headers, msg._client) == ("a", "", {"any": "thing"}, None, nc)
    assert (msg.is_acked, msg._ackd, msg._sid) == (False, False, None)
    positional = msg_class(nc, "a", "b", b"c", {"d": "e"}, None, True, 7)
    assert (positional.subject, positional.reply, positional.data, positional.headers) == ("a", "b", b"c", {"d": "e"})
    assert (positional._ackd, positional.is_acked, positional.sid) == (True, True, 7)
    for wrong in ({"nothing_of_the_kind": 1}, {"_client": nc}):
        with pytest.raises(TypeError):
            msg_class(nc, **wrong)


async def test_constructed_message_responds(face: Face, msg_class: Any, nc: Any) -> None:
    sub = await nc.subscribe(where := subject())
    await msg_class(nc, reply=where, headers={"a": "1"}).respond(b"x")
    answer = await sub.next_msg(5)
    assert (answer.data, answer.headers) == (b"x", {"a": "1"})
    assert await face.failure(msg_class(nc).respond(b"")) == "errors.Error"
    assert await face.failure(msg_class(None, reply="a").respond(b"")) == "errors.Error"


@pytest.mark.parametrize("verb", ["ack", "nak", "in_progress", "term", "ack_sync"])
async def test_a_verb_goes_to_any_reply_subject(msg_class: Any, nc: Any, verb: str) -> None:
    # Programs use this with requests: an ack is an empty response.
    sub = await nc.subscribe(where := subject())
    msg = msg_class(nc, reply=where)
    sending = asyncio.ensure_future(getattr(msg, verb)())
    got = await sub.next_msg(5)
    wanted = {"nak": b"-NAK", "in_progress": b"+WPI", "term": b"+TERM"}.get(verb, b"")
    assert got.data == wanted
    if verb == "ack_sync":
        await nc.publish(got.reply, b"answer")
    answer = await sending
    assert (msg.is_acked, answer and answer.data) == (verb != "in_progress", b"answer" if verb == "ack_sync" else None)


async def test_reconstructed_stream_message_acknowledges(js: Any, msg_class: Any, nc: Any) -> None:
    sub = await pull(js)
    came = await one(sub)
    msg = msg_class(nc, subject=came.subject, reply=came.reply, data="decoded")
    assert msg.metadata.sequence.stream == 1
    await msg.ack_sync(timeout=20)
    assert (await sub.consumer_info()).num_ack_pending == 0


async def test_acks_by_another_client(msg_class: Any) -> None:
    # The calls that a mock client records.
    client = mock.AsyncMock()
    for verb, payload in (("ack", None), ("nak", b"-NAK"), ("term", b"+TERM"), ("in_progress", b"+WPI")):
        await getattr(msg_class(client, reply="there"), verb)()
        sent = client.publish.await_args.args
        assert (sent[0], sent[1:] or (b"",)) == ("there", (payload or b"",))
    await msg_class(client, reply="there").nak(delay=1.5)
    assert client.publish.await_args.args[1] == b'-NAK {"delay": 1500000000}'
    await msg_class(client, reply="there", headers={"a": "1"}).respond(b"x")
    client.publish.assert_awaited_with("there", b"x", headers={"a": "1"})
    client.request.return_value = "the answer"
    assert await msg_class(client, reply=NINE).ack_sync(timeout=3) == "the answer"
    client.request.assert_awaited_with(NINE, timeout=3)


@pytest.mark.parametrize("verb", ["ack", "ack_sync", "nak", "term"])
async def test_ack_can_be_repeated_after_send_error(msg_class: Any, verb: str) -> None:
    client = mock.AsyncMock()
    client.publish.side_effect = client.request.side_effect = OSError("no")
    msg = msg_class(client, reply=NINE)
    with pytest.raises(OSError, match="no"):
        await getattr(msg, verb)()
    assert msg.is_acked is False
    client.publish.side_effect = client.request.side_effect = None
    await getattr(msg, verb)()
    assert msg.is_acked is True


async def test_ack_sync_can_be_repeated_after_failure(face: Face, js: Any) -> None:
    sub = await pull(js)
    msg = await one(sub)
    reply, msg.reply = msg.reply, msg.reply.replace("$JS.ACK.", "$JS.ACK.X.X.", 1)
    assert await face.failure(msg.ack_sync(timeout=0.5)) in ("errors.NoRespondersError", "errors.TimeoutError")
    msg.reply = reply
    await msg.ack_sync(timeout=20)
    assert msg.is_acked


async def test_ack_sync_returns_the_servers_answer(msg_class: Any, js: Any) -> None:
    answer = await (await one(await pull(js))).ack_sync(timeout=20)
    assert isinstance(answer, msg_class)
    assert answer.data == b""


async def test_ackd_is_read_and_set(face: Face, js: Any) -> None:
    sub = await pull(js, 2)
    first, second = await sub.fetch(2, timeout=5)
    first._ackd = True
    assert (first.is_acked, second._ackd) == (True, False)
    assert await face.failure(first.ack) == "errors.MsgAlreadyAckdError"
    await second.ack()
    assert second._ackd is True
    first._ackd = False
    await first.ack_sync(timeout=20)
    assert (await sub.consumer_info()).num_ack_pending == 0


async def test_sid_identifies_subscription(face: Face, msg_class: Any, nc: Any, js: Any) -> None:
    stream = await make_stream(js)
    await spread(js, stream, 2)
    pulled = await js.pull_subscribe(f"{stream}.>", "d")
    pushed = await js.subscribe(f"{stream}.>")
    fetched = await pulled.fetch(2)
    sids = [(await received(nc)).sid, fetched[0].sid, (await pushed.next_msg(5)).sid]
    assert all(isinstance(sid, int) for sid in sids)
    assert (len(set(sids)), fetched[1].sid) == (3, fetched[0].sid)
    with pytest.raises(face.errors.Error, match="sid not set"):
        _ = msg_class(nc).sid
    assert msg_class(nc, _sid=3).sid == 3


@pytest.mark.parametrize(("reply", "domain"), [(NINE, None), (ELEVEN, "hub"), (ELEVEN + ".rnd", "hub")])
async def test_metadata_of_a_reply_subject(msg_class: Any, nc: Any, reply: str, domain: str | None) -> None:
    msg = msg_class(nc)
    msg.reply = reply
    meta = msg.metadata
    assert (meta.stream, meta.consumer, meta.num_delivered, meta.num_pending) == ("ORDERS", "work", 2, 5)
    assert (meta.sequence.stream, meta.sequence.consumer, meta.domain) == (30, 4, domain)
    assert int(meta.timestamp.timestamp()) == 1700000000
    assert meta.sequence == msg_class.Metadata.SequencePair(consumer=4, stream=30)


@pytest.mark.parametrize("reply", ["", "a.b", "$JS.ACK.S.c", "$JS.ACK.S.c.1.2.3.4", "$JS.ACK.a.b.S.c.1.2.3.4"])
async def test_metadata_of_other_subjects(face: Face, msg_class: Any, nc: Any, reply: str) -> None:
    with pytest.raises(face.errors.NotJSMessageError):
        _ = msg_class(nc, reply=reply).metadata


async def test_given_metadata_is_returned(msg_class: Any, nc: Any) -> None:
    meta = msg_class(nc, reply=NINE).metadata
    assert msg_class(nc, _metadata=meta).metadata is meta
    msg = msg_class(nc)
    msg._metadata = meta
    assert msg.metadata is meta
