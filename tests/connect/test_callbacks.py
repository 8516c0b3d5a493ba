"""Callbacks: types are checked, calls are in order, one at a time and complete."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import subprocess
import sys
import time
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.server import NatsServer

NAMES = ("error", "disconnected", "reconnected", "closed", "discovered_server", "lame_duck_mode")


@pytest.mark.parametrize("name", NAMES)
async def test_connect_rejects_callbacks_that_are_not_coroutine_functions(nats_url: str, name: str) -> None:
    for wrong in (lambda *args: None, print, object()):
        with pytest.raises(errors.InvalidCallbackTypeError, match=f"{name}_cb"):
            await jetarrow.connect(nats_url, **{f"{name}_cb": wrong})

    async def right(*args: Exception) -> None: ...

    async with await jetarrow.connect(nats_url, **{f"{name}_cb": functools.partial(right)}):
        pass


@pytest.mark.parametrize("name", NAMES)
def test_sync_connect_accepts_plain_functions_only(nats_url: str, name: str) -> None:
    async def callback(*args: Exception) -> None: ...

    for wrong in (callback, object()):
        with pytest.raises(errors.InvalidCallbackTypeError, match=f"{name}_cb"):
            jetarrow.sync.connect(nats_url, **{f"{name}_cb": wrong})
    with jetarrow.sync.connect(nats_url, **{f"{name}_cb": lambda *args: None}):
        pass


async def test_each_disconnect_calls_callbacks_once(own_server: NatsServer, record: Any) -> None:
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.05, **record.options()) as nc:
        for number in range(1, 6):
            if number % 2:
                own_server.kill()
                await record.wait_for("disconnected", number)
                assert not nc.is_connected
                assert nc.is_reconnecting
                await asyncio.to_thread(own_server.start)
            else:
                await nc.force_reconnect()
            await record.wait_for("reconnected", number)
            await nc.flush()
            assert nc.stats["reconnects"] == number
    assert record.turns == ["disconnected", "reconnected"] * 5 + ["disconnected", "closed"]
    assert any(isinstance(error, errors.UnexpectedEOF) for error in record.errors)
    assert any(isinstance(error, ConnectionRefusedError) for error in record.errors)


async def test_callbacks_at_disconnect_run_in_order(own_server: NatsServer, record: Any) -> None:
    """As in nats-py: the cause, the disconnect, then the failed attempts."""
    async with await jetarrow.connect(own_server.url, **record.options()) as nc:
        # Data that a killed server has not read makes the disconnect a connection reset.
        await nc.flush()
        own_server.kill()
        await record.until(lambda: len(record.seen) >= 4)
        assert record.seen[:4] == ["error", "disconnected", "error", "error"]
        assert isinstance(record.errors[0], errors.UnexpectedEOF)
        # A server that is exiting may accept a connection and close it.
        dying = ConnectionRefusedError | ConnectionResetError | errors.UnexpectedEOF
        assert all(isinstance(error, dying) for error in record.errors[1:]), record.errors
        assert str(own_server.port) in str(record.errors[1])


async def test_callbacks_run_one_at_a_time(own_server: NatsServer) -> None:
    running = 0
    seen: list[str] = []
    over = asyncio.Event()

    def slow(name: str) -> Any:
        async def callback() -> None:
            nonlocal running
            running += 1
            assert running == 1
            await asyncio.sleep(0.02)
            seen.append(name)
            running -= 1
            if seen.count("reconnected") == 10:
                over.set()

        return callback

    callbacks: dict[str, Any] = {f"{name}_cb": slow(name) for name in ("disconnected", "reconnected", "closed")}
    async with await jetarrow.connect(own_server.url, **callbacks) as nc:
        for number in range(10):
            while nc.stats["reconnects"] < number or not nc.is_connected:
                await asyncio.sleep(0.001)
            await nc.force_reconnect()
        await asyncio.wait_for(over.wait(), 10)
    assert seen == ["disconnected", "reconnected"] * 10 + ["disconnected", "closed"]


async def test_events_are_queued_while_loop_is_busy(own_server: NatsServer, record: Any) -> None:
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.05, **record.options()) as nc:
        for number in range(1, 4):
            own_server.restart()  # blocks the loop
            while nc.stats["reconnects"] < number:
                time.sleep(0.01)  # noqa: ASYNC251
        assert record.seen == []
        await record.wait_for("reconnected", 3)
    assert record.turns == ["disconnected", "reconnected"] * 3 + ["disconnected", "closed"]


async def test_disconnect_callback_runs_during_a_burst_of_errors(record: Any) -> None:
    config = """authorization { users = [ { user: me, password: x, permissions: { publish: "a" } } ] }"""
    with NatsServer(config=config, jetstream=False) as server:
        async with await jetarrow.connect(
            server.url, user="me", password="x", reconnect_time_wait=0.05, **record.options()
        ) as nc:
            for number in range(1, 4):
                for _ in range(3_000):
                    await nc.publish("denied", b"x")
                await nc.flush()
                server.kill()
                await asyncio.to_thread(server.start)
                await record.wait_for("reconnected", number)
        assert record.turns == ["disconnected", "reconnected"] * 3 + ["disconnected", "closed"]
        assert sum(isinstance(error, errors.PermissionsViolationError) for error in record.errors) == 9_000


async def test_close_returns_after_closed_callback(nats_url: str, record: Any) -> None:
    nc = await jetarrow.connect(nats_url, **record.options())
    await nc.close()
    assert record.seen == ["disconnected", "closed"]
    await nc.close()
    assert record.seen == ["disconnected", "closed"]
    assert nc.is_closed


async def test_close_while_disconnected_calls_closed_callback(own_server: NatsServer, record: Any) -> None:
    nc = await jetarrow.connect(own_server.url, **record.options())
    own_server.kill()
    await record.wait_for("disconnected")
    await asyncio.wait_for(nc.close(), 10)
    assert record.turns == ["disconnected", "closed"]


async def test_drain_returns_after_closed_callback(nats_url: str, record: Any) -> None:
    nc = await jetarrow.connect(nats_url, **record.options())
    await nc.drain()
    assert record.seen == ["disconnected", "closed"]
    assert nc.is_closed
    assert not nc.is_draining


async def test_close_inside_callback_does_not_wait_for_itself(own_server: NatsServer) -> None:
    nc = jetarrow.NATS()
    over = asyncio.Event()
    seen: list[str] = []

    async def disconnected() -> None:
        seen.append("disconnected")
        await nc.close()

    async def closed() -> None:
        seen.append("closed")
        over.set()

    await nc.connect(own_server.url, disconnected_cb=disconnected, closed_cb=closed)
    own_server.kill()
    await asyncio.wait_for(over.wait(), 20)
    assert seen == ["disconnected", "closed"]
    assert nc.is_closed


async def test_failing_callback_does_not_stop_events(
    own_server: NatsServer, record: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> None:
        raise RuntimeError("broken callback")

    options = {**record.options(), "disconnected_cb": broken}
    async with await jetarrow.connect(own_server.url, **options) as nc:
        await nc.force_reconnect()
        await record.wait_for("reconnected")
    assert record.turns == ["reconnected", "closed"]
    assert "disconnected_cb failed" in caplog.text
    assert "broken callback" in caplog.text


async def test_errors_without_callback_are_logged(own_server: NatsServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "jetarrow")
    lost = asyncio.Event()

    async def disconnected() -> None:
        lost.set()

    async with await jetarrow.connect(own_server.url, disconnected_cb=disconnected) as nc:
        await nc.flush()
        own_server.kill()
        await asyncio.wait_for(lost.wait(), 20)
        # It may be the error of an attempt: a server that is exiting may accept a connection and close it.
        assert isinstance(nc.last_error, errors.UnexpectedEOF | ConnectionRefusedError | ConnectionResetError)
    assert "nats: encountered error: UnexpectedEOF" in caplog.text


BREAK = """
import logging, sys, threading
import jetarrow.sync
from jetarrow.server import NatsServer
if sys.argv[1] == "logged":
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
closed = threading.Event()
options = {"closed_cb": lambda: closed.set(), "allow_reconnect": False}
with NatsServer() as server, jetarrow.sync.connect(server.url, **options) as nc:
    nc.flush()
    server.kill()
    assert closed.wait(10)
"""


@pytest.mark.parametrize("how", ["quiet", "logged"])
def test_errors_without_logging_configuration_are_not_printed(how: str) -> None:
    """A disconnect prints nothing on stderr; with logging it is a record with a logger name to filter by."""
    done = subprocess.run([sys.executable, "-c", BREAK, how], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert all(line.startswith("jetarrow.connection ") for line in lines)
    assert any("WARNING nats: encountered error" in line for line in lines) == (how == "logged")
    assert bool(lines) == (how == "logged")


async def test_lame_duck_mode_calls_callback(record: Any) -> None:
    # The shortest duration that the server accepts; after the grace period it closes the connection.
    config = "lame_duck_duration: 30s\nlame_duck_grace_period: 5s\n"
    with NatsServer(config=config, jetstream=False) as server:
        nc = await jetarrow.connect(server.url, **record.options())
        os.kill(server.pid, signal.SIGUSR2)
        await record.wait_for("lame_duck_mode")
        assert nc.is_connected
        await nc.close()
        assert record.turns == ["lame_duck_mode", "disconnected", "closed"]


LEFT_OPEN = """
import asyncio, sys, jetarrow
async def told(*args):
    pass
async def main():
    nc = await jetarrow.connect(sys.argv[1], error_cb=told, disconnected_cb=told, reconnected_cb=told, closed_cb=told)
    await nc.flush()
    await nc.force_reconnect()
    return nc
if sys.argv[2] == "run":
    kept = asyncio.run(main())
else:
    loop = asyncio.new_event_loop()
    kept = loop.run_until_complete(main())
    loop.close()
print("done")
"""


@pytest.mark.parametrize("how", ["run", "loop"])
def test_loop_that_ends_before_close_prints_no_traceback(nats_url: str, how: str) -> None:
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN, nats_url, how], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


KINDS = [StopIteration, StopAsyncIteration, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("face", ["async", "sync"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_base_exception_of_credential_function_ends_connect(
    nats_url: str, kind: type[BaseException], face: str
) -> None:
    def token() -> str:
        raise kind("mine")

    async def connect() -> None:
        await asyncio.wait_for(jetarrow.connect(nats_url, token=token, allow_reconnect=False), 10)

    begin = time.monotonic()
    with pytest.raises(BaseException, match=r"token|mine|StopIteration") as info:
        if face == "async":
            asyncio.run(connect())
        else:
            jetarrow.sync.connect(nats_url, token=token, allow_reconnect=False)
    assert not isinstance(info.value, TimeoutError)
    assert time.monotonic() - begin < 5


async def test_callback_that_raises_cancelled_error_does_not_stop_events(own_server: NatsServer, record: Any) -> None:
    async def broken() -> None:
        record.seen.append("disconnected")
        raise asyncio.CancelledError

    options = {**record.options(), "disconnected_cb": broken}
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.05, **options):
        own_server.kill()
        await record.wait_for("error")
        await asyncio.to_thread(own_server.start)
        await record.wait_for("reconnected")
    assert record.turns == ["disconnected", "reconnected", "disconnected", "closed"]
