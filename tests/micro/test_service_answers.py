"""Responses of services: after `add_endpoint` returns, with errors of any size, with statistics after failures."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import jetarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetarrow import Client
from jetarrow.errors import Error, FlushTimeoutError, MaxPayloadError, NoRespondersError
from jetarrow.micro import add_service
from jetarrow.micro.request import Request, ServiceError, truncate
from jetarrow.micro.service import Service
from jetarrow.server import NatsServer

from tests.strategies import bounded
from tests.tools import until

MAX_PAYLOAD = 4096


async def echo(request: Request) -> None:
    await request.respond(request.data)


class Failing(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no repr either")


@pytest.fixture
async def errors() -> list[Exception]:
    return []


@pytest.fixture
async def small(errors: list[Exception]) -> AsyncIterator[Client]:
    """A connection to a server with a `max_payload` of 4 KiB."""

    async def take(error: Exception) -> None:
        errors.append(error)

    with NatsServer(config=f"max_payload: {MAX_PAYLOAD}") as server:
        async with await jetarrow.connect(server.url, error_cb=take) as nc:
            yield nc


async def stats_of(nc: Client, service: Service) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await nc.request(f"$SRV.STATS.{service._config.name}", b"", timeout=5)).data)
    return found


async def test_endpoint_answers_another_client_after_add_endpoint_returns(nc: Client, nats_url: str) -> None:
    async with await jetarrow.connect(nats_url) as other, await add_service(nc, name="soon", version="1.0.0") as svc:
        group = svc.add_group("soon")
        for number in range(200):
            await (group if number % 2 else svc).add_endpoint("e", echo, subject=f"soon-{number}")
            subject = f"soon.soon-{number}" if number % 2 else f"soon-{number}"
            assert (await other.request(subject, b"x", timeout=5)).data == b"x"


async def test_unconfirmed_endpoint_is_not_added(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        service = await add_service(nc, name="paused", version="1.0.0")
        flush = nc.flush

        async def late(timeout: float | None = None) -> None:
            raise FlushTimeoutError

        nc.flush = late  # type: ignore[assignment, method-assign]
        with pytest.raises(FlushTimeoutError):
            await service.add_endpoint("echo", echo)
        again = Service(nc, service._config)
        with pytest.raises(FlushTimeoutError):
            await again.start()
        nc.flush = flush  # type: ignore[method-assign]
        await nc.flush()
        assert service.info().endpoints == []
        with pytest.raises(NoRespondersError):
            await nc.request("echo", b"", timeout=5)
        await service.add_endpoint("echo", echo)
        assert (await nc.request("echo", b"x", timeout=5)).data == b"x"
        await again.start()
        assert json.loads((await nc.request(f"$SRV.PING.paused.{again.id}", b"", timeout=5)).data)["id"] == again.id


@pytest.mark.parametrize(
    ("error", "code", "begin"),
    [
        (RuntimeError("x" * 2 * MAX_PAYLOAD), "500", "RuntimeError('xxx"),
        (RuntimeError("ü€𐍈" * MAX_PAYLOAD), "500", "RuntimeError('ü€𐍈ü"),
        (ServiceError("404", "y" * 2 * MAX_PAYLOAD), "404", "yyy"),
        (RuntimeError("lone \ud800 surrogate"), "500", "RuntimeError('lone "),
        (ServiceError("404", "lone \ud800 surrogate"), "404", "lone ? surrogate"),
        (ServiceError(404, "a number"), "404", "a number"),  # type: ignore[arg-type]
        (ServiceError("404", None), "404", "None"),  # type: ignore[arg-type]
        (ServiceError("4\r\n04", "a\r\nb\x00c"), "4 04", "a b"),
        (Failing(), "500", "Failing"),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, Failing) else "Failing",
)
async def test_error_with_any_text_is_sent(small: Client, error: Exception, code: str, begin: str) -> None:
    async def fails(request: Request) -> None:
        raise error

    async with await add_service(small, name="errors", version="1.0.0") as service:
        await service.add_endpoint("do", fails)
        answer = await small.request("do", b"", timeout=5)
        assert answer.headers is not None
        text = answer.headers["Nats-Service-Error"]
        assert answer.headers["Nats-Service-Error-Code"] == code
        assert text.startswith(begin)
        assert len(text.encode()) < MAX_PAYLOAD
        assert text.endswith(" ... (cut)") == (len(str(error) if not isinstance(error, Failing) else "") > MAX_PAYLOAD)
        # The same error in the statistics does not make that response too large.
        (endpoint,) = (await stats_of(small, service))["endpoints"]
        assert endpoint["num_errors"] == 1
        assert len(endpoint["last_error"].encode("utf-8", "replace")) <= 1024


async def test_error_description_is_truncated_to_max_payload(small: Client) -> None:
    async def fails(request: Request) -> None:
        await request.respond_error("402", "z" * MAX_PAYLOAD, data=b"d" * 3000, headers={"A": "b" * 500})

    async def too_large(request: Request) -> None:
        await request.respond_error("402", "z", data=b"d" * MAX_PAYLOAD)

    async with await add_service(small, name="errors", version="1.0.0") as service:
        await service.add_endpoint("do", fails)
        await service.add_endpoint("large", too_large)
        answer = await small.request("do", b"", timeout=5)
        assert (answer.data, (answer.headers or {})["A"]) == (b"d" * 3000, "b" * 500)
        # Exactly the limit.
        text = (answer.headers or {})["Nats-Service-Error"]
        assert 400 < len(text) < 596
        answer = await small.request("large", b"", timeout=5)
        assert (answer.headers or {})["Nats-Service-Error-Code"] == "500"
        assert "MaxPayloadError" in (answer.headers or {})["Nats-Service-Error"]


@bounded(300)
@given(st.text(max_size=40), st.integers(-5, 100))
def test_truncated_text_fits_and_is_a_prefix(text: str, size: int) -> None:
    found = truncate(text, size)
    data = text.encode("utf-8", "surrogatepass")
    assert len(found.encode("utf-8", "surrogatepass")) <= max(size, 0) or found == text
    if len(data) <= size:
        assert found == text
    else:
        assert text.startswith(found.removesuffix(" ... (cut)"))


async def test_stats_omit_data_when_handler_fails(
    small: Client, errors: list[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    def handler(stats: Any) -> Any:
        if stats.name == "bad":
            raise LookupError("no data")
        return {"name": stats.name}

    async with await add_service(small, name="stats", version="1.0.0", stats_handler=handler) as service:
        for name in ("good", "bad"):
            await service.add_endpoint(name, echo)
        found = await stats_of(small, service)
        assert [(each["name"], each["data"]) for each in found["endpoints"]] == [
            ("good", {"name": "good"}),
            ("bad", None),
        ]
        assert [each.data for each in service.stats().endpoints] == [{"name": "good"}, None]
        await until(lambda: len(errors) == 2)
        assert {type(error) for error in errors} == {LookupError}


@pytest.mark.parametrize(
    ("data", "kind"), [(object(), TypeError), ({1, 2}, TypeError), ("x" * MAX_PAYLOAD, MaxPayloadError)]
)
async def test_stats_omit_data_that_cannot_be_sent(
    small: Client, errors: list[Exception], data: Any, kind: type[Exception]
) -> None:
    async with await add_service(small, name="stats", version="1.0.0", stats_handler=lambda _: data) as service:
        await service.add_endpoint("one", echo)
        (endpoint,) = (await stats_of(small, service))["endpoints"]
        assert (endpoint["name"], endpoint["data"]) == ("one", None)
        await until(lambda: errors)
        assert isinstance(errors[0], kind)
        assert "stats" in str(errors[0])


async def test_response_above_max_payload_is_an_error(small: Client, errors: list[Exception]) -> None:
    async with await add_service(small, name="large", version="1.0.0") as service:
        for number in range(100):
            await service.add_endpoint(f"endpoint-{number}", echo)
        for verb in ("STATS", "INFO"):
            answer = await small.request(f"$SRV.{verb}.large", b"", timeout=5)
            assert (answer.headers or {})["Nats-Service-Error-Code"] == "500"
            assert "MaxPayloadError" in (answer.headers or {})["Nats-Service-Error"]
        await until(lambda: len(errors) == 2)
        assert {type(error) for error in errors} == {MaxPayloadError}


async def test_failing_stats_handler_is_logged_without_error_cb(nc: Client, caplog: pytest.LogCaptureFixture) -> None:
    def handler(stats: Any) -> Any:
        raise LookupError("no data")

    async with await add_service(nc, name="logged", version="1.0.0", stats_handler=handler) as service:
        await service.add_endpoint("one", echo)
        assert (await stats_of(nc, service))["endpoints"][0]["data"] is None
        await until(lambda: "LookupError: no data" in caplog.text)


async def test_stop_while_an_endpoint_is_added_stops_it(nc: Client) -> None:
    service = await add_service(nc, name="stopped", version="1.0.0")
    adding = asyncio.ensure_future(service.add_endpoint("stopped-e", echo))
    await asyncio.sleep(0)
    await service.stop()
    with contextlib.suppress(Error):
        await adding
    with pytest.raises(NoRespondersError):
        await nc.request("stopped-e", b"", timeout=5)
