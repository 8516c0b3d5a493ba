"""Core messaging without JetStream, 128 B: publish, subscribe and request, as a program for nats-py has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import core
import nats
import pytest
from harness import Group, Run

NATIVE = "jetarrow._jetarrow"
PUBLISH = Group("core publish, 128 B", "core", baseline="raw socket", peer="nats-py publish")
ITERATE = Group("core subscription, async for, 128 B", "core", baseline="raw socket", peer="nats-py async for")
CALLBACK = Group("core subscription, callback, 128 B", "core", baseline="raw socket", peer="nats-py callback")
REQUEST = Group("core requests, one after another, 128 B", "core", "raw socket", "nats-py request", count=5_000)
TASKS = Group("core requests, 100 tasks, 128 B", "core", "raw socket", "nats-py request, 100 tasks", count=60_000)


def both(group: Group, name: str, scenario: Callable[..., Awaitable[int]], nats_py_count: int | None = None) -> None:
    """The rows of jetarrow and nats-py. nats-py is slow: it may get fewer messages."""

    async def ours(run: Run) -> int:
        import jetarrow

        return await scenario(run, jetarrow.connect)

    async def theirs(run: Run) -> int:
        return await scenario(run, nats.connect)

    group.row(f"jetarrow {name}", needs=NATIVE)(ours)
    group.row(f"nats-py {name}", count=nats_py_count)(theirs)


PUBLISH.row("raw socket")(core.raw_publish)
ITERATE.row("raw socket")(core.raw_receive)
CALLBACK.row("raw socket")(core.raw_receive)
REQUEST.row("raw socket")(core.raw_request)
TASKS.row("raw socket")(core.raw_request_tasks)
both(PUBLISH, "publish", core.publish)
both(ITERATE, "async for", core.iterate, 60_000)
both(CALLBACK, "callback", core.callback, 60_000)
both(REQUEST, "request", core.request)
both(TASKS, "request, 100 tasks", core.request_tasks, 20_000)


@PUBLISH.row("jetarrow publish, sync", needs=NATIVE)
def publish_sync(run: Run) -> int:
    import jetarrow.sync

    payloads = run.payloads
    before = run.server_in()
    with jetarrow.sync.connect(run.url) as nc, run.clock():
        for payload in payloads:
            nc.publish(run.subject, payload)
        nc.flush(core.TIMEOUT)
    run.check_bytes(run.server_in() - before)
    return run.count


@REQUEST.row("jetarrow request, sync", needs=NATIVE)
def request_sync(run: Run) -> int:
    import jetarrow.sync

    payloads = run.payloads
    size = 0
    with jetarrow.sync.connect(run.url) as nc, core.process(run, "respond"), run.clock():
        for payload in payloads:
            size += len(nc.request(run.subject, payload, timeout=core.TIMEOUT).data)
    run.check_bytes(size)
    return len(payloads)


@pytest.mark.parametrize("name", PUBLISH.rows)
def test_core_publish(name: str, record: Callable[[Group, str], None]) -> None:
    record(PUBLISH, name)


@pytest.mark.parametrize("name", ITERATE.rows)
def test_core_iterate(name: str, record: Callable[[Group, str], None]) -> None:
    record(ITERATE, name)


@pytest.mark.parametrize("name", CALLBACK.rows)
def test_core_callback(name: str, record: Callable[[Group, str], None]) -> None:
    record(CALLBACK, name)


@pytest.mark.parametrize("name", REQUEST.rows)
def test_core_request(name: str, record: Callable[[Group, str], None]) -> None:
    record(REQUEST, name)


@pytest.mark.parametrize("name", TASKS.rows)
def test_core_request_tasks(name: str, record: Callable[[Group, str], None]) -> None:
    record(TASKS, name)
