"""None and empty values, and what programs look for in texts and names."""

from __future__ import annotations

import asyncio
import functools
import re
from typing import Any

import pytest

from ..tools import until
from .face import Collector, Face, make_stream, spread, subject


@pytest.fixture
async def stream(js: Any) -> str:
    return await make_stream(js)


async def echo(nc: Any) -> str:
    async def answer(msg: Any) -> None:
        await msg.respond(msg.data)

    await nc.subscribe(where := subject(), cb=answer)
    await nc.flush()
    return where


@pytest.mark.parametrize("old_style", [False, True])
async def test_a_request_without_a_limit(nc: Any, old_style: bool) -> None:
    where = await echo(nc)
    assert (await nc.request(where, b"a", timeout=None, old_style=old_style)).data == b"a"


async def test_a_manager_without_a_limit(nc: Any) -> None:
    js = nc.jetstream(timeout=None)
    assert (await js.account_info()).streams >= 0
    stream = await make_stream(js)
    assert (await js.publish(f"{stream}.a", b"")).seq == 1


async def test_no_limits_of_a_subscription(nc: Any) -> None:
    sub = await nc.subscribe(where := subject(), queue="", max_msgs=0)
    await nc.publish(where, b"a")
    assert (await sub.next_msg(timeout=5)).data == b"a"


async def test_an_empty_durable_is_ephemeral(js: Any, stream: str) -> None:
    await spread(js, stream, 1)
    pull = await js.pull_subscribe(f"{stream}.>", durable="")
    push = await js.subscribe(f"{stream}.>", durable="")
    infos = [await pull.consumer_info(), await push.consumer_info()]
    assert [info.config.durable_name for info in infos] == [None, None]
    assert [msg.data for msg in await pull.fetch(1)] == [b"0"]
    assert (await push.next_msg(timeout=5)).data == b"0"


async def test_the_name_of_an_unnamed_consumer(js: Any, stream: str) -> None:
    info = await (await js.pull_subscribe(f"{stream}.>")).consumer_info()
    assert info.config.name == info.name
    assert info.config.durable_name is None


async def test_no_answer_no_subject(face: Face, nc: Any) -> None:
    calls = (nc.publish(None, b""), nc.publish("", b""), nc.subscribe(None), nc.request(None, b""))
    assert {await face.failure(call) for call in calls} == {"errors.BadSubjectError"}


async def test_skipping_the_check_of_subjects(face: Face) -> None:
    nc = await face.connect(skip_subject_validation=True)
    all_of_it = await nc.subscribe(">")
    await nc.flush()
    where = subject()
    await nc.publish(f"{where}.*.>", b"wildcards")
    msg = await all_of_it.next_msg(timeout=5)
    while not msg.subject.startswith(where):
        msg = await all_of_it.next_msg(timeout=5)
    assert (msg.subject, msg.data) == (f"{where}.*.>", b"wildcards")
    assert await face.failure(nc.subscribe("")) == "errors.BadSubjectError"
    assert nc.is_connected


@pytest.mark.parametrize("given", ["durable_name", "name"])
async def test_the_durable_of_a_configuration_holds(face: Face, js: Any, stream: str, given: str) -> None:
    await spread(js, stream, 3)
    config = functools.partial(face.api.ConsumerConfig, deliver_group="team", **{given: "mine"})
    # nats-py has no name for it, and makes another durable beside the name.
    queue = "mine" if given == "name" and face.name == "nats" else "workers"
    members = range(2 if face.name == "jetarrow" else 1)
    subs = [await js.subscribe(f"{stream}.>", queue=queue, config=config()) for _ in members]
    consumers = await js.consumers_info(stream)
    assert [(one.name, one.config.durable_name, one.config.deliver_group) for one in consumers] == [
        ("mine", "mine", "team")
    ]
    await until(lambda: sum(sub.pending_msgs for sub in subs) == 3)


async def test_equal_answers_are_equal(js: Any, stream: str) -> None:
    assert await js.stream_info(stream) == await js.stream_info(stream)
    await js.add_consumer(stream, durable_name="d", ack_policy="explicit")
    assert await js.consumer_info(stream, "d") == await js.consumer_info(stream, "d")
    before = await js.stream_info(stream)
    await spread(js, stream, 1)
    assert await js.stream_info(stream) != before


async def test_texts_that_programs_look_for(js: Any, stream: str) -> None:
    stored = {"name": "C", "subjects": ["c"]}
    for text, call in {
        "nats: invalid stream name: 'a b'": lambda: js.add_stream(name="a b"),
        "nats: invalid stream name: 'a.b'": lambda: js.stream_info("a.b"),
        "nats: stream name is required": lambda: js.delete_stream(""),
        "nats: invalid consumer name: 'a.b'": lambda: js.consumer_info(stream, "a.b"),
        "nats: consumer name is required": lambda: js.consumer_info(stream, ""),
        "nats: invalid store compression type: zip": lambda: js.add_stream(**stored, compression="zip"),
        "nats: invalid metadata format": lambda: js.add_stream(**stored, metadata=["a"]),
    }.items():
        with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
            await call()


async def test_names_that_programs_import(face: Face) -> None:
    client, parser, command = (face.load(path) for path in ("aio.client", "protocol.parser", "protocol.command"))
    assert (client.NO_RESPONDERS_STATUS, client.CTRL_STATUS) == ("503", "100")
    assert isinstance(client.__version__, str)
    assert (parser.PERMISSIONS_ERR, parser.STALE_CONNECTION) == ("permissions violation", "stale connection")
    assert (parser.INFO_OP, command.PUB_OP) == (b"INFO", "PUB")
    assert issubclass(parser.ErrProtocol, face.errors.ProtocolError)


async def test_privates_that_programs_read(face: Face, nc: Any) -> None:
    assert nc._server_info["version"]
    assert nc._server_info["max_payload"] == nc.max_payload
    assert len(nc._nuid.next()) == 22
    assert nc._nuid.next() != nc._nuid.next()
    assert bytes(nc._inbox_prefix) == b"_INBOX"
    assert nc._current_server.uri.netloc == face.url.removeprefix("nats://")
    await nc.close()


async def test_what_is_around_subscribe_sees_streams_too(
    face: Face, js: Any, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls, seen, got = type(js._nc), Collector(), Collector()
    subscribe = cls.subscribe

    async def traced(self: Any, *args: Any, cb: Any = None, **options: Any) -> Any:
        async def note(msg: Any) -> None:
            seen.add(msg)
            await cb(msg)

        return await subscribe(self, *args, cb=note if cb is not None else None, **options)

    monkeypatch.setattr(cls, "subscribe", traced)
    await spread(js, stream, 3)
    sub = await js.subscribe(f"{stream}.>", durable="d", cb=got.callback)
    await got.wait(3)
    assert seen.data == got.data == [b"0", b"1", b"2"]

    async def acknowledged() -> bool:
        return bool((await sub.consumer_info()).num_ack_pending == 0)

    await until(acknowledged)
    await asyncio.wait_for(sub.unsubscribe(), 20)
