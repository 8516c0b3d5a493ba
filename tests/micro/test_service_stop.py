"""`Service.stop` that is cancelled, called twice at once, or called by handlers."""

from __future__ import annotations

import asyncio

import pytest
from jetarrow import Client
from jetarrow.errors import NoRespondersError
from jetarrow.micro import add_service
from jetarrow.micro.request import Request


async def echo(request: Request) -> None:
    await request.respond(request.data)


class Slow:
    """A handler that waits for `go`."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: Request) -> None:
        self.begun.set()
        await self.go.wait()
        await request.respond(b"done")


async def test_stop_after_a_cancelled_one_ends_the_other_endpoints(nc: Client) -> None:
    service = await add_service(nc, name="again", version="1.0.0")
    slow = Slow()
    await service.add_endpoint("again-slow", slow.__call__)
    await service.add_endpoint("again-echo", echo)
    answer = asyncio.ensure_future(nc.request("again-slow", b"", timeout=20))
    await slow.begun.wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(service.stop(), 0.1)
    assert not service.stopped.is_set()
    await service.stop()
    assert service.stopped.is_set()
    for subject in ("again-slow", "again-echo", "$SRV.PING.again"):
        with pytest.raises(NoRespondersError):
            await nc.request(subject, b"", timeout=5)
    assert service.info().endpoints == []
    slow.go.set()
    assert (await answer).data == b"done"


async def test_second_stop_waits_for_the_first(nc: Client) -> None:
    service = await add_service(nc, name="both", version="1.0.0")
    slow = Slow()
    await service.add_endpoint("both-slow", slow.__call__)
    answer = asyncio.ensure_future(nc.request("both-slow", b"", timeout=20))
    await slow.begun.wait()
    stops = [asyncio.ensure_future(service.stop()) for _ in range(2)]
    done, _ = await asyncio.wait(stops, timeout=0.1)
    assert not done
    assert not service.stopped.is_set()
    slow.go.set()
    await asyncio.wait_for(asyncio.gather(*stops), 20)
    assert service.stopped.is_set()
    assert (await answer).data == b"done"


async def test_handlers_that_stop_their_service_at_once_do_not_wait_for_each_other(nc: Client) -> None:
    """Each stop waits for the handlers of other endpoints, one of which is the caller of the other stop."""
    service = await add_service(nc, name="own", version="1.0.0")
    both = asyncio.Barrier(2)

    async def stops(request: Request) -> None:
        await both.wait()
        await service.stop()
        await request.respond(b"stopped")

    for name in ("own-a", "own-b"):
        await service.add_endpoint(name, stops)
    answers = await asyncio.gather(*(nc.request(name, b"", timeout=20) for name in ("own-a", "own-b")))
    assert [answer.data for answer in answers] == [b"stopped"] * 2
    await asyncio.wait_for(service.stopped.wait(), 20)


async def test_a_handler_that_stops_its_service_leaves_no_request_unanswered(nc: Client) -> None:
    """Those behind its own are handled after it, so it does not wait for them."""
    service = await add_service(nc, name="queued", version="1.0.0")
    seen = 0

    async def stop(request: Request) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            while service._endpoints[0]._subscription.pending_msgs < 2:  # type: ignore[union-attr]
                await asyncio.sleep(0.01)
            await service.stop()
        await request.respond(request.data)

    await service.add_endpoint("queued-stop", stop)
    requests = [asyncio.ensure_future(nc.request("queued-stop", b"%d" % number, timeout=20)) for number in range(3)]
    assert [answer.data for answer in await asyncio.gather(*requests)] == [b"0", b"1", b"2"]
    assert service.stopped.is_set()


async def test_a_handler_that_awaits_a_cancelled_task_answers_with_an_error(nc: Client) -> None:
    service = await add_service(nc, name="cancelled", version="1.0.0")

    async def wait(request: Request) -> None:
        task = asyncio.ensure_future(asyncio.sleep(10))
        task.cancel()
        await task

    await service.add_endpoint("cancelled-wait", wait)
    answer = await nc.request("cancelled-wait", b"", timeout=5)
    assert (answer.headers or {})["Nats-Service-Error-Code"] == "500"
    (stats,) = service.stats().endpoints
    assert (stats.num_errors, "cancelled" in (stats.last_error or "")) == (1, True)
    await service.stop()
