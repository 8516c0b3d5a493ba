"""Single messages of a stream, from its leader and by direct get."""

from __future__ import annotations

from typing import Any

from ..case import Case

HEADERS = {"A": "1", "Nats-Msg-Id": "id-1", "b": "zwei"}


async def _filled(case: Case, js: Any, **options: Any) -> Any:
    stream = await js.create_stream(name=case.name, subjects=[f"{case.name}.>"], storage="memory", **options)
    await js.publish(f"{case.name}.a", b"one")
    await js.publish(f"{case.name}.a", b"two", headers=HEADERS)
    await js.client.publish(f"{case.name}.b", b"", headers={"M": ["x", "y"], "N": "ü"})
    await js.publish(f"{case.name}.b.c", bytes(range(256)))
    await js.publish(f"{case.name}.d", b"")
    return stream


async def _read(case: Case, stream: Any) -> None:
    for sequence in range(1, 6):
        message = await case.call(f"sequence {sequence}", stream.get_message(sequence))
        case.note(f"data {sequence}", (type(message.data).__name__, message.data))
        case.note(f"time {sequence}", message.time)
    for tail in ("a", "b", "b.c", "d"):
        await case.call(f"last of {tail}", stream.get_last_message_for_subject(f"{case.name}.{tail}"))
    await case.call("no such sequence", stream.get_message(9))
    await case.call("no such subject", stream.get_last_message_for_subject(f"{case.name}.x"))


async def messages_of_the_leader(case: Case) -> None:
    js = await case.context()
    stream = await _filled(case, js)
    await _read(case, stream)
    await case.call("last of a wildcard", stream.get_last_message_for_subject(f"{case.name}.*"))
    await case.call("by name", js.get_message(case.name, 2))
    await case.call("last by name", js.get_last_message_for_subject(case.name, f"{case.name}.a"))
    await case.call("no such message by name", js.get_message(case.name, 9))
    await case.call("no such stream", js.get_message(f"{case.name}X", 1))
    await case.call("sequence 0", stream.get_message(0))


async def messages_by_direct_get(case: Case) -> None:
    js = await case.context()
    stream = await _filled(case, js, allow_direct=True)
    await _read(case, stream)
    await case.call("by name", js.get_message(case.name, 2))
    await case.call("sequence 0", stream.get_message(0))


async def direct_get_of_wildcards(case: Case) -> None:
    js = await case.context()
    stream = await _filled(case, js, allow_direct=True)
    await case.call("star", stream.get_last_message_for_subject(f"{case.name}.*"))
    await case.call("rest", stream.get_last_message_for_subject(f"{case.name}.>"))
    await case.call("none", stream.get_last_message_for_subject(f"{case.name}.z.*"))


async def direct_get_in_a_domain(case: Case) -> None:
    server = case.server(config="jetstream { domain: hub }")
    js = case.jetstream.new(await case.connect(server.url), domain="hub")
    stream = await _filled(case, js, allow_direct=True)
    await case.call("sequence", stream.get_message(1))


async def direct_get_below_a_prefix(case: Case) -> None:
    server = case.server(
        config="""jetstream {}
        accounts {
          A { users: [{user: "a", password: "x"}], jetstream: enabled, exports: [{service: "$JS.API.>"}] }
          B { users: [{user: "b", password: "x"}],
              imports: [{service: {account: A, subject: "$JS.API.>"}, to: "$JS.A.API.>"}] }
        }"""
    )
    owner = case.jetstream.new(await case.connect(server.url, user="a", password="x"))
    await _filled(case, owner, allow_direct=True)
    js = case.jetstream.new(await case.connect(server.url, user="b", password="x"), prefix="$JS.A.API")
    stream = await js.get_stream(case.name)
    await case.call("sequence", stream.get_message(1))
    await case.call("subject", stream.get_last_message_for_subject(f"{case.name}.a"))


async def direct_get_of_a_deleted_stream(case: Case) -> None:
    js = await case.context()
    stream = await _filled(case, js, allow_direct=True)
    await js.delete_stream(case.name)
    await case.call("sequence", stream.get_message(1))


async def deleted_messages(case: Case) -> None:
    js = await case.context()
    stream = await _filled(case, js)
    await case.call("delete", stream.delete_message(1))
    await case.call("delete again", stream.delete_message(1))
    await case.call("secure delete", stream.secure_delete_message(2))
    await case.call("get deleted", stream.get_message(1))
    await case.call("get erased", stream.get_message(2))
    await case.call("last", stream.get_last_message_for_subject(f"{case.name}.a"))
    await case.call("no such message", stream.delete_message(77))
    case.note("state", (await stream.get_info()).state)
    denied = await js.create_stream(name=f"{case.name}D", storage="memory", deny_delete=True)
    await js.publish(f"{case.name}D", b"")
    await case.call("denied", denied.delete_message(1))
