"""A panic in one of our tasks fails every call that waits for it, and is never a regular end. Debug builds only."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from typing import Any

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow import _jetarrow, errors
from jetarrow.aio.client import Client
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import BatchError

from .tools import fill, until, wait_until

pytestmark = pytest.mark.skipif(not _jetarrow.__debug_build__, reason="only a debug build can be made to panic")


@pytest.fixture(autouse=True)
def quiet(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Checks that every panic is logged, and that none is printed."""
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("jetarrow")
    logger.addHandler(handler)
    try:
        yield
        begin = "a panic in native code, please report it: forced in "
        wait_until(lambda: any(text.startswith(begin) and "task.rs" in text for text in logged))
    finally:
        # A panic that no task has reached must not happen in the next test.
        _jetarrow.force_panic("")
        logger.removeHandler(handler)
    assert capfd.readouterr().err == ""


@pytest.fixture
async def events() -> list[str]:
    """Arguments of the callbacks of `told`."""
    return []


@pytest.fixture
async def told(nats_url: str, events: list[str]) -> AsyncIterator[Client]:
    """A client whose connection ends in the test."""

    async def failed(error: Exception) -> None:
        events.append(str(error))

    async def closed() -> None:
        events.append("closed")

    async with await jetarrow.connect(nats_url, error_cb=failed, closed_cb=closed) as nc:
        yield nc


async def force(spot: str, act: Callable[[], Awaitable[object]], waiting: Collection[asyncio.Future[Any]]) -> None:
    """Forces the panic and acts until `waiting` ends; a client of an earlier test may reach the place first."""
    async with asyncio.timeout(60):
        while not all(future.done() for future in waiting):
            _jetarrow.force_panic(spot)
            # The panic may end the connection that `act` uses.
            with suppress(errors.Error, RuntimeError):
                await act()
            await asyncio.wait(waiting, timeout=1)


async def reconnect(nc: Client) -> None:
    await nc._session.run(nc._session.native.force_reconnect())


async def ended(nc: Client, events: list[str], spot: str) -> None:
    """Checks that the connection is closed with the reason, and that every later call reports it at once."""
    await until(lambda: "closed" in events)
    assert [event for event in events if f"forced in {spot}" in event]
    assert nc.is_closed
    assert f"forced in {spot}" in str(nc.last_error)
    async with asyncio.timeout(5):
        for verb in (nc.flush(), nc.request("a", b""), nc.publish("a", b""), nc.subscribe("a")):
            with pytest.raises(Exception, match=f"forced in {spot}|closed"):
                await verb


async def test_panic_in_a_call_fails_that_call(nats_url: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        _jetarrow.force_panic("call")
        with pytest.raises(RuntimeError, match="forced in Call"):
            await nc.flush()
        await nc.flush()


def test_panic_in_a_blocking_call_fails_that_call(nats_url: str) -> None:
    with jetarrow.sync.connect(nats_url) as nc:
        _jetarrow.force_panic("call")
        with pytest.raises(RuntimeError, match="forced in Call"):
            nc.flush()
        nc.flush()


async def test_panic_in_a_reader_fails_the_read(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 1_000)
    _jetarrow.force_panic("reader")
    with pytest.raises(RuntimeError, match="forced in Reader"):
        await js.read(stream).read_all()
    async with js.read(stream) as reader:
        assert sum([len(batch) async for batch in reader]) == 1_000
    _jetarrow.force_panic("reader")
    async with js.read(stream) as reader:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="forced in Reader"):
                await anext(reader)


def test_panic_in_a_reader_fails_its_arrow_stream(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sync_js.publish(f"{stream}.a", b"x")
    with sync_js.read(stream) as reader:
        assert len(pa.RecordBatchReader.from_stream(reader).read_all()) == 1
    _jetarrow.force_panic("reader")
    with sync_js.read(stream) as reader, pytest.raises(pa.ArrowException, match="forced in Reader"):
        pa.RecordBatchReader.from_stream(reader).read_all()


async def test_panic_in_a_publisher_fails_its_futures(js: JetStreamContext, stream: str) -> None:
    publisher = js.publisher(f"{stream}.a")
    await (await publisher.publish(b"stored"))
    failures: set[str] = set()
    # Forced again if a publisher that an earlier test has left panics first.
    while not failures:
        _jetarrow.force_panic("publisher")
        futures = [await publisher.publish(b"x") for _ in range(300)]
        outcomes = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 20)
        failures = {str(outcome) for outcome in outcomes if isinstance(outcome, RuntimeError)}
    assert failures == {"internal error (please report it): forced in Publisher"}
    assert isinstance(outcomes[-1], RuntimeError)
    with pytest.raises(RuntimeError, match="forced in Publisher"):
        await (await publisher.publish(b"later"))
    await asyncio.wait_for(publisher.flush(), 20)
    assert publisher.pending == 0


def test_panic_in_a_blocking_publisher_raises_batch_error(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    # As publishers that earlier tests have left: one of them may panic first.
    others = [sync_js.publisher(f"{stream}.b") for _ in range(4)]
    for other in others:
        other.publish(b"x").result(20)
    with pytest.raises(BatchError, match="forced in Publisher"), sync_js.publisher(f"{stream}.a") as publisher:
        while publisher.stats.errors == 0:
            _jetarrow.force_panic("publisher")
            publisher.publish(b"x")
            publisher.flush()


async def test_panic_in_a_subscription_fails_only_that_subscription(nc: Client) -> None:
    sub = await nc.subscribe("panic.a")
    other = await nc.subscribe("panic.b")
    await nc.publish("panic.a", b"1")
    await nc.flush()
    assert (await sub.next_msg()).data == b"1"
    _jetarrow.force_panic("subscription")
    waiting = asyncio.ensure_future(sub.next_msg(10))
    await nc.publish("panic.a", b"2")
    with pytest.raises(RuntimeError, match="forced in Subscription"):
        await waiting
    with pytest.raises(RuntimeError, match="forced in Subscription"):
        async for _ in sub.messages:
            pass
    # Other subscriptions continue.
    await nc.publish("panic.b", b"3")
    assert (await other.next_msg(20)).data == b"3"


@pytest.mark.parametrize("kind", ["callback", "future"])
async def test_panic_in_a_delivering_subscription_is_reported(told: Client, events: list[str], kind: str) -> None:
    async def cb(msg: object) -> None:
        pass

    future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    await told.subscribe("panic.c", cb=cb) if kind == "callback" else await told.subscribe("panic.c", future=future)
    _jetarrow.force_panic("subscription")
    await told.publish("panic.c", b"x")
    if kind == "future":
        with pytest.raises(RuntimeError, match="forced in Subscription"):
            await asyncio.wait_for(future, 20)
    else:
        await until(lambda: events)
        assert ["forced in Subscription" in event for event in events] == [True]
        assert str(told.last_error) == events[0]


async def test_panic_in_the_row_reader_fails_the_batch(js: JetStreamContext, stream: str) -> None:
    table = pa.table({"data": [b"x"] * 10})
    _jetarrow.force_panic("rows")
    with pytest.raises(RuntimeError, match="forced in Rows"):
        await js.publish_batch(f"{stream}.a", table.to_reader())
    assert (await js.stream_info(stream)).state.messages == 0


async def test_panic_in_the_outbox_closes_the_connection(told: Client, events: list[str]) -> None:
    sub = await told.subscribe("panic.d")
    waiting = asyncio.ensure_future(sub.next_msg(10))
    answer = asyncio.ensure_future(told.request("panic.d", b"", timeout=10))
    await waiting
    # A subscription is queued in the outbox; a message bypasses it if nothing else is queued.
    await force("outbox", lambda: told.subscribe("panic.more"), [answer])
    # The panic may have been reported already.
    with pytest.raises(Exception, match=r"forced in Outbox|closed"):
        await asyncio.wait_for(told.flush(), 20)
    with pytest.raises(RuntimeError, match="forced in Outbox"):
        await answer
    with pytest.raises(RuntimeError, match="forced in Outbox"):
        async for _ in sub.messages:
            pass
    await ended(told, events, "Outbox")


@pytest.mark.parametrize("spot", ["Answers", "Expiry", "Refusals"])
async def test_panic_in_request_handling_closes_the_connection(told: Client, events: list[str], spot: str) -> None:
    await told.subscribe("panic.e")
    requests = [asyncio.ensure_future(told.request("panic.e", b"", timeout=30)) for _ in range(3)]
    await told.flush()

    async def answered() -> None:
        await told.request("nobody.listens", b"", timeout=30)

    async def expired() -> None:
        await told.request("panic.e", b"", timeout=0.1)

    acts = {"Answers": answered, "Expiry": expired, "Refusals": lambda: reconnect(told)}
    await force(spot, acts[spot], requests)
    for outcome in await asyncio.gather(*requests, return_exceptions=True):
        assert isinstance(outcome, RuntimeError)
        assert f"forced in {spot}" in str(outcome)
    await ended(told, events, spot)


async def test_panic_in_the_connection_task_closes_the_connection(told: Client, events: list[str]) -> None:
    sub = await told.subscribe("panic.f")
    request = asyncio.ensure_future(told.request("panic.f", b"", timeout=30))
    await sub.next_msg(20)
    await force("connection", lambda: reconnect(told), [request])
    with pytest.raises(RuntimeError, match="forced in Connection"):
        await request
    with pytest.raises(RuntimeError, match="forced in Connection"):
        async for _ in sub.messages:
            pass
    await ended(told, events, "Connection")


async def test_panic_while_connecting_fails_the_connect(nats_url: str) -> None:
    # Not "connection": a client of an earlier test that reconnects would panic instead.
    _jetarrow.force_panic("firstconnect")
    with pytest.raises(RuntimeError, match="forced in FirstConnect"):
        await asyncio.wait_for(jetarrow.connect(nats_url), 20)


def test_panics_are_logged_at_interpreter_exit(nats_url: str) -> None:
    """Logging a panic needs the interpreter, and must not crash it during its shutdown."""
    program = """
import logging, sys, time
import jetarrow.sync
from jetarrow import _jetarrow

class Slow(logging.Handler):
    def emit(self, record):
        time.sleep(0.1)
        print(record.getMessage())

logging.getLogger("jetarrow").addHandler(Slow())
nc = jetarrow.sync.connect(sys.argv[1])
for _ in range(3):
    _jetarrow.force_panic("call")
    try:
        nc.flush()
    except RuntimeError:
        pass
"""
    done = subprocess.run([sys.executable, "-c", program, nats_url], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("forced in Call") == 3
    # The fixture waits for a panic in this process.
    test_panic_in_a_blocking_call_fails_that_call(nats_url)
