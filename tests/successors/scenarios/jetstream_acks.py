"""Messages of a consumer: metadata and acknowledgements."""

from __future__ import annotations

import time
from typing import Any

from ..case import Case, until


async def _consumer(case: Case, count: int = 4, **options: Any) -> tuple[Any, Any]:
    js = await case.context()
    stream = await js.create_stream(name=case.name, subjects=[f"{case.name}.>"], storage="memory")
    for number in range(count):
        await js.publish(f"{case.name}.a", b"%d" % number)
    return js, await stream.create_consumer(**{"name": "c", "ack_policy": "explicit", **options})


async def _pending(case: Case, js: Any) -> int:
    pending: int = (await js.get_consumer_info(case.name, "c")).num_ack_pending
    return pending


async def verbs(case: Case) -> None:
    js, consumer = await _consumer(case)
    one, two, three, four = [message async for message in await consumer.fetch(max_messages=4, max_wait=5)]
    await one.in_progress()
    case.note("ack", await one.ack())
    case.note("double ack", await two.double_ack(timeout=20))
    case.note("double ack again", await two.double_ack(timeout=5))
    case.note("term", await three.term())
    case.note("term with reason", await four.term_with_reason("because"))

    async def none_is_pending() -> bool:
        return await _pending(case, js) == 0

    await until(none_is_pending)
    case.note("none", [message.data async for message in await consumer.fetch_nowait(max_messages=4)])


async def rejected_messages_come_again(case: Case) -> None:
    _, consumer = await _consumer(case, 2)
    one, two = [message async for message in await consumer.fetch(max_messages=2, max_wait=5)]
    await one.nak()
    again = await consumer.next(max_wait=5)
    case.note("again", (again.data, again.metadata.num_delivered, again.metadata.sequence.stream))
    await again.ack()
    begin = time.monotonic()
    await two.nak_with_delay(0.3)
    later = await consumer.next(max_wait=5)
    case.note("later", (later.data, later.metadata.num_delivered, time.monotonic() - begin > 0.2))


async def an_acknowledgement_twice(case: Case) -> None:
    _, consumer = await _consumer(case, 1)
    message = await consumer.next(max_wait=5)
    for number in range(2):
        await case.call(f"ack {number}", message.ack())
        await case.call(f"nak {number}", message.nak())
        await case.call(f"in progress {number}", message.in_progress())
        await case.call(f"term {number}", message.term())


async def acknowledgements_of_a_deleted_consumer(case: Case) -> None:
    js, consumer = await _consumer(case, 2)
    one, two = [message async for message in await consumer.fetch(max_messages=2, max_wait=5)]
    await js.delete_consumer(case.name, "c")
    await case.call("ack", one.ack())
    try:
        await two.double_ack(timeout=0.5)
        case.note("double ack", None)
    except Exception as error:
        case.note("double ack", type(error).__name__)


async def messages_that_a_program_makes(case: Case) -> None:
    module = case.module("jetstream.message")
    js = await case.context()
    own = module.Message(data=b"x", subject="s", reply=None, headers=None)
    case.note("own", (own.data, own.subject, own.reply, own.headers, own.metadata))
    for verb in ("ack", "double_ack", "nak", "in_progress", "term"):
        await case.call(f"{verb} without reply", getattr(own, verb)())
    reply = f"$JS.ACK.{case.name}.c.1.2.3.1700000000000000000.4"
    alone = module.Message(b"x", "s", reply, module.Headers({"A": "1"}))
    case.note("alone", (alone.headers, alone.metadata, alone.reply))
    await case.call("ack without context", alone.ack())
    await case.call("nak without context", alone.nak_with_delay(1))
    await case.call("term without context", alone.term_with_reason("x"))
    given = module.Metadata(module.SequencePair(1, 2), 3, 4, alone.metadata.timestamp, "S", "c", "d")
    case.note("given", module.Message(b"", "s", reply, None, metadata=given).metadata)
    await case.call("ack of an unknown consumer", module.Message(b"", "s", reply, None, jetstream=js).ack())


async def metadata_of_ack_subjects(case: Case) -> None:
    metadata = case.module("jetstream.message").Metadata
    for key, reply in {
        "old": "$JS.ACK.S.c.1.2.3.1700000000123456000.4",
        "oldest": "$JS.ACK.S.c.1.2.3.1700000000123456000",
        "new": "$JS.ACK._.hash.S.c.1.2.3.1700000000123456000.4",
        "new with a token": "$JS.ACK.dom.hash.S.c.1.2.3.1700000000123456000.4.token",
        "inbox": "_INBOX.x",
        "empty": "",
        "short": "$JS.ACK.S.c",
        "other": "$JS.NAK.S.c.1.2.3.1700000000123456000.4",
        "no number": "$JS.ACK.S.c.1.x.3.1700000000123456000.4",
    }.items():
        await case.call(key, lambda reply=reply: metadata.from_reply(reply))


async def after_the_end(case: Case) -> None:
    client = await case.connect()
    js = case.jetstream.new(client)
    stream = await js.create_stream(name=case.name, subjects=[f"{case.name}.>"], storage="memory")
    await js.publish(f"{case.name}.a", b"1")
    message = await (await stream.create_consumer(name="c", ack_policy="explicit")).next(max_wait=5)
    await client.close()
    for verb in ("ack", "double_ack", "nak", "in_progress", "term"):
        await case.call(verb, getattr(message, verb)())
