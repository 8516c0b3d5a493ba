"""Disconnects and reconnects."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
import time
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.server import NatsServer

from ..tools import port_of, until, wait_until


async def test_reconnect_uses_next_server(two: tuple[NatsServer, NatsServer], record: Any) -> None:
    first, second = two
    async with await jetarrow.connect(
        [first.url, second.url], dont_randomize=True, reconnect_time_wait=0.1, **record.options()
    ) as nc:
        assert port_of(nc) == first.port
        first.kill()
        await record.wait_for("reconnected")
        assert port_of(nc) == second.port
        await nc.flush()
        second.kill()

        def failures() -> dict[int | None, int]:
            return {server.uri.port: server.reconnects for server in nc.server_pool}

        await until(lambda: min(failures().values()) > 0)
        await asyncio.to_thread(first.start)
        await record.wait_for("reconnected", 2)
        assert port_of(nc) == first.port
        # The stopped server was tried too, and its failure is counted; a connection resets the count.
        assert failures()[first.port] == 0
        assert failures()[second.port] > 0
        assert nc.discovered_servers == []


async def test_servers_are_tried_in_random_order(two: tuple[NatsServer, NatsServer]) -> None:
    ports = set()
    for _ in range(40):
        async with await jetarrow.connect([server.url for server in two]) as nc:
            ports.add(port_of(nc))
    assert ports == {server.port for server in two}


async def test_messages_published_while_disconnected_are_delivered(own_server: NatsServer, record: Any) -> None:
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.1, **record.options()) as nc:
        sub = await nc.subscribe("a")
        own_server.kill()
        await record.wait_for("disconnected")
        await nc.publish("a", b"meanwhile")
        assert nc.pending_data_size == len(b"ameanwhile")
        await asyncio.to_thread(own_server.start)
        assert (await sub.next_msg(10)).data == b"meanwhile"


async def test_queued_message_above_new_max_payload_is_reported(record: Any) -> None:
    with NatsServer(jetstream=False) as first:
        port = first.port
        nc = await jetarrow.connect(first.url, reconnect_time_wait=0.1, **record.options())
        sub = await nc.subscribe("a")
        await nc.flush()
        first.kill()
        await record.wait_for("disconnected")
        for size in (10, 5000, 20):
            await nc.publish("a", b"x" * size)
    with NatsServer(jetstream=False, port=port, config="max_payload: 1000\n"):
        assert [len((await sub.next_msg(10)).data) for _ in range(2)] == [10, 20]
        (error,) = [error for error in record.errors if isinstance(error, errors.MaxPayloadError)]
        assert "5001 bytes with its headers, and the server accepts at most 1000" in str(error)
        await nc.publish("a", b"on")
        assert (await sub.next_msg(10)).data == b"on"
        await nc.close()


async def test_connection_closes_after_max_reconnect_attempts(own_server: NatsServer, record: Any) -> None:
    nc = await jetarrow.connect(own_server.url, max_reconnect_attempts=3, reconnect_time_wait=0.01, **record.options())
    own_server.kill()
    await record.wait_for("closed")
    assert record.turns == ["disconnected", "closed"]
    assert nc.is_closed
    assert not nc.is_reconnecting
    # As in nats-py: more failures than the limit. A server that is exiting may accept a connection and close it.
    lost, *attempts, last = record.errors
    assert isinstance(lost, errors.UnexpectedEOF)
    assert len(attempts) == 4, record.errors
    assert isinstance(attempts[-1], ConnectionRefusedError)
    assert isinstance(last, errors.NoServersError)
    assert nc.last_error is record.errors[-1]
    with pytest.raises(errors.ConnectionClosedError):
        await nc.flush()
    await nc.close()
    assert record.turns == ["disconnected", "closed"]


async def test_allow_reconnect_false_closes_at_disconnect(own_server: NatsServer, record: Any) -> None:
    nc = await jetarrow.connect(own_server.url, allow_reconnect=False, **record.options())
    await nc.force_reconnect()
    await nc.flush()
    assert nc.is_connected
    own_server.kill()
    await record.wait_for("closed")
    assert record.seen == ["error", "disconnected", "closed"]
    assert nc.is_closed
    assert isinstance(nc.last_error, errors.UnexpectedEOF)


def test_sync_client_closes_after_max_reconnect_attempts(own_server: NatsServer) -> None:
    with jetarrow.sync.connect(own_server.url, max_reconnect_attempts=1, reconnect_time_wait=0.01) as nc:
        own_server.kill()
        wait_until(lambda: nc.is_closed)
        assert isinstance(nc.last_error, errors.NoServersError)
        with pytest.raises(errors.ConnectionClosedError):
            nc.flush()


async def test_last_error_is_set_before_callbacks_run(own_server: NatsServer) -> None:
    """No callback runs while the loop is blocked."""
    nc = await jetarrow.connect(own_server.url, max_reconnect_attempts=2, reconnect_time_wait=0.5)
    own_server.kill()
    await until(lambda: nc.last_error is not None)
    assert not nc.is_closed
    wait_until(lambda: nc.is_closed)
    assert isinstance(nc.last_error, errors.NoServersError)
    await nc.close()
    assert isinstance(nc.last_error, errors.NoServersError)


async def test_reconnect_attempts_wait_reconnect_time_wait(record: Any) -> None:
    """Attempts are counted at a port that closes each connection."""
    attempts: list[float] = []
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    first = threading.Event()

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock:
                attempts.append(time.monotonic())
                if first.is_set():
                    continue
                first.set()
                sock.sendall(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1000}\r\n')
                while b"PING" not in sock.recv(4096):
                    pass
                sock.sendall(b"PONG\r\n")
                sock.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        nc = await jetarrow.connect(f"127.0.0.1:{port}", reconnect_time_wait=0.2, **record.options())
        await nc.publish("a", b"x")  # the fake server closes the connection
        await record.until(lambda: len(attempts) >= 8, 20)
        await nc.close()
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
    waits = [after - before for before, after in itertools.pairwise(attempts[1:])]
    assert len(waits) >= 6
    assert min(waits) >= 0.19, waits


async def test_connect_with_negative_max_attempts_waits_for_server(record: Any) -> None:
    with NatsServer(jetstream=False) as server:
        url = server.url
        server.stop()
        connecting = asyncio.create_task(
            jetarrow.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, **record.options())
        )
        await record.until(lambda: len(record.errors) >= 3)
        assert not connecting.done()
        await asyncio.to_thread(server.start)
        async with await asyncio.wait_for(connecting, 10) as nc:
            await nc.flush()
        # The first connection is not a reconnect.
        assert record.turns == ["disconnected", "closed"]


async def test_cancelled_connect_stops_its_attempts() -> None:
    accepted: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        url = f"127.0.0.1:{listener.getsockname()[1]}"
        task = asyncio.create_task(jetarrow.connect(url, max_reconnect_attempts=-1, connect_timeout=0.2))
        accepted.append((await asyncio.to_thread(listener.accept))[0])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        listener.settimeout(1)
        with pytest.raises(TimeoutError):
            while True:
                # An attempt in progress may be the last one.
                accepted.append((await asyncio.to_thread(listener.accept))[0])
        assert len(accepted) <= 2
    for sock in accepted:
        sock.close()
