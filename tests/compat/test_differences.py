"""Intended differences from nats-py in core NATS. MIGRATION.md names each test, with the reason."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import pytest
from jetarrow.server import NatsServer

from ..tools import settle, until
from .face import Collector, Face, arrived, subject

DENIED = (
    'authorization { users: [ { user: "anna", password: "s3cret", permissions: { publish: { deny: ["no.>"] } } } ] }'
)


@pytest.fixture
async def nc(ours: Face) -> Any:
    return await ours.connect()


async def test_a_cancelled_call_raises_cancelled_error(nc: Any) -> None:
    # nats-py: TooManyStalledMsgsError.
    await nc.subscribe(where := subject())
    js = nc.jetstream(publish_async_max_pending=1)
    await js.publish_async(where, b"x")
    task = asyncio.create_task(js.publish_async(where, b"y"))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_headers_count_for_max_payload(ours: Face, nc: Any) -> None:
    # nats-py: the server cuts the connection.
    big = b"x" * nc.max_payload
    assert await ours.failure(nc.publish(subject(), big, headers={"a": "b"})) == "errors.MaxPayloadError"
    assert await nc.rtt() > 0


async def test_flush_waits_for_what_was_published_before(ours: Face, nc: Any) -> None:
    # nats-py: the ping of a flush overtakes what was published in the same turn of the loop.
    other = Face("nats", ours.url)
    observer = await other.connect()
    sub = await observer.subscribe(where := subject())
    await settle(observer)
    for _ in range(1000):
        await nc.publish(where)
    await nc.flush()
    # The server has all messages, and delivers them before it responds to the observer.
    await observer.flush()
    assert sub.pending_msgs == 1000
    await other.close()


async def test_wrong_credentials_end_at_once(ours: Face) -> None:
    # nats-py: a plain Error, and by default 60 retries, 2 s apart.
    with NatsServer(config=DENIED, jetstream=False) as server:
        begin = time.monotonic()
        failure = await ours.failure(ours.connect(server.url, user="anna", password="wrong"))
        assert (failure, time.monotonic() - begin < 10) == ("errors.AuthorizationError", True)


async def test_addresses_are_told_without_passwords(ours: Face) -> None:
    # nats-py: they contain the password.
    with NatsServer(config=DENIED, jetstream=False) as server:
        nc = await ours.connect(server.url.replace("//", "//anna:s3cret@"))
        assert nc.connected_url.netloc == server.url.removeprefix("nats://")
        assert "s3cret" not in repr((nc.servers, nc.server_pool, nc.options))


async def test_a_publish_that_is_not_permitted_fails_at_once(ours: Face) -> None:
    # nats-py: a timeout; the server's reason goes to the error callback.
    with NatsServer(config=DENIED) as server:
        errors = Collector()
        nc = await ours.connect(server.url, user="anna", password="s3cret", error_cb=errors.callback)
        begin = time.monotonic()
        for call in (nc.jetstream().publish("no.way", b"x", timeout=30), nc.request("no.way", b"x", timeout=30)):
            error = await ours.raised(call)
            assert isinstance(error, ours.errors.PermissionsViolationError), error
            assert "no.way" in str(error)
        assert time.monotonic() - begin < 15


async def test_tls_never_becomes_plaintext(ours: Face) -> None:
    # nats-py: sends user and password in clear when a tls:// server offers no TLS.
    seen = bytearray()

    def serve(listener: socket.socket) -> None:
        conn, _ = listener.accept()
        with conn:
            conn.settimeout(3)
            conn.sendall(b'INFO {"server_id":"X","version":"2.11.0","max_payload":1048576,"headers":true}\r\n')
            try:
                while part := conn.recv(4096):
                    seen.extend(part)
                    if b"PING\r\n" in seen:
                        conn.sendall(b"PONG\r\n")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        url = f"tls://anna:s3cret@127.0.0.1:{listener.getsockname()[1]}"
        error = await ours.raised(ours.connect(url, connect_timeout=1, max_reconnect_attempts=1, allow_reconnect=False))
        await asyncio.to_thread(thread.join, 5)
    assert isinstance(error, ours.errors.Error)
    assert b"s3cret" not in seen
    assert b"CONNECT" not in seen


@pytest.mark.parametrize("where", ["a..b", ".a", "a.", "a.*", "a.>"])
async def test_subjects_to_publish_to_are_checked(ours: Face, nc: Any, where: str) -> None:
    # nats-py: sends them; the first three cannot be received, and a subscriber to the others may receive them.
    calls = [nc.publish(where), nc.request(where), nc.jetstream().publish(where)]
    assert [await ours.failure(call) for call in calls] == ["errors.BadSubjectError"] * 3


async def test_one_error_for_a_burst_of_drops(ours: Face) -> None:
    # nats-py: an error for every message dropped.
    errors = Collector()
    nc = await ours.connect(error_cb=errors.callback)
    sub = await nc.subscribe(where := subject(), pending_msgs_limit=10)
    for _ in range(1000):
        await nc.publish(where)
    await arrived(sub, 1000)
    assert (sub.pending_msgs, sub.dropped, sub.delivered) == (10, 990, 1000)
    assert 1 <= len(await errors.wait(1)) < 500


async def test_headers_of_old_style_requests(nc: Any) -> None:
    # nats-py: leaves them out.
    async def answer(msg: Any) -> None:
        await nc.publish(msg.reply, b"", headers=msg.headers)

    await nc.subscribe(where := subject(), cb=answer)
    assert (await nc.request(where, b"", timeout=5, old_style=True, headers={"a": "b"})).headers == {"a": "b"}


async def test_headers_of_several_values(nc: Any) -> None:
    # nats-py: sends one value per name, and returns the last.
    sub = await nc.subscribe(where := subject())
    await nc.publish(where, b"", headers={"a": ["one", "two"]})
    msg = await sub.next_msg(timeout=10)
    assert (msg.headers, msg.headers_all) == ({"a": "two"}, {"a": ["one", "two"]})


async def test_text_is_sent_as_utf_8(nc: Any) -> None:
    # nats-py: bytes only.
    sub = await nc.subscribe(where := subject())
    await nc.publish(where, "\u20ac")
    assert (await sub.next_msg(timeout=10)).data == "\u20ac".encode()


async def test_an_absent_server_ends_connect(ours: Face) -> None:
    # nats-py: 60 attempts, 2 s apart, reported only to the error callback.
    with NatsServer(jetstream=False) as server:
        server.stop()
        started = time.monotonic()
        assert await ours.failure(ours.connect(server.url)) == "errors.NoServersError"
        assert time.monotonic() - started < 10
        failed = Collector()
        options = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.05, "error_cb": failed.callback}
        connecting = asyncio.create_task(ours.connect(server.url, **options))
        await failed.wait(2)
        await asyncio.to_thread(server.start)
        assert (await asyncio.wait_for(connecting, 10)).is_connected


async def test_callbacks_get_what_had_come_before_unsubscribe(nc: Any) -> None:
    # nats-py: the callback under way is cancelled, and the other messages are discarded.
    got, go_on = [], asyncio.Event()

    async def slow(msg: Any) -> None:
        await go_on.wait()
        got.append(msg.data)

    sub = await nc.subscribe(where := subject(), cb=slow)
    for data in (b"0", b"1", b"2"):
        await nc.publish(where, data)
    await arrived(sub, 3)
    await sub.unsubscribe()
    go_on.set()
    await until(lambda: got == [b"0", b"1", b"2"])


async def test_next_msg_gives_what_had_come_before_close(ours: Face, nc: Any) -> None:
    # nats-py: ConnectionClosedError, and the message is lost.
    sub = await nc.subscribe(where := subject())
    await nc.publish(where, b"0")
    await arrived(sub, 1)
    await nc.close()
    assert (await sub.next_msg(timeout=10)).data == b"0"
    assert await ours.failure(sub.next_msg()) == "errors.ConnectionClosedError"


async def test_a_client_that_never_connected_has_no_verbs(ours: Face) -> None:
    # nats-py: AssertionError; a publish is buffered until the buffer is full.
    nc = ours.load("aio.client").Client()
    calls = (nc.publish("a", b""), nc.subscribe("a"), nc.request("a", b""), nc.flush(), nc.drain())
    assert {await ours.failure(call) for call in calls} == {"errors.ConnectionClosedError"}
    await nc.close()
    assert nc.is_closed
    # The client can still connect.
    await nc.connect(ours.url)
    assert (nc.is_connected, nc.is_closed) == (True, False)
    await nc.close()
