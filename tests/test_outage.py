"""Errors of calls, log records and callbacks during an outage of the server, in both faces."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .tools import until, wait_until


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "jetarrow")
    return caplog


def told(log: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in log.records if record.name.startswith("jetarrow.")]


def has(log: pytest.LogCaptureFixture, level: str, text: str) -> bool:
    return any(said == level and text in message for said, message in told(log))


def test_fetch_raises_timeout_error_while_disconnected(own_server: NatsServer) -> None:
    with jetarrow.sync.connect(own_server.url, reconnect_time_wait=0.05) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["s.>"])
        js.publish_batch("s.a", [b"x"] * 10).raise_for_errors()
        sub = js.pull_subscribe("s.>", durable="d")
        assert len(sub.fetch_batch(5)) == 5
        own_server.kill()
        wait_until(lambda: not nc.is_connected)
        with pytest.raises(errors.TimeoutError, match=r"the connection has been down for .* s") as caught:
            sub.fetch_batch(5, timeout=0.3)
        assert 'consumer "d" of stream "S"' in str(caught.value)
        with pytest.raises(js_errors.FetchTimeoutError, match="the connection has been down"):
            sub.fetch(5, timeout=0.3)
        own_server.start()
        seqs = set(sub.fetch_batch(5, timeout=20).seqs.to_pylist())
        # A server that was killed may have lost the record of its deliveries.
        while len(batch := sub.fetch_batch(5, timeout=1)):
            seqs.update(batch.seqs.to_pylist())
        assert seqs >= {6, 7, 8, 9, 10}


def test_fetch_waits_for_the_reconnect(own_server: NatsServer) -> None:
    with jetarrow.sync.connect(own_server.url, reconnect_time_wait=0.05) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["s.>"])
        js.publish_batch("s.a", [b"x"] * 10).raise_for_errors()
        sub = js.pull_subscribe("s.>", durable="d")
        own_server.kill()
        wait_until(lambda: not nc.is_connected)
        back = threading.Timer(0.5, own_server.start)
        back.start()
        assert len(sub.fetch_batch(10, timeout=20)) == 10
        back.join()


async def test_iteration_goes_on_after_an_outage(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.05) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        consumer = await js.stream("S").create_consumer(durable_name="d")
        batches = consumer.batches(5, timeout=0.2)
        own_server.kill()
        await until(lambda: not nc.is_connected)
        first = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0.6)
        assert not first.done()
        await asyncio.to_thread(own_server.start)
        await js.publish("s.a", b"x")
        assert len(await asyncio.wait_for(first, 20)) == 1
        await batches.aclose()


async def test_the_log_of_the_async_face(own_server: NatsServer, log: pytest.LogCaptureFixture) -> None:
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.05):
        own_server.kill()
        await until(lambda: has(log, "WARNING", "nats: disconnected"))
        assert has(log, "WARNING", "UnexpectedEOF")
        await asyncio.to_thread(own_server.start)
        await until(lambda: has(log, "INFO", f"nats: reconnected to nats://127.0.0.1:{own_server.port} after"))
        log.clear()
    assert told(log) == [("INFO", "nats: disconnected"), ("INFO", "nats: connection closed")]


def test_the_log_of_the_sync_face(own_server: NatsServer, log: pytest.LogCaptureFixture) -> None:
    with jetarrow.sync.connect(own_server.url, reconnect_time_wait=0.05) as nc:
        own_server.kill()
        wait_until(lambda: has(log, "WARNING", "nats: disconnected"))
        assert has(log, "WARNING", "UnexpectedEOF")
        assert isinstance(nc.last_error, errors.Error | OSError)
        own_server.start()
        wait_until(lambda: has(log, "INFO", f"nats: reconnected to nats://127.0.0.1:{own_server.port} after"))
        log.clear()
    assert told(log) == [("INFO", "nats: disconnected"), ("INFO", "nats: connection closed")]


def test_drops_are_in_the_log(nats_url: str, log: pytest.LogCaptureFixture) -> None:
    with jetarrow.sync.connect(nats_url) as nc:
        sub = nc.subscribe("drop.a", pending_msgs_limit=1)
        for _ in range(5):
            nc.publish("drop.a", b"x")
        nc.flush()
        wait_until(lambda: sub.dropped == 4)
        wait_until(lambda: has(log, "WARNING", "SlowConsumerError"))


def test_callbacks_of_the_sync_face(own_server: NatsServer, log: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []
    threads = set()

    def note(name: str) -> Any:
        def callback(*args: Any) -> None:
            threads.add(threading.current_thread().name)
            seen.append((name, *args))

        return callback

    names = ("error", "disconnected", "reconnected", "closed")
    before = set(threading.enumerate())
    options: Any = {f"{name}_cb": note(name) for name in names}
    nc = jetarrow.sync.connect(own_server.url, reconnect_time_wait=0.05, **options)
    own_server.kill()
    wait_until(lambda: ("disconnected",) in seen)
    own_server.start()
    wait_until(lambda: ("reconnected",) in seen)
    nc.close()
    # close() returns after closed_cb.
    turns = [event[0] for event in seen if event[0] != "error"]
    assert turns == ["disconnected", "reconnected", "disconnected", "closed"]
    assert isinstance(seen[0][1], errors.UnexpectedEOF)
    assert threads == {"jetarrow-events"}
    assert not has(log, "WARNING", "encountered error"), "what a callback gets is not logged as well"
    wait_until(lambda: not any(thread.name == "jetarrow-events" for thread in set(threading.enumerate()) - before))


def test_a_callback_that_fails_or_closes(own_server: NatsServer, log: pytest.LogCaptureFixture) -> None:
    closed = threading.Event()

    def disconnected() -> None:
        raise RuntimeError("broken callback")

    with jetarrow.sync.connect(
        own_server.url,
        reconnect_time_wait=0.05,
        disconnected_cb=disconnected,
        reconnected_cb=lambda: nc.close(),
        closed_cb=closed.set,
    ) as nc:
        own_server.kill()
        wait_until(lambda: has(log, "ERROR", "disconnected_cb failed"))
        own_server.start()
        assert closed.wait(20)
    assert nc.is_closed


@pytest.mark.parametrize("face", ["async", "sync"])
async def test_last_error_reports_attempts_duration_and_cause(own_server: NatsServer, face: str) -> None:
    options: Any = {"max_reconnect_attempts": 2, "reconnect_time_wait": 0.01}
    if face == "async":
        nc: Any = await jetarrow.connect(own_server.url, **options)
    else:
        nc = await asyncio.to_thread(jetarrow.sync.connect, own_server.url, **options)
    own_server.kill()
    await until(lambda: nc.is_closed and isinstance(nc.last_error, errors.NoServersError))
    text = str(nc.last_error)
    assert "3 attempts to reconnect have failed" in text
    assert "the connection has been down for" in text
    assert "refused" in text.lower()
    with pytest.raises(errors.ConnectionClosedError, match="3 attempts to reconnect have failed"):
        if face == "async":
            await nc.publish("a", b"")
        else:
            nc.publish("a", b"")
    closing = nc.close()
    if face == "async":
        await closing


async def test_time_out_of_a_silent_server(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        js: JetStreamContext = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        sub = await js.pull_subscribe("s.>", durable="d")
        own_server.pause()
        try:
            begin = time.monotonic()
            with pytest.raises(errors.TimeoutError, match="the server has not answered"):
                await sub.fetch_batch(5, timeout=0.3)
            assert time.monotonic() - begin < 5
        finally:
            own_server.resume()
