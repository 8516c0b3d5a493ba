"""Publishing with acknowledgements, headers and retries."""

from __future__ import annotations

import asyncio
from typing import Any

from ..case import Case


async def acknowledgements(case: Case) -> None:
    js = await case.context()
    await js.create_stream(name=case.name, subjects=[f"{case.name}.>"], storage="memory", max_msg_size=100)
    await case.call("first", js.publish(f"{case.name}.a", b"1"))
    await case.call("second", js.publish(f"{case.name}.a", b"2", headers={"A": "1"}))
    await case.call("empty", js.publish(f"{case.name}.b", b""))
    await case.call("too large", js.publish(f"{case.name}.a", bytes(200)))
    ack = await js.publish(f"{case.name}.c", b"3")
    case.note("equal", (ack == type(ack)(stream=ack.stream, sequence=4), ack == type(ack)(stream="x", sequence=4)))


async def ids_and_expectations(case: Case) -> None:
    js = await case.context()
    await js.create_stream(name=case.name, subjects=[f"{case.name}.>"], storage="memory")
    subject = f"{case.name}.a"
    for key in ("first", "duplicate"):
        await case.call(key, js.publish(subject, b"1", headers={"Nats-Msg-Id": "x"}))
    for key, name, value in [
        ("right stream", "Nats-Expected-Stream", case.name),
        ("wrong stream", "Nats-Expected-Stream", "other"),
        ("right sequence", "Nats-Expected-Last-Sequence", "2"),
        ("wrong sequence", "Nats-Expected-Last-Sequence", "1"),
        ("right subject sequence", "Nats-Expected-Last-Subject-Sequence", "3"),
        ("wrong subject sequence", "Nats-Expected-Last-Subject-Sequence", "9"),
        ("wrong id", "Nats-Expected-Last-Msg-Id", "y"),
        ("no number", "Nats-Expected-Last-Sequence", "x"),
    ]:
        await case.call(key, js.publish(subject, b"1", headers={name: value}))


async def times_to_live_and_rollups(case: Case) -> None:
    js = await case.context()
    stream = await js.create_stream(
        name=case.name, subjects=[f"{case.name}.>"], storage="memory", allow_msg_ttl=True, allow_rollup_hdrs=True
    )
    subject = f"{case.name}.a"
    await case.call("ttl", js.publish(subject, b"1", headers={"Nats-TTL": "1h"}))
    await case.call("wrong ttl", js.publish(subject, b"1", headers={"Nats-TTL": "x"}))
    await case.call("rollup", js.publish(subject, b"2", headers={"Nats-Rollup": "sub"}))
    await case.call("state", _messages(stream))
    await js.create_stream(name=f"{case.name}2", subjects=[f"{case.name}2.>"], storage="memory")
    await case.call("not allowed", js.publish(f"{case.name}2.a", b"1", headers={"Nats-TTL": "1h"}))


async def _messages(stream: Any) -> int:
    messages: int = (await stream.get_info()).state.messages
    return messages


async def counters(case: Case) -> None:
    js = await case.context()
    await js.create_stream(
        name=case.name, subjects=[f"{case.name}.>"], storage="memory", allow_msg_counter=True, allow_direct=True
    )
    for number in ("5", "-2", "x"):
        await case.call(number, js.publish(f"{case.name}.a", b"", headers={"Nats-Incr": number}))


async def without_a_stream(case: Case) -> None:
    js = await case.context()
    await case.call("defaults", js.publish(f"{case.name}.a", b"1"))
    await case.call("no retries", js.publish(f"{case.name}.a", b"1", retry_attempts=0))
    await case.call("one retry", js.publish(f"{case.name}.a", b"1", retry_attempts=1, retry_wait=0.01))
    await case.call("no time for a retry", js.publish(f"{case.name}.a", b"1", retry_wait=0.5, timeout=0.1))

    async def create() -> None:
        await js.create_stream(name=case.name, subjects=[f"{case.name}.>"], storage="memory")

    made = asyncio.ensure_future(create())
    await case.call("made meanwhile", js.publish(f"{case.name}.a", b"1", retry_attempts=100, retry_wait=0.05))
    await made


async def a_responder_that_is_no_stream(case: Case) -> None:
    js = await case.context()
    other = await case.connect()
    for key, answer in [
        ("stream", b'{"stream":"S","seq":7,"domain":"d","duplicate":true,"val":"9"}'),
        ("batch", b'{"stream":"S","seq":7,"batch":"b","count":2}'),
        ("error", b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 1"}}'),
    ]:
        subject = f"{case.name}.{key.replace(' ', '-')}"
        sub = await other.subscribe(subject)
        await other.flush()
        call = asyncio.ensure_future(js.publish(subject, b"1"))
        request = await sub.next(10)
        await other.publish(request.reply, answer)
        await case.call(key, call)


async def a_silent_responder(case: Case) -> None:
    js = await case.context()
    sub = await (other := await case.connect()).subscribe(f"{case.name}.a")
    await other.flush()
    await case.call("timeout", js.publish(f"{case.name}.a", b"1", timeout=0.1))
    await case.call("arrived", sub.next(10))


async def concurrent_publishes(case: Case) -> None:
    js = await case.context()
    await js.create_stream(name=case.name, subjects=[f"{case.name}.>"], storage="memory")
    acks = await asyncio.gather(*(js.publish(f"{case.name}.{number}", b"%d" % number) for number in range(500)))
    case.note("sequences", sorted(ack.sequence for ack in acks))
    case.note("streams", sorted({ack.stream for ack in acks}))


async def after_the_end(case: Case) -> None:
    client = await case.connect()
    js = case.jetstream.new(client)
    await client.close()
    await case.call("publish", js.publish(f"{case.name}.a", b"1"))
