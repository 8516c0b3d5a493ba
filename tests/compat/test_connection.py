"""The connection: the same with both clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from jetarrow.server import NatsServer

from ..tools import settle
from .face import Collector, Face, subject

PASSWORD = 'authorization { user: "anna", password: "s3cret", timeout: 5 }\n'
TOKEN = 'authorization { token: "t0ken", timeout: 5 }\n'
LIMITS = """
authorization { users: [ { user: "anna", password: "s3cret", permissions: {
    publish: { deny: ["no.>"] }, subscribe: { deny: ["no.>"] } } } ] }
max_payload: 1024
"""


async def test_connected(face: Face, nc: Any) -> None:
    assert nc.is_connected
    others = (nc.is_closed, nc.is_reconnecting, nc.is_connecting, nc.is_draining, nc.is_draining_pubs)
    assert not any(others)
    assert nc.connected_url.netloc == face.url.removeprefix("nats://")
    assert (nc.max_payload, nc.last_error, nc.pending_data_size) == (1024 * 1024, None, 0)
    assert nc.client_id > 0
    assert nc.client_ip == "127.0.0.1"
    version = nc.connected_server_version
    assert (version.major, version.minor) >= (2, 12)


@pytest.mark.parametrize("form", ["url", "list", "no scheme"])
async def test_forms_of_addresses(face: Face, form: str) -> None:
    servers: Any = {"url": face.url, "list": [face.url], "no scheme": face.url.removeprefix("nats://")}[form]
    nc = await face.connect(servers)
    assert nc.is_connected
    assert [url.port for url in nc.servers] == [int(face.url.rpartition(":")[2])]


async def test_a_client_made_first_and_connected_later(face: Face) -> None:
    nc = face.load("aio.client").Client()
    assert (nc.is_connected, nc.is_closed) == (False, False)
    await nc.connect(servers=[face.url], name="later")
    assert (nc.is_connected, nc.options["name"]) == (True, "later")
    await nc.close()


def kind_of(face: Face, ours: str) -> str:
    """Return the error class that jetarrow raises, or the generic Error of nats-py."""
    return ours if face.name == "jetarrow" else "errors.Error"


@pytest.mark.parametrize(
    ("url", "ours"),
    [
        ("nats://", "errors.BadAddressError"),
        ("nats://[::1", "errors.BadAddressError"),
        ("nats://host:port", "errors.BadAddressError"),
        # nats-py takes the name for Python's None, jetarrow looks it up.
        ("nats://none:4222", "errors.NoServersError"),
    ],
)
async def test_bad_addresses(face: Face, url: str, ours: str) -> None:
    assert await face.failure(face.connect(url)) == kind_of(face, ours)


async def test_a_mixture_of_tcp_and_websocket(face: Face) -> None:
    mixed = [face.url, "ws://127.0.0.1:8080"]
    error = await face.raised(face.connect(mixed))
    assert face.kind(error) == kind_of(face, "errors.BadAddressError")
    assert "mixing of websocket" in str(error)


async def test_no_server_there(face: Face, closed_port: int) -> None:
    errors = Collector()
    options = {"max_reconnect_attempts": 1, "reconnect_time_wait": 0.01, "error_cb": errors.callback}
    failure = await face.failure(face.connect(f"nats://127.0.0.1:{closed_port}", **options))
    assert failure == "errors.NoServersError"
    assert errors.all
    assert all(isinstance(error, OSError) for error in errors.all), errors.all


async def test_the_second_server_of_a_list(face: Face, closed_port: int) -> None:
    servers = [f"nats://127.0.0.1:{closed_port}", face.url]
    nc = await face.connect(servers, dont_randomize=True, error_cb=Collector().callback)
    assert nc.connected_url.netloc == face.url.removeprefix("nats://")


async def test_callbacks_must_be_coroutine_functions(face: Face) -> None:
    names = ("error", "disconnected", "closed", "reconnected", "discovered_server", "lame_duck_mode")
    kinds = [await face.failure(face.connect(**{f"{name}_cb": lambda *_: None})) for name in names]
    assert kinds == ["errors.InvalidCallbackTypeError"] * 6


async def test_close(face: Face) -> None:
    order = Collector()
    nc = await face.connect(disconnected_cb=order.named("disconnected"), closed_cb=order.named("closed"))
    await nc.close()
    await nc.close()
    assert (nc.is_closed, nc.is_connected) == (True, False)
    assert await order.wait(2) == ["disconnected", "closed"]


async def test_the_context_manager_closes(face: Face) -> None:
    order = Collector()
    async with await face.connect(closed_cb=order.named("closed")) as nc:
        assert nc.is_connected
    assert nc.is_closed
    assert await order.wait(1) == ["closed"]


async def test_everything_after_close(face: Face, nc: Any) -> None:
    sub = await nc.subscribe(subject())
    await nc.close()
    calls = [
        nc.publish("a", b""),
        nc.subscribe("a"),
        nc.request("a", b""),
        nc.flush(),
        nc.rtt(),
        nc.drain(),
        sub.next_msg(),
        sub.unsubscribe(),
        sub.drain(),
    ]
    assert [await face.failure(call) for call in calls] == ["errors.ConnectionClosedError"] * len(calls)


async def test_flush_and_rtt(face: Face, nc: Any) -> None:
    await nc.publish(subject(), b"x" * 1000)
    assert await nc.flush() is None
    assert nc.pending_data_size == 0
    assert 0 < await nc.rtt() < 5
    calls = [nc.flush(timeout=0), nc.flush(timeout=-1), nc.rtt(timeout=0)]
    assert [await face.failure(call) for call in calls] == ["errors.BadTimeoutError"] * 3


async def test_stats(nc: Any) -> None:
    sub = await nc.subscribe(where := subject())
    for payload in (b"one", b"three"):
        await nc.publish(where, payload)
    await sub.next_msg(timeout=10)
    await sub.next_msg(timeout=10)
    stats = {name: nc.stats[name] for name in ("in_msgs", "in_bytes", "out_msgs", "out_bytes", "reconnects")}
    assert stats == {"in_msgs": 2, "in_bytes": 8, "out_msgs": 2, "out_bytes": 8, "reconnects": 0}


async def test_no_echo(face: Face) -> None:
    nc, other = await face.connect(no_echo=True), await face.connect()
    sub = await nc.subscribe(where := subject())
    await settle(nc)
    await nc.publish(where, b"mine")
    await settle(nc)
    await other.publish(where, b"theirs")
    assert (await sub.next_msg(timeout=10)).data == b"theirs"


async def test_inbox_prefix(face: Face) -> None:
    ordinary, nc = await face.connect(), await face.connect(inbox_prefix="mine.in")
    inboxes = [ordinary.new_inbox(), nc.new_inbox(), nc.new_inbox()]
    assert [inbox.rpartition(".")[0] for inbox in inboxes] == ["_INBOX", "mine.in", "mine.in"]
    assert len({inbox.rpartition(".")[2] for inbox in inboxes}) == 3
    sub = await nc.subscribe(where := subject())

    async def answer() -> str:
        msg = await sub.next_msg(timeout=10)
        await msg.respond(b"")
        return str(msg.reply)

    reply, _ = await asyncio.gather(answer(), nc.request(where, b"", timeout=5))
    assert reply.startswith("mine.in.")


async def test_user_and_password(face: Face) -> None:
    with NatsServer(config=PASSWORD, jetstream=False) as server:
        where = server.url.removeprefix("nats://")
        for url, options in ((server.url, {"user": "anna", "password": "s3cret"}), (f"nats://anna:s3cret@{where}", {})):
            assert (await face.connect(url, **options)).is_connected
        quick = {"allow_reconnect": False, "error_cb": Collector().callback}
        for options in ({"user": "anna", "password": "wrong"}, {}):
            error = await face.raised(face.connect(server.url, **quick, **options))
            assert face.kind(error) == kind_of(face, "errors.AuthorizationError")
            assert "Authorization Violation" in str(error)


async def test_token(face: Face) -> None:
    with NatsServer(config=TOKEN, jetstream=False) as server:
        where = server.url.removeprefix("nats://")
        for url, options in (
            (server.url, {"token": "t0ken"}),
            (server.url, {"token": lambda: "t0ken"}),
            (f"nats://t0ken@{where}", {}),
        ):
            assert (await face.connect(url, **options)).is_connected
        quick = {"allow_reconnect": False, "error_cb": Collector().callback}
        error = await face.raised(face.connect(server.url, token="wrong", **quick))
        assert face.kind(error) == kind_of(face, "errors.AuthorizationError")
        assert "Authorization Violation" in str(error)


async def test_permissions_and_max_payload(face: Face) -> None:
    errors = Collector()
    with NatsServer(config=LIMITS, jetstream=False) as server:
        nc = await face.connect(server.url, user="anna", password="s3cret", error_cb=errors.callback)
        assert nc.max_payload == 1024
        await nc.publish("no.way", b"")
        await nc.subscribe("no.way")
        texts = [str(error).lower() for error in await errors.wait(2)]
        assert ["publish to" in texts[0], "subscription to" in texts[1]] == [True, True], texts
        assert all("permissions violation" in text for text in texts)
        kinds = [face.kind(error) for error in errors.all]
        assert kinds == [kind_of(face, "errors.PermissionsViolationError")] * 2
        assert await face.failure(nc.publish("yes", b"x" * 1025)) == "errors.MaxPayloadError"
        sub = await nc.subscribe("yes")
        await nc.publish("yes", b"x" * 1024)
        assert len((await sub.next_msg(timeout=10)).data) == 1024


async def test_drain_delivers_pending_messages_before_close(face: Face) -> None:
    order, where = Collector(), subject()
    nc, other = await face.connect(closed_cb=order.named("closed")), await face.connect()

    async def slow(msg: Any) -> None:
        await asyncio.sleep(0.005)
        order.add(msg.data)

    await nc.subscribe(where, cb=slow)
    await settle(nc)
    for number in range(20):
        await other.publish(where, b"%d" % number)
    await settle(other)
    await nc.drain()
    assert await order.wait(21) == [*(b"%d" % number for number in range(20)), "closed"]
    assert nc.is_closed


async def test_subscriptions_are_rejected_while_draining(face: Face, nc: Any) -> None:
    where, inside, go_on = subject(), asyncio.Event(), asyncio.Event()

    async def wait(msg: Any) -> None:
        inside.set()
        await go_on.wait()

    sub = await nc.subscribe(where, cb=wait)
    await nc.publish(where, b"")
    await inside.wait()
    draining = asyncio.create_task(nc.drain())
    async with asyncio.timeout(5):
        while not nc.is_draining:
            await asyncio.sleep(0)
    found = [nc.is_connected, nc.is_closed, await nc.drain()]
    kinds = [await face.failure(call) for call in (nc.subscribe(subject()), sub.unsubscribe(), sub.drain())]
    go_on.set()
    await draining
    assert found == [True, False, None]
    assert kinds == ["errors.ConnectionDrainingError"] * 3


async def test_drain_timeout(face: Face) -> None:
    errors, inside = Collector(), asyncio.Event()
    nc = await face.connect(drain_timeout=0.1, error_cb=errors.callback)

    async def hang(msg: Any) -> None:
        inside.set()
        await asyncio.sleep(3600)

    await nc.subscribe(where := subject(), cb=hang)
    await nc.publish(where, b"")
    await inside.wait()
    await nc.drain()
    assert nc.is_closed
    assert [face.kind(error) for error in await errors.wait(1)] == ["errors.DrainTimeoutError"]
