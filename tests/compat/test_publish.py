"""Publishing to JetStream: the same with both clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .face import Face, make_stream, subject


def told(error: Any) -> tuple[int, int]:
    return error.code, error.err_code


async def test_what_an_ack_says(face: Face, js: Any, stream: str) -> None:
    first, second = await js.publish(f"{stream}.a", b"one"), await js.publish(f"{stream}.b")
    assert [type(ack) for ack in (first, second)] == [face.api.PubAck] * 2
    assert (first.stream, first.seq, bool(first.duplicate), first.domain) == (stream, 1, False, None)
    assert (second.stream, second.seq) == (stream, 2)
    stored = await js.get_msg(stream, 1)
    assert (stored.subject, stored.data, stored.headers) == (f"{stream}.a", b"one", None)


async def test_nobody_stores_it(face: Face, js: Any) -> None:
    failures = [await face.failure(js.publish(subject(), b"x"))]
    failures.append(await face.failure(await js.publish_async(subject(), b"x")))
    assert failures == ["js.errors.NoStreamResponseError"] * 2


async def test_no_answer(face: Face, nc: Any, js: Any) -> None:
    sub = await nc.subscribe(where := subject())
    failures = [await face.failure(js.publish(where, b"x", timeout=0.05))]
    failures.append(await face.failure(nc.jetstream(timeout=0.05).publish(where, b"y")))
    assert failures == ["errors.TimeoutError"] * 2
    assert [(await sub.next_msg(timeout=10)).data for _ in range(2)] == [b"x", b"y"]


async def test_the_expected_stream(face: Face, js: Any, stream: str) -> None:
    assert (await js.publish(f"{stream}.a", b"x", stream=stream)).seq == 1
    error = await face.raised(js.publish(f"{stream}.a", b"x", stream="OTHER"))
    assert (face.kind(error), told(error)) == ("js.errors.BadRequestError", (400, 10060))
    assert (await js.stream_info(stream)).state.messages == 1


async def test_a_message_id_is_stored_once(js: Any, stream: str) -> None:
    headers = {"Nats-Msg-Id": "order-123"}
    acks = [await js.publish(f"{stream}.a", b"x", headers=headers) for _ in range(3)]
    assert [(ack.seq, bool(ack.duplicate)) for ack in acks] == [(1, False), (1, True), (1, True)]
    assert (await js.stream_info(stream)).state.messages == 1


@pytest.mark.parametrize(
    ("header", "value", "err_code"),
    [
        ("Nats-Expected-Last-Sequence", "7", 10071),
        ("Nats-Expected-Last-Subject-Sequence", "7", 10071),
        ("Nats-Expected-Last-Msg-Id", "other", 10070),
        ("Nats-Expected-Stream", "OTHER", 10060),
    ],
)
async def test_expectations(face: Face, js: Any, stream: str, header: str, value: str, err_code: int) -> None:
    await js.publish(f"{stream}.a", b"1", headers={"Nats-Msg-Id": "one"})
    good = {
        "Nats-Expected-Last-Sequence": "1",
        "Nats-Expected-Last-Subject-Sequence": "1",
        "Nats-Expected-Last-Msg-Id": "one",
        "Nats-Expected-Stream": stream,
    }
    error = await face.raised(js.publish(f"{stream}.a", b"x", headers={header: value}))
    assert (face.kind(error), told(error)) == ("js.errors.BadRequestError", (400, err_code))
    assert isinstance(error, face.js_errors.APIError)
    assert error.description
    assert (await js.publish(f"{stream}.a", b"2", headers={header: good[header]})).seq == 2


async def test_a_full_stream(face: Face, js: Any) -> None:
    stream = await make_stream(js, max_msgs=2, discard="new")
    for _ in range(2):
        await js.publish(f"{stream}.a", b"x")
    error = await face.raised(js.publish(f"{stream}.a", b"x"))
    assert (face.kind(error), told(error)) == ("js.errors.ServiceUnavailableError", (503, 10077))


async def test_a_message_too_large_for_the_stream(face: Face, js: Any) -> None:
    stream = await make_stream(js, max_msg_size=100)
    error = await face.raised(js.publish(f"{stream}.a", b"x" * 200))
    assert (face.kind(error), told(error)) == ("js.errors.BadRequestError", (400, 10054))


async def test_a_sealed_stream(face: Face, js: Any, stream: str) -> None:
    await js.publish(f"{stream}.a", b"x")
    info = await js.stream_info(stream)
    info.config.sealed = True
    await js.update_stream(info.config)
    error = await face.raised(js.publish(f"{stream}.a", b"y"))
    assert (face.kind(error), told(error)) == ("js.errors.BadRequestError", (400, 10109))


async def test_a_time_to_live(face: Face, js: Any) -> None:
    stream = await make_stream(js, allow_msg_ttl=True)
    await js.publish(f"{stream}.a", b"x", msg_ttl=60)
    assert (await js.get_msg(stream, 1)).headers == {"Nats-TTL": "60"}
    without = await make_stream(js)
    error = await face.raised(js.publish(f"{without}.a", b"x", msg_ttl=60))
    assert (face.kind(error), told(error)) == ("js.errors.BadRequestError", (400, 10166))


async def test_headers_are_stored(js: Any, stream: str) -> None:
    await js.publish(f"{stream}.a", b"x", headers={"Name": "value", "Other": "more"})
    assert (await js.get_msg(stream, 1)).headers == {"Name": "value", "Other": "more"}


async def test_what_is_wrong_before_anything_is_sent(face: Face, nc: Any, js: Any, stream: str) -> None:
    big = b"x" * (nc.max_payload + 1)
    bad = [
        js.publish("", b""),
        js.publish("a b", b""),
        js.publish(f"{stream}.a", big),
        js.publish(f"{stream}.a", b"", headers={"a b": "c"}),
    ]
    bad_async = [js.publish_async("a b", b""), js.publish_async(f"{stream}.a", big)]
    kinds = ["BadSubjectError", "BadSubjectError", "MaxPayloadError", "BadHeaderError"]
    assert [await face.failure(call) for call in bad] == [f"errors.{kind}" for kind in kinds]
    assert [await face.failure(call) for call in bad_async] == ["errors.BadSubjectError", "errors.MaxPayloadError"]
    assert (await js.publish(f"{stream}.a", b"fine")).seq == 1


async def test_after_close(face: Face, nc: Any, js: Any) -> None:
    await nc.close()
    calls = [js.publish("a", b""), js.publish_async("a", b""), js.stream_info("A"), js.subscribe("a", stream="A")]
    assert [await face.failure(call) for call in calls] == ["errors.ConnectionClosedError"] * 4


async def test_publish_async(js: Any, stream: str) -> None:
    futures = [await js.publish_async(f"{stream}.a", b"%d" % number) for number in range(100)]
    assert all(isinstance(future, asyncio.Future) for future in futures)
    pending = js.publish_async_pending()
    await js.publish_async_completed()
    assert (pending > 0, js.publish_async_pending()) == (True, 0)
    assert [future.result().seq for future in futures] == list(range(1, 101))
    assert {future.result().stream for future in futures} == {stream}


async def test_nothing_pending_is_completed(js: Any) -> None:
    await asyncio.wait_for(js.publish_async_completed(), 10)
    assert js.publish_async_pending() == 0


async def test_publish_async_with_options(js: Any, stream: str) -> None:
    options = [{"stream": stream}, {"headers": {"Nats-Msg-Id": "a"}}, {"headers": {"Nats-Msg-Id": "a"}}]
    futures = [await js.publish_async(f"{stream}.a", b"x", **option) for option in options]
    acks = [await future for future in futures]
    assert [(ack.seq, bool(ack.duplicate)) for ack in acks] == [(1, False), (2, False), (2, True)]


async def test_publish_async_stalls_at_the_limit(face: Face, nc: Any) -> None:
    js = nc.jetstream(publish_async_max_pending=2)
    silent = await nc.subscribe(where := subject())
    first = [await js.publish_async(where, b"x") for _ in range(2)]
    failure = await face.failure(js.publish_async(where, b"y", wait_stall=0.05))
    assert (failure, js.publish_async_pending()) == ("js.errors.TooManyStalledMsgsError", 2)
    for _ in first:
        msg = await silent.next_msg(timeout=10)
        await nc.publish(msg.reply, b'{"stream": "S", "seq": 1}')
    assert [(await future).seq for future in first] == [1, 1]
    third = await js.publish_async(where, b"z", wait_stall=10)
    msg = await silent.next_msg(timeout=10)
    assert msg.data == b"z"
    await nc.publish(msg.reply, b'{"stream": "S", "seq": 3, "duplicate": true, "domain": "D"}')
    ack = await third
    assert (ack.stream, ack.seq, ack.duplicate, ack.domain) == ("S", 3, True, "D")


async def test_many_tasks_publish(js: Any, stream: str) -> None:
    acks = await asyncio.gather(*(js.publish(f"{stream}.a", b"%d" % number) for number in range(200)))
    assert sorted(ack.seq for ack in acks) == list(range(1, 201))
