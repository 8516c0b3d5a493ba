"""Services: endpoints, groups, errors, discovery and statistics."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import Client
from jetarrow.errors import NoRespondersError
from jetarrow.micro import add_service
from jetarrow.micro.request import Request, ServiceError
from jetarrow.micro.service import (
    EndpointConfig,
    GroupConfig,
    ServiceConfig,
    ServiceInfo,
    ServicePing,
    ServiceStats,
    ServiceVerb,
    control_subject,
)

from tests.tools import until


async def echo(request: Request) -> None:
    await request.respond(request.data, headers=request.headers)


async def asked(nc: Client, subject: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await nc.request(subject, b"", timeout=5)).data)
    return found


async def test_endpoint_answers_requests(nc: Client) -> None:
    async with await add_service(nc, name="svc", version="1.0.0") as service:
        await service.add_endpoint(name="echo", handler=echo)
        answer = await nc.request("echo", b"data", headers={"A": "1"}, timeout=20)
        assert (answer.data, answer.headers) == (b"data", {"A": "1"})
        seen: list[Any] = []

        async def look(request: Request) -> None:
            seen.append((request.subject, request.data, request.headers))
            await request.respond("text")

        await service.add_endpoint("look", look, subject="a.*.c")
        assert (await nc.request("a.b.c", b"x", timeout=20)).data == b"text"
        assert seen == [("a.b.c", b"x", None)]
    with pytest.raises(NoRespondersError):
        await nc.request("echo", b"", timeout=5)


async def test_service_answers_ping_and_info(nc: Client) -> None:
    config = ServiceConfig("says", "1.2.3-rc.1+b", description="a text", metadata={"k": "v"})
    async with await add_service(nc, config) as service:
        await service.add_endpoint("echo", echo, metadata={"m": "1"}, queue_group="mine")
        identity = {"id": service.id, "name": "says", "version": "1.2.3-rc.1+b", "metadata": {"k": "v"}}
        for name in ("", ".says", f".says.{service.id}"):
            ping = await asked(nc, f"$SRV.PING{name}")
            assert ping == {"type": "io.nats.micro.v1.ping_response", **identity}
            endpoint = {"name": "echo", "subject": "echo", "queue_group": "mine", "metadata": {"m": "1"}}
            info = await asked(nc, f"$SRV.INFO{name}")
            assert info == {
                "type": "io.nats.micro.v1.info_response",
                "description": "a text",
                "endpoints": [endpoint],
                **identity,
            }
        assert ServicePing.from_dict(ping).to_dict() == ping
        assert ServiceInfo.from_dict(info) == service.info()
        for subject in ("$SRV.PING.other", "$SRV.PING.says.other"):
            with pytest.raises(NoRespondersError):
                await nc.request(subject, b"", timeout=5)
        assert repr(service) == f"<Service: 'says' 1.2.3-rc.1+b, 1 endpoints, id {service.id}>"


async def test_service_answers_stats(nc: Client) -> None:
    def handler(stats: Any) -> dict[str, str]:
        return {"endpoint": stats.name}

    async def fails(request: Request) -> None:
        raise ValueError("no")

    async with await add_service(nc, name="counts", version="0.0.1", stats_handler=handler) as service:
        await service.add_endpoint("echo", echo)
        await service.add_endpoint("fails", fails)
        for _ in range(3):
            await nc.request("echo", b"", timeout=20)
        await nc.request("fails", b"", timeout=20)
        stats = await asked(nc, "$SRV.STATS.counts")
        assert stats["type"] == "io.nats.micro.v1.stats_response"
        one, two = stats["endpoints"]
        assert (one["num_requests"], one["num_errors"], one["last_error"]) == (3, 0, "")
        assert (two["num_requests"], two["num_errors"], two["last_error"]) == (1, 1, "ValueError('no')")
        assert one["average_processing_time"] == one["processing_time"] // 3 > 0
        assert (one["queue_group"], one["data"]) == ("q", {"endpoint": "echo"})
        read = ServiceStats.from_dict(stats)
        assert read.to_dict() == stats == service.stats().to_dict()
        assert abs(read.started - datetime.now(UTC).replace(tzinfo=None)) < timedelta(minutes=1)
        before = service.stats().started
        await service.reset()
        after = service.stats()
        assert after.started > before
        each = after.endpoints[1]
        assert (each.num_requests, each.num_errors, each.processing_time, each.last_error) == (0, 0, 0, None)
        # The statistics after a reset can be sent too.
        assert (await asked(nc, "$SRV.STATS.counts"))["endpoints"][1]["average_processing_time"] == 0


async def test_handler_errors_are_sent_as_error_responses(nc: Client) -> None:
    async def handle(request: Request) -> None:
        what = request.data.decode()
        if what == "service":
            raise ServiceError("404", "not here")
        if what == "other":
            raise RuntimeError("two\nlines")
        if what == "told":
            await request.respond_error("402", "pay\r\nfirst", data=b"more", headers={"A": "1"})
            return
        await request.respond(b"ok")

    async with await add_service(nc, name="errors", version="1.0.0") as service:
        await service.add_endpoint("do", handle)

        async def headers(data: bytes) -> dict[str, str]:
            return dict((await nc.request("do", data, timeout=20)).headers or {})

        assert await headers(b"service") == {"Nats-Service-Error": "not here", "Nats-Service-Error-Code": "404"}
        assert service.stats().endpoints[0].last_error == "404:not here"
        found = await headers(b"other")
        assert found["Nats-Service-Error-Code"] == "500"
        assert "RuntimeError" in found["Nats-Service-Error"]
        answer = await nc.request("do", b"told", timeout=20)
        assert answer.data == b"more"
        assert answer.headers == {"A": "1", "Nats-Service-Error": "pay first", "Nats-Service-Error-Code": "402"}
        assert await headers(b"fine") == {}
        stats = service.stats().endpoints[0]
        # An error response counts as an error, as in nats.go.
        assert (stats.num_requests, stats.num_errors, stats.last_error) == (4, 3, "402:pay\r\nfirst")


async def test_message_without_reply_subject_counts_as_error(nc: Client) -> None:
    async with await add_service(nc, name="silent", version="1.0.0") as service:
        await service.add_endpoint("echo", echo)
        await nc.publish("echo", b"x")
        await until(lambda: service.stats().endpoints[0].num_errors == 1)
        assert service.stats().endpoints[0].last_error == "ValueError('no reply subject set: not a request')"
        assert (await nc.request("echo", b"y", timeout=20)).data == b"y", "it goes on"


async def test_group_name_prefixes_endpoint_subjects(nc: Client) -> None:
    async with await add_service(nc, name="groups", version="1.0.0", queue_group="svc") as service:
        outer = service.add_group("v1")
        inner = outer.add_group(name="math", queue_group="own")
        await outer.add_endpoint(name="echo", handler=echo)
        await inner.add_endpoint(EndpointConfig(name="double", handler=echo, subject="x.double"))
        await inner.add_endpoint("alone", echo, queue_group_disabled=True)
        without = inner.add_group(GroupConfig("none", queue_group_disabled=True))
        await without.add_endpoint("a", echo)
        await without.add_endpoint("b", echo, queue_group="again")
        await service.add_endpoint("top", echo)
        found = [(each.name, each.subject, each.queue_group) for each in service.info().endpoints]
        assert found == [
            ("echo", "v1.echo", "svc"),
            ("double", "v1.math.x.double", "own"),
            ("alone", "v1.math.alone", ""),
            ("a", "v1.math.none.a", ""),
            ("b", "v1.math.none.b", "again"),
            ("top", "top", "svc"),
        ]
        for _, subject, _ in found:
            assert (await nc.request(subject, b"x", timeout=20)).data == b"x"


async def test_instances_share_requests_of_queue_group(nc: Client) -> None:
    services = [await add_service(nc, name="many", version="1.0.0") for _ in range(3)]
    for service in services:
        await service.add_endpoint("shared", echo)
        await service.add_endpoint("each", echo, queue_group_disabled=True)
    for _ in range(60):
        await nc.request("shared", b"", timeout=20)
    counts = [service.stats().endpoints[0].num_requests for service in services]
    assert sum(counts) == 60
    await nc.publish("each", b"x")
    await until(lambda: all(service.stats().endpoints[1].num_requests == 1 for service in services))
    assert len({service.id for service in services}) == 3
    for service in services:
        await service.stop()


async def test_stop_answers_received_requests(nc: Client) -> None:
    service = await add_service(nc, name="stops", version="1.0.0")
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> None:
        begun.set()
        await go.wait()
        await request.respond(b"done")

    await service.add_endpoint("slow", slow)
    answers = [asyncio.ensure_future(nc.request("slow", b"", timeout=10)) for _ in range(3)]
    await begun.wait()
    await nc.flush()
    stopping = asyncio.ensure_future(service.stop())
    await asyncio.sleep(0)
    go.set()
    # Received requests are answered.
    assert [answer.data for answer in await asyncio.gather(*answers)] == [b"done"] * 3
    await stopping
    await asyncio.wait_for(service.stopped.wait(), 20)
    await service.stop()
    for subject in ("slow", "$SRV.PING.stops"):
        with pytest.raises(NoRespondersError):
            await nc.request(subject, b"", timeout=5)
    assert service.info().endpoints == []


async def test_stop_after_closed_connection_returns(nats_url: str) -> None:
    nc = await jetarrow.connect(nats_url)
    service = await add_service(nc, name="closed", version="1.0.0")
    await service.add_endpoint("echo-closed", echo)
    await nc.close()
    await service.stop()
    assert service.stopped.is_set()


async def test_start_twice_subscribes_once(nc: Client) -> None:
    service = await add_service(nc, name="once", version="1.0.0")
    await service.start()
    inbox = nc.new_inbox()
    sub = await nc.subscribe(inbox)
    await nc.publish("$SRV.PING.once", b"", reply=inbox)
    await sub.next_msg(timeout=5)
    await nc.flush()
    assert sub.pending_msgs == 0, "one answer"
    await service.stop()


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "a b"},
        {"name": "a.b"},
        {"name": "a\n"},
        {"version": ""},
        {"version": "1"},
        {"version": "1.0"},
        {"version": "01.0.0"},
        {"version": "1.0.0\n"},
        {"version": "v1.0.0"},
        {"queue_group": "a b"},
    ],
)
def test_invalid_service_configuration_raises(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Invalid|empty"):
        ServiceConfig(**{"name": "a", "version": "1.0.0", **fields})


@pytest.mark.parametrize("version", ["0.0.0", "1.0.0", "10.20.30", "1.0.0-alpha", "1.0.0-a.1-b+x.y", "1.0.0+001"])
def test_semantic_versions_are_accepted(version: str) -> None:
    assert ServiceConfig("a", version).version == version


@pytest.mark.parametrize(
    "fields",
    [{"name": ""}, {"name": "a.b"}, {"subject": "a b"}, {"subject": ">.a"}, {"subject": "a\n"}, {"queue_group": "a b"}],
)
def test_invalid_endpoint_configuration_raises(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Invalid|empty"):
        EndpointConfig(**{"name": "a", "handler": echo, **fields})


async def test_keyword_arguments_override_configuration(nc: Client) -> None:
    async with await add_service(nc, ServiceConfig("a", "1.0.0"), description="d") as service:
        assert service.info().description == "d"
        for call in (
            service.add_endpoint("no handler"),
            service.add_endpoint(handler=echo),
            service.add_endpoint("a", echo, colour="red"),
        ):
            with pytest.raises(TypeError):
                await call
        with pytest.raises(TypeError):
            service.add_group("a", colour="red")
        with pytest.raises(ValueError, match="Invalid name"):
            service.add_group("a b")
    with pytest.raises(TypeError):
        await add_service(nc, name="a")  # type: ignore[call-arg]


def test_control_subject_has_verb_name_and_id() -> None:
    assert control_subject(ServiceVerb.PING) == "$SRV.PING"
    assert control_subject(ServiceVerb.INFO, "a") == "$SRV.INFO.a"
    assert control_subject(ServiceVerb.STATS, "a", "b", prefix="X") == "X.STATS.a.b"


async def test_sync_client_has_no_services(nats_url: str) -> None:
    with jetarrow.sync.connect(nats_url) as nc, pytest.raises(TypeError, match="callbacks"):
        await add_service(nc, name="a", version="1.0.0")  # type: ignore[arg-type]
