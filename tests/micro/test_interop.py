"""Interoperability of services with nats-py and the `nats` tool, in both directions."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import nats
import nats.micro
import nats.micro.service
import pytest
from jetarrow import Client
from jetarrow.errors import NoRespondersError, TimeoutError
from jetarrow.micro import add_service
from jetarrow.micro.request import Request
from jetarrow.micro.service import ServiceInfo, ServicePing, ServiceStats

from tests.tools import settle, until

Tool = Callable[..., str]


@pytest.fixture
def command(nats_url: str, nats_tool: str) -> list[str]:
    return [nats_tool, "--server", nats_url, "--no-context", "--timeout", "60s"]


@pytest.fixture
def tool(command: list[str]) -> Tool:
    """Runs `nats ...`, and returns its output."""

    def run(*arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
        done = subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def served(command: list[str]) -> Iterator[str]:
    """The name of a service that the `nats` tool, written in Go, provides."""
    name = f"go{time.monotonic_ns()}"
    with subprocess.Popen([*command, "service", "serve", name], stdout=subprocess.PIPE, text=True) as process:
        yield name
        process.terminate()


async def echo(request: Request) -> None:
    await request.respond(request.data)


async def test_nats_py_and_nats_tool_parse_our_responses(nc: Client, nats_url: str, tool: Tool) -> None:
    async with await add_service(
        nc, name="ours", version="1.2.3", description="a text", metadata={"k": "v"}
    ) as service:
        await service.add_group("g").add_endpoint("echo", echo, metadata={"m": "1"})
        theirs = await nats.connect(nats_url)
        # The request uses another connection.
        await nc.flush()

        async def asked(verb: str) -> Any:
            return json.loads((await theirs.request(f"$SRV.{verb}.ours", b"", timeout=20)).data)

        assert (await theirs.request("g.echo", b"x", timeout=20)).data == b"x"
        assert nats.micro.service.ServicePing.from_dict(await asked("PING")).id == service.id
        info = nats.micro.service.ServiceInfo.from_dict(await asked("INFO"))
        assert (info.description, info.endpoints[0].subject) == ("a text", "g.echo")
        stats = nats.micro.service.ServiceStats.from_dict(await asked("STATS"))
        assert (stats.endpoints[0].num_requests, stats.started.tzinfo) == (1, None)
        await theirs.close()

        assert "ours" in await asyncio.to_thread(tool, "service", "list")
        told = json.loads(await asyncio.to_thread(tool, "service", "info", "ours", service.id, "--json"))
        assert (told["info"]["id"], told["info"]["endpoints"][0]["subject"]) == (service.id, "g.echo")
        told = json.loads(await asyncio.to_thread(tool, "service", "stats", "ours", "--json"))
        assert [(each["id"], each["endpoints"][0]["num_requests"]) for each in told] == [(service.id, 1)]
        assert (await asyncio.to_thread(tool, "request", "--raw", "g.echo", "hello")).strip() == "hello"


async def test_responses_of_nats_py_are_parsed(nc: Client, nats_url: str) -> None:
    theirs = await nats.connect(nats_url)
    service = await nats.micro.add_service(theirs, name="theirs", version="1.0.0")
    await service.add_endpoint(name="echo", subject="theirs.echo", handler=echo)
    # Another connection: the request must not precede nats-py's subscriptions.
    await settle(theirs)
    assert (await nc.request("theirs.echo", b"x", timeout=20)).data == b"x"

    async def asked(verb: str) -> Any:
        return json.loads((await nc.request(f"$SRV.{verb}.theirs", b"", timeout=20)).data)

    assert ServicePing.from_dict(await asked("PING")).id == service.id
    info = ServiceInfo.from_dict(await asked("INFO"))
    assert (info.endpoints[0].subject, info.endpoints[0].metadata) == ("theirs.echo", {})
    assert ServiceStats.from_dict(await asked("STATS")).endpoints[0].num_requests == 1
    await service.stop()
    await theirs.close()


async def test_responses_of_go_are_parsed(nc: Client, served: str) -> None:
    async def there() -> bool:
        try:
            await nc.request(f"$SRV.PING.{served}", b"", timeout=5)
        except (NoRespondersError, TimeoutError):
            return False
        return True

    await until(there)

    async def asked(verb: str) -> Any:
        return json.loads((await nc.request(f"$SRV.{verb}.{served}", b"", timeout=20)).data)

    assert ServicePing.from_dict(await asked("PING")).name == served
    info = ServiceInfo.from_dict(await asked("INFO"))
    assert info.endpoints
    stats = ServiceStats.from_dict(await asked("STATS"))
    assert [each.name for each in stats.endpoints] == [each.name for each in info.endpoints]
    assert stats.started.tzinfo is None
