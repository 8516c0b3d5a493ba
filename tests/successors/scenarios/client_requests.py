"""Requests and their errors."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ..case import Calls, Case


async def _service(case: Case, client: Any, answer: Any) -> None:
    sub = await client.subscribe(case.name)
    tasks: list[Any] = []

    def reply(message: Any) -> None:
        tasks.append(asyncio.ensure_future(answer(message)))

    sub.add_callback(reply)
    await client.flush()


async def request_returns_the_response(case: Case) -> None:
    client, service = await case.connect(), await case.connect()

    async def echo(message: Any) -> None:
        headers = message.headers.asdict() if message.headers else None
        await service.publish(message.reply, message.data[::-1], headers=headers)

    await _service(case, service, echo)
    await case.call("plain", client.request(case.name, b"abc"))
    await case.call("headers", client.request(case.name, b"abc", headers={"A": ["1", "2"]}))
    await case.call("empty", client.request(case.name, b"", timeout=5))
    many = await asyncio.gather(*(client.request(case.name, b"%d" % number) for number in range(200)))
    case.note("many", [message.data.decode()[::-1] for message in many] == [str(number) for number in range(200)])


async def request_without_responders(case: Case) -> None:
    client = await case.connect()
    await case.call("raises", client.request(case.name, b"x", timeout=20))
    await case.call("returned", client.request(case.name, b"x", timeout=20, return_on_error=True))
    await case.call("again", client.request(case.name, b"x", timeout=20))


async def request_times_out(case: Case) -> None:
    client = await case.connect()
    await client.subscribe(case.name)
    await case.call("timeout", client.request(case.name, b"x", timeout=0.05))
    await case.call("returned", client.request(case.name, b"x", timeout=0.05, return_on_error=True))


async def late_response_is_discarded(case: Case) -> None:
    client, service = await case.connect(), await case.connect()
    asked = Calls()
    sub = await service.subscribe(case.name)
    sub.add_callback(asked)
    await service.flush()
    await case.call("timeout", client.request(case.name, b"first", timeout=0.05))
    (first,) = await asked.wait(1)
    await service.publish(first.reply, b"late")
    await service.flush()

    async def respond() -> None:
        second = (await asked.wait(2))[1]
        await service.publish(second.reply, b"second")
        await service.publish(second.reply, b"third")

    task = asyncio.create_task(respond())
    await case.call("response", client.request(case.name, b"second", timeout=5))
    await task
    case.note("alive", await client.rtt() > 0)


async def jetstream_api_responses(case: Case) -> None:
    client = await case.connect()
    response = await client.request("$JS.API.INFO", b"")
    case.note("type", json.loads(response.data)["type"])
    case.note("headers", response.headers)
    await case.call("status", client.request(f"$JS.API.DIRECT.GET.{case.name}", b"{}"))


async def direct_get_status(case: Case) -> None:
    client = await case.connect()
    config = {"name": case.name, "subjects": [f"{case.name}.>"], "storage": "memory", "allow_direct": True}
    config["max_msgs_per_subject"] = 1
    await client.request(f"$JS.API.STREAM.CREATE.{case.name}", json.dumps(config).encode())
    get = f"$JS.API.DIRECT.GET.{case.name}"
    await case.call("not found raises", client.request(get, b'{"seq": 1}'))
    await case.call("not found returned", client.request(get, b'{"seq": 1}', return_on_error=True))
    await client.request(f"{case.name}.a", b"stored")
    found = await client.request(get, b'{"seq": 1}')
    case.note("found", (found.data, found.status, sorted(found.headers.asdict())))


async def cancelled_request_leaves_the_client_usable(case: Case) -> None:
    client = await case.connect()
    await client.subscribe(case.name)
    task = asyncio.create_task(client.request(case.name, b"x", timeout=10))
    await client.flush()
    task.cancel()
    await case.call("cancelled", task)
    await case.call("next", client.request(f"{case.name}.none", b""))


async def close_ends_pending_requests(case: Case) -> None:
    client = await case.connect()
    await client.subscribe(case.name)
    task = asyncio.create_task(client.request(case.name, b"x", timeout=10))
    await client.flush()
    await client.close()
    await case.call("request", task)
