"""A message as Python sees it: printed, equal, copied, matched, derived from, mocked; the same with both clients."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import inspect
from typing import Any
from unittest import mock

import pytest

from .face import Face, make_stream, received, spread, subject

VERBS = ["ack", "ack_sync", "nak", "in_progress", "term", "respond"]


async def test_what_is_printed(nc: Any) -> None:
    msg = await received(nc, b"payload", headers={"key": "value"})
    for text in (str(msg), repr(msg), f"{msg}"):
        assert all(part in text for part in (f"subject='{msg.subject}'", "data=b'payload'", "headers={'key': 'value'}"))


async def test_equality(msg_class: Any, nc: Any) -> None:
    def make(**fields: Any) -> Any:
        return msg_class(nc, **{"subject": "a", "data": b"x", **fields})

    assert make() == make()
    others = [{"subject": "b"}, {"data": b"y"}, {"reply": "r"}, {"headers": {}}, {"_ackd": True}, {"_sid": 1}]
    assert all(make() != make(**other) for other in others)
    assert make() != "a"
    assert make() != type("Derived", (msg_class,), {})(nc, "a", "", b"x")
    with pytest.raises(TypeError, match="unhashable"):
        hash(make())


async def test_copies(nc: Any) -> None:
    msg = await received(nc, b"one", headers={"a": "1"}, reply="r")
    msg.own = "kept"
    made = copy.copy(msg)
    assert (made == msg, made is msg, made.own, type(made)) == (True, False, "kept", type(msg))
    made.data = b"two"
    assert (msg.data, made.data, made.subject, made.sid) == (b"one", b"two", msg.subject, msg.sid)
    assert made.headers is msg.headers
    await made.respond(b"")


async def test_replace(nc: Any) -> None:
    msg = await received(nc, b"one", headers={"a": "1"})
    made = dataclasses.replace(msg, data=b"two", reply="r")
    assert (made.subject, made.data, made.reply, made.headers) == (msg.subject, b"two", "r", {"a": "1"})
    assert (made._client, made.sid, msg.data) == (nc, msg.sid, b"one")


async def test_it_is_a_dataclass(msg_class: Any, nc: Any) -> None:
    names = ["_client", "subject", "reply", "data", "headers", "_metadata", "_ackd", "_sid"]
    assert dataclasses.is_dataclass(msg_class)
    assert [field.name for field in dataclasses.fields(msg_class)] == names
    assert list(inspect.signature(msg_class).parameters) == names

    @dataclasses.dataclass
    class Decoded(msg_class):  # type: ignore[misc]
        value: int = 0

    made = Decoded(nc, "a", data=b"7", value=7)
    assert (made.subject, made.data, made.value) == ("a", b"7", 7)
    assert dataclasses.replace(made, value=8).value == 8
    assert made == Decoded(nc, "a", data=b"7", value=7) != Decoded(nc, "a", data=b"7", value=8)


async def test_structural_matching(msg_class: Any, nc: Any) -> None:
    found = None
    match await received(nc, b"x", headers={"kind": "order"}):
        case msg_class(subject="elsewhere"):
            found = "elsewhere"
        case msg_class(data=b"x", headers={"kind": kind}):
            found = kind
    assert found == "order"


async def test_subclasses(msg_class: Any, nc: Any) -> None:
    class Wrapped(msg_class):  # type: ignore[misc]
        def __init__(self, msg: Any, value: int) -> None:
            super().__init__(msg._client, msg.subject, msg.reply, msg.data, msg.headers, _sid=msg.sid)
            self.value = value

        @property
        def text(self) -> str:
            return str(self.data.decode())

        async def ack(self) -> None:
            self.value += 1

    msg = await received(nc, b"one", reply="r")
    made = Wrapped(msg, 1)
    await made.ack()
    made.other = "hung"
    assert (made.text, made.value, made.other, made.sid, made.is_acked) == ("one", 2, "hung", msg.sid, False)
    made.data = b"two"
    assert (made.text, copy.copy(made).text, copy.copy(made).value, copy.copy(made).other) == ("two", "two", 2, "hung")
    assert isinstance(made, msg_class)
    await super(Wrapped, made).ack()
    assert made.is_acked


async def test_a_client_names_the_class_of_its_messages(face: Face, msg_class: Any, js: Any) -> None:
    class Own(msg_class):  # type: ignore[misc]
        pass

    client_class = face.load("aio.client").Client

    class OwnClient(client_class):  # type: ignore[misc]
        msg_class = Own

    async def echo(msg: Any) -> None:
        assert type(msg) is Own
        await msg.respond(msg.data)

    assert client_class.msg_class is msg_class
    stream = await make_stream(js)
    await spread(js, stream, 2)
    derived, single = OwnClient(), client_class()
    single.msg_class = Own
    for nc in (derived, single):
        await nc.connect(face.url)
        assert nc.msg_class is Own
        own = nc.jetstream()
        pulled = await own.pull_subscribe(f"{stream}.>")
        pushed = await own.subscribe(f"{stream}.>", ordered_consumer=True)
        await nc.subscribe(where := subject(), cb=echo)
        messages = [*await pulled.fetch(2), await pushed.next_msg(5), await received(nc, headers={"a": "1"})]
        messages.append(await nc.request(where, b"x", timeout=5))
        assert [type(msg) for msg in messages] == [Own] * 5
        assert (messages[3].headers, messages[3]._client, messages[0].data) == ({"a": "1"}, nc, b"0")
        await messages[0].ack_sync(timeout=20)
        await nc.close()
    assert type(await received(await face.connect())) is msg_class


@pytest.mark.parametrize("verb", VERBS)
async def test_verbs_are_coroutine_functions(msg_class: Any, nc: Any, verb: str) -> None:
    msg = await received(nc)
    for owner in (msg_class, msg):
        assert inspect.iscoroutinefunction(getattr(owner, verb))
        assert asyncio.iscoroutinefunction(getattr(owner, verb))
    for mocked in (mock.AsyncMock(spec=msg_class), mock.Mock(spec=msg_class), mock.create_autospec(msg_class)):
        assert inspect.iscoroutinefunction(getattr(mocked, verb))
    mocked = mock.AsyncMock(spec=msg_class)
    await getattr(mocked, verb)()
    getattr(mocked, verb).assert_awaited_once_with()
    with pytest.raises(AttributeError):
        _ = mocked.nothing_of_the_kind


async def test_a_verb_is_replaced_on_one_message(msg_class: Any, nc: Any) -> None:
    msg, other = await received(nc, reply="r"), await received(nc, reply="r")
    msg.ack = mock.AsyncMock()
    await msg.ack()
    msg.ack.assert_awaited_once_with()
    assert (msg.is_acked, msg.data, isinstance(msg, msg_class), msg.__class__) == (False, b"x", True, msg_class)
    with mock.patch.object(other, "ack") as ack:
        await other.ack()
        ack.assert_awaited_once_with()
    await other.ack()
    assert other.is_acked


async def test_a_verb_is_replaced_for_all(msg_class: Any, nc: Any) -> None:
    msg = await received(nc, reply="r")
    with mock.patch.object(msg_class, "ack", autospec=True) as ack:
        await msg.ack()
        ack.assert_awaited_once_with(msg)
    await msg.ack()
    assert msg.is_acked
