"""Publish and subscribe, queue groups, headers, callbacks, inboxes and statistics."""

from __future__ import annotations

import asyncio
from typing import Any

from ..case import Calls, Case, until


async def _next(sub: Any, count: int) -> list[Any]:
    return [await sub.next(timeout=5) for _ in range(count)]


async def publish_reaches_subscription(case: Case) -> None:
    client = await case.connect()
    sub = await client.subscribe(f"{case.name}.a")
    await case.call("publish", client.publish(f"{case.name}.a", b"one"))
    await client.publish(f"{case.name}.a".encode(), b"", reply=f"{case.name}.reply")
    await client.publish(f"{case.name}.a", b"three", reply=f"{case.name}.r".encode(), headers={"A": "1"})
    case.note("messages", await _next(sub, 3))
    case.note("properties", (sub.subject, sub.queue, sub.closed, sub.pending, sub.dropped))


async def subscription_is_iterated(case: Case) -> None:
    client = await case.connect()
    async with await client.subscribe(case.name) as sub:
        for number in range(4):
            await client.publish(case.name, b"%d" % number)
        seen = []
        async for message in sub:
            seen.append(message.data)
            if len(seen) == 2:
                break
        async for message in sub.messages:
            seen.append(message.data)
            if len(seen) == 4:
                break
        case.note("seen", seen)
    case.note("closed", sub.closed)
    await case.call("next after the block", sub.next())
    case.note("iteration after the block", [message async for message in sub])


async def wildcards_and_bytes_subjects(case: Case) -> None:
    client = await case.connect()
    star = await client.subscribe(f"{case.name}.*.x".encode())
    rest = await client.subscribe(f"{case.name}.>")
    for tail in ("a.x", "b.x", "c", "d.e.f"):
        await client.publish(f"{case.name}.{tail}", tail.encode())
    case.note("star", [message.subject for message in await _next(star, 2)])
    case.note("rest", [message.subject for message in await _next(rest, 4)])
    case.note("subjects", (star.subject, rest.subject))


async def queue_group_members_share_messages(case: Case) -> None:
    client = await case.connect()
    members = [await client.subscribe(case.name, queue=group) for group in ("g", b"g")]
    alone = await client.subscribe(case.name)
    for number in range(20):
        await client.publish(case.name, b"%d" % number)
    await _next(alone, 20)
    await until(lambda: sum(member.pending[0] for member in members) == 20)
    got = [message.data for member in members for message in await _next(member, member.pending[0])]
    case.note("received once", sorted(got, key=int))
    case.note("queues", [member.queue for member in members])


async def headers_arrive(case: Case) -> None:
    client = await case.connect()
    sub = await client.subscribe(case.name)
    headers = case.client.Headers({"A": ["1", "2"], "b-C": "text", "Empty": ""})
    given: list[Any] = [headers, {"x": "y"}, {"x": ["1", "2", "3"]}, {"spaces": "  a b  "}, {"utf": "grüße"}, {}]
    for each in given:
        await client.publish(case.name, b"", headers=each)
    received = await _next(sub, len(given))
    case.note("headers", [message.headers for message in received])
    first = received[0].headers
    case.note("get", [first.get("A"), first.get("a"), first.get("none"), first.get_all("A"), first.get_all("none")])


async def headers_object(case: Case) -> None:
    headers_class = case.client.Headers
    headers = headers_class({"A": "1", "B": ["2", "3"]})
    headers.append("A", "more")
    headers.append("C", "new")
    headers.set("B", "only")
    headers.delete("none")
    case.note("after changes", headers)
    case.note("items", sorted((key, list(values)) for key, values in headers.items()))
    copied = headers.asdict()
    copied["Z"] = ["z"]
    case.note("asdict is a copy", headers.get("Z"))
    headers.delete("A")
    case.note("deleted", headers.get("A"))
    case.note("equal", headers_class({"A": "1"}) == headers_class({"A": ["1"]}))
    case.note("unequal", headers_class({"A": "1"}) == headers_class({"A": "2"}))
    case.note("equal to a dictionary", headers_class({"A": "1"}) == {"A": ["1"]})
    await case.call("number", lambda: headers_class({"A": 1}))
    await case.call("list of numbers", lambda: headers_class({"A": [1]}))


async def message_and_status_objects(case: Case) -> None:
    module = case.client
    case.note("message", module.Message("s", b"d"))
    case.note("full", module.Message("s", b"d", "r", module.Headers({"a": "b"}), module.Status("503", "No Responders")))
    case.note("status", (str(module.Status("503", "No Responders")), str(module.Status("100"))))
    case.note("equal", module.Message("s", b"d") == module.Message("s", b"d"))
    error = module.StatusError.from_status("404", "gone", subject="s")
    none = module.StatusError.from_status("503", "none")
    case.note("errors", [error, none, str(error), module.errors.SlowConsumerError("s", "1", 2, 3)])


async def callbacks_run_before_messages_are_queued(case: Case) -> None:
    client = await case.connect()
    sub = await client.subscribe(case.name)
    seen = Calls()
    lengths = []

    def failing(message: Any) -> None:
        raise ValueError("callback")

    sub.add_callback(failing)
    sub.add_callback(lambda message: lengths.append(sub.pending))
    sub.add_callback(seen)
    await client.publish(case.name, b"ab")
    await client.publish(case.name, b"c")
    case.note("callback", await seen.wait(2))
    case.note("pending in the callback", lengths)
    await until(lambda: sub.pending == (2, 3))
    sub.remove_callback(seen)
    sub.remove_callback(len)
    await client.publish(case.name, b"d")
    case.note("queued", [message.data for message in await _next(sub, 3)])
    case.note("not called", len(seen.all))


async def callbacks_may_publish(case: Case) -> None:
    client = await case.connect()
    service, replies = await client.subscribe(f"{case.name}.ask"), []

    def answer(message: Any) -> None:
        replies.append(asyncio.ensure_future(client.publish(message.reply, message.data.upper())))

    service.add_callback(answer)
    case.note("reply", await client.request(f"{case.name}.ask", b"hello"))
    await asyncio.gather(*replies)


async def next_times_out(case: Case) -> None:
    client = await case.connect()
    sub = await client.subscribe(case.name)
    await case.call("timeout", sub.next(timeout=0.05))
    await case.call("timeout 0", sub.next(timeout=0))
    await client.publish(case.name, b"later")
    await case.call("message", sub.next(5))


async def inboxes_have_the_prefix(case: Case) -> None:
    client = await case.connect()
    other = await case.connect(inbox_prefix=f"{case.name}.in")
    case.note("default", client.new_inbox())
    case.note("different", client.new_inbox() != client.new_inbox())
    inbox = other.new_inbox()
    case.note("own", (inbox.startswith(f"{case.name}.in."), len(inbox.removeprefix(f"{case.name}.in."))))
    service = await client.subscribe(case.name)
    seen = Calls()
    service.add_callback(lambda message: seen(message.reply.startswith(f"{case.name}.in.")))
    await client.flush()
    await case.call("request", other.request(case.name, b"", timeout=0.2))
    case.note("reply subject", await seen.wait(1))
    for bad in ("", "a.>", "a.*", "a."):
        await case.call(f"prefix {bad!r}", case.connect(inbox_prefix=bad))


async def statistics_count_messages_and_payload(case: Case) -> None:
    client = await case.connect()
    case.note("new", client.stats())
    sub = await client.subscribe(case.name)
    for data in (b"a", b"bcd", b""):
        await client.publish(case.name, data, headers={"h": "value"})
    await _next(sub, 3)
    before = client.stats()
    case.note("used", before)
    await client.publish(case.name, b"x")
    case.note("a snapshot", before.out_messages)


async def no_echo_excludes_own_messages(case: Case) -> None:
    quiet, other = await case.connect(no_echo=True), await case.connect()
    sub = await quiet.subscribe(case.name)
    await quiet.flush()
    await quiet.publish(case.name, b"own")
    await quiet.flush()
    await other.publish(case.name, b"other's")
    case.note("received", await sub.next(timeout=5))


async def flush_and_rtt(case: Case) -> None:
    client = await case.connect()
    await case.call("flush", client.flush())
    await case.call("flush in time", client.flush(timeout=5))
    rtt = await client.rtt()
    case.note("rtt", (type(rtt).__name__, 0 < rtt < 5))
    case.note("rtt in time", 0 < await client.rtt(timeout=5) < 5)


async def server_info_and_status(case: Case) -> None:
    client = await case.connect()
    case.note("info", client.server_info)
    case.note("status", client.status)
    case.note("error", client.last_error)


async def large_messages_and_many(case: Case) -> None:
    client = await case.connect()
    sub = await client.subscribe(case.name)
    await client.publish(case.name, b"x" * client.server_info.max_payload)
    case.note("large", len((await sub.next(timeout=10)).data))
    for number in range(5000):
        await client.publish(case.name, b"%d" % number)
    got = [int(message.data) for message in await _next(sub, 5000)]
    case.note("in order", got == list(range(5000)))
