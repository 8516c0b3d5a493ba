"""Pending limits of subscriptions and errors of the server."""

from __future__ import annotations

import asyncio
from typing import Any

from ..case import PATIENCE, Calls, Case, until

DENIED = """authorization { users: [
  { user: "anna", password: "x", permissions: { publish: { deny: ["no.>"] }, subscribe: { deny: ["no.>"] } } }
] }"""


async def _drops(case: Case, limits: dict[str, Any], sizes: list[int]) -> None:
    client = await case.connect()
    errors = Calls()
    client.add_error_callback(errors)
    sub = await client.subscribe(case.name, **limits)
    last = await client.subscribe(f"{case.name}.end")
    for size in sizes:
        await client.publish(case.name, b"x" * size)
    await client.publish(f"{case.name}.end", b"")
    await last.next(timeout=5)
    await errors.wait(1)
    case.note("pending", sub.pending)
    case.note("dropped", sub.dropped)
    case.note("errors", [(type(error).__name__, error.subject, type(error.sid).__name__) for error in errors.all])
    case.note("pending at the error", [(error.pending_messages, error.pending_bytes) for error in errors.all])
    first = await sub.next(timeout=5)
    case.note("first", len(first.data))
    await client.publish(case.name, b"y")
    await client.publish(f"{case.name}.end", b"")
    await last.next(timeout=5)
    case.note("after a message was taken", (sub.pending, sub.dropped, len(errors.all)))


async def message_limit_drops_new_messages(case: Case) -> None:
    await _drops(case, {"max_pending_messages": 3}, [1, 2, 3, 4, 5])


async def byte_limit_drops_new_messages(case: Case) -> None:
    await _drops(case, {"max_pending_bytes": 10}, [4, 4, 4, 2, 1])


async def no_limits(case: Case) -> None:
    client = await case.connect()
    sub = await client.subscribe(case.name, max_pending_messages=None, max_pending_bytes=None)
    for _ in range(1000):
        await client.publish(case.name, b"ab")
    await until(lambda: sub.pending == (1000, 2000))
    case.note("dropped", sub.dropped)


async def error_is_reported_once_per_burst(case: Case) -> None:
    client = await case.connect()
    errors = Calls()

    def failing(error: Any) -> None:
        raise ValueError("callback")

    client.add_error_callback(failing)
    client.add_error_callback(errors)
    sub = await client.subscribe(case.name, max_pending_messages=1)
    last = await client.subscribe(f"{case.name}.end")
    for burst in range(2):
        for _ in range(5):
            await client.publish(case.name, b"x")
        await client.publish(f"{case.name}.end", b"")
        await last.next(timeout=5)
        await errors.wait(burst + 1)
        case.note(f"burst {burst}", (len(errors.all), sub.dropped))
        await sub.next(timeout=5)


async def callbacks_of_dropped_messages(case: Case) -> None:
    client = await case.connect()
    seen = Calls()
    for name, limits in (("bytes", {"max_pending_bytes": 2}), ("messages", {"max_pending_messages": 2})):
        sub = await client.subscribe(f"{case.name}.{name}", **limits)
        sub.add_callback(lambda message: seen((message.subject.rpartition(".")[2], message.data)))
        for number in range(4):
            await client.publish(f"{case.name}.{name}", b"%d" % number)
        async with asyncio.timeout(PATIENCE):
            while sub.dropped[0] < 2:
                await client.flush()
        case.note(name, [data for kind, data in seen.all if kind == name])


async def permission_violations_reach_the_error_callback(case: Case) -> None:
    server = case.server(DENIED)
    client = await case.connect(server.url, user="anna", password="x")
    errors = Calls()
    client.add_error_callback(errors)
    await client.publish("no.way", b"")
    case.note("publish", [str(error) for error in await errors.wait(1)])
    case.note("last error", client.last_error)
    await client.subscribe("no.sub")
    case.note("subscribe", [str(error) for error in (await errors.wait(2))[1:]])
    case.note("status", client.status)
    case.note("kinds", [type(error).__name__ for error in errors.all])


async def message_above_max_payload(case: Case) -> None:
    server = case.server("max_payload: 1000")
    client = await case.connect(server.url, allow_reconnect=False)
    case.note("max_payload", client.server_info.max_payload)
    await case.call("publish", client.publish(case.name, b"x" * 1001))
