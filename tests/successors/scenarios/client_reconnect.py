"""Lost connections."""

from __future__ import annotations

import asyncio
from typing import Any

from ..case import Calls, Case, until

QUICK: dict[str, Any] = {"reconnect_time_wait": 0.05, "reconnect_time_wait_max": 0.1, "reconnect_max_attempts": 0}


async def _watched(case: Case, client: Any) -> tuple[Calls, Calls]:
    lost, back = Calls(), Calls()
    client.add_disconnected_callback(lost)
    client.add_reconnected_callback(back)
    return lost, back


async def restart_of_the_server(case: Case) -> None:
    server = case.server()
    client = await case.connect(server.url, **QUICK)
    lost, back = await _watched(case, client)
    sub = await client.subscribe(case.name)
    group = await client.subscribe(f"{case.name}.q", queue="g")
    await client.publish(case.name, b"before")
    case.note("before", (await sub.next(timeout=5)).data)
    await asyncio.to_thread(server.kill)
    await lost.wait(1)
    await until(lambda: client.status is not case.client.ClientStatus.CONNECTED)
    case.note("status while down", client.status)
    case.note("closed while down", sub.closed)
    await asyncio.to_thread(server.start)
    await back.wait(1)
    await until(lambda: client.status is case.client.ClientStatus.CONNECTED)
    await client.flush()
    await client.publish(case.name, b"after")
    await client.publish(f"{case.name}.q", b"to the group")
    case.note("after", [(await each.next(timeout=5)).data for each in (sub, group)])
    case.note("calls", (len(lost.all), len(back.all)))
    case.note("reconnects", client.stats().reconnects)


async def requests_work_after_a_restart(case: Case) -> None:
    server = case.server()
    client = await case.connect(server.url, **QUICK)
    _, back = await _watched(case, client)
    await case.call("before", client.request(case.name, b""))
    await asyncio.to_thread(server.restart)
    await back.wait(1)
    await client.flush()
    await case.call("after", client.request(case.name, b""))


async def callbacks_that_fail_do_not_stop_the_reconnect(case: Case) -> None:
    server = case.server()
    client = await case.connect(server.url, **QUICK)

    def failing() -> None:
        raise ValueError("callback")

    client.add_disconnected_callback(failing)
    client.add_reconnected_callback(failing)
    lost, back = await _watched(case, client)
    await asyncio.to_thread(server.restart)
    await back.wait(1)
    case.note("calls", (len(lost.all), len(back.all)))
    await client.flush()
    case.note("status", client.status)


async def without_reconnect_the_client_closes(case: Case) -> None:
    server = case.server()
    client = await case.connect(server.url, allow_reconnect=False)
    lost, back = await _watched(case, client)
    await asyncio.to_thread(server.kill)
    await until(lambda: client.status is case.client.ClientStatus.CLOSED)
    case.note("calls", (len(lost.all), len(back.all)))
    await case.call("publish", client.publish(case.name, b""))
    await case.call("subscribe", client.subscribe(case.name))
    await case.call("close", client.close())


async def attempts_end(case: Case) -> None:
    server = case.server()
    client = await case.connect(server.url, **{**QUICK, "reconnect_max_attempts": 2})
    lost, back = await _watched(case, client)
    sub = await client.subscribe(case.name)
    await asyncio.to_thread(server.kill)
    await until(lambda: client.status is case.client.ClientStatus.CLOSED)
    await lost.wait(1)
    case.note("calls", (len(lost.all), len(back.all)))
    await case.call("publish", client.publish(case.name, b""))
    case.note("subscription", sub.closed)


async def publish_while_down_is_sent_later(case: Case) -> None:
    server = case.server()
    client = await case.connect(server.url, **QUICK)
    lost, back = await _watched(case, client)
    sub = await client.subscribe(case.name)
    await client.flush()
    await asyncio.to_thread(server.kill)
    await lost.wait(1)
    await case.call("publish", client.publish(case.name, b"while down"))
    await asyncio.to_thread(server.start)
    await back.wait(1)
    case.note("received", (await sub.next(timeout=5)).data)


async def close_while_down(case: Case) -> None:
    server = case.server()
    client = await case.connect(server.url, **QUICK)
    lost, back = await _watched(case, client)
    await asyncio.to_thread(server.kill)
    await lost.wait(1)
    await case.call("close", client.close())
    case.note("status", client.status)
    case.note("calls", (len(lost.all), len(back.all)))
