"""Ordered push consumers exist in the server's memory; after its restart they are recreated at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.jetstream import push
from jetarrow.jetstream.kv import watcher
from jetarrow.server import NatsServer

from .tools import until, wait_until

OPTIONS: dict[str, Any] = {"reconnect_time_wait": 0.05, "max_reconnect_attempts": -1}


@pytest.fixture(autouse=True)
def rare_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two missed heartbeats take longer than any test, so no test detects a lost consumer by them."""
    monkeypatch.setattr(push, "HEARTBEAT", 120.0)
    monkeypatch.setattr(watcher, "HEARTBEAT", 120.0)


def restart(server: NatsServer, js: Any) -> None:
    server.kill()
    # A message published before the client notices would be lost.
    wait_until(lambda: not js._api.session.native.is_connected)
    server.restart()


@pytest.fixture
async def js(own_server: NatsServer) -> AsyncIterator[Any]:
    async with await jetarrow.connect(own_server.url, **OPTIONS) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        yield js


async def test_next_msg_continues_after_server_restart(own_server: NatsServer, js: Any) -> None:
    sub = await js.subscribe("s.>", ordered_consumer=True)
    await js.publish("s.a", b"1")
    assert (await sub.next_msg(10)).data == b"1"
    restart(own_server, js)
    await js.publish("s.a", b"2")
    assert (await sub.next_msg(20)).data == b"2"


async def test_pending_messages_are_read_before_those_stored_after_restart(own_server: NatsServer, js: Any) -> None:
    sub = await js.subscribe("s.>", ordered_consumer=True)
    for number in range(5):
        await js.publish("s.a", b"%d" % number)
    await until(lambda: sub.pending_msgs == 5)
    restart(own_server, js)
    for number in range(5, 10):
        await js.publish("s.a", b"%d" % number)
    # No message is read meanwhile.
    await until(lambda: sub.delivered == 10, 20)
    assert [(await sub.next_msg(20)).data for _ in range(10)] == [b"%d" % number for number in range(10)]


async def test_callback_continues_after_server_restart(own_server: NatsServer, js: Any) -> None:
    seen: list[bytes] = []

    async def see(msg: Any) -> None:
        seen.append(msg.data)

    await js.subscribe("s.>", ordered_consumer=True, cb=see)
    for round_ in range(2):
        await js.publish("s.a", b"%d" % round_)
        await until(lambda at=round_: len(seen) == at + 1, 20)  # type: ignore[misc]
        restart(own_server, js)
    await js.publish("s.a", b"2")
    await until(lambda: seen == [b"0", b"1", b"2"], 20)


async def test_reconnect_without_restart_keeps_the_consumer(js: Any) -> None:
    """A reconnect to a server that was not restarted does not recreate the consumer."""
    sub = await js.subscribe("s.>", ordered_consumer=True)
    consumer = (await sub.consumer_info()).name
    breaks = js._api.session.client.stats["reconnects"]
    await js._api.session.client.force_reconnect()
    await until(lambda: js._api.session.client.stats["reconnects"] > breaks)
    await js.publish("s.a", b"1")
    assert (await sub.next_msg(20)).data == b"1"
    assert (await sub.consumer_info()).name == consumer


async def test_watches_continue_after_server_restart(own_server: NatsServer, js: Any) -> None:
    kv = await js.create_key_value(bucket="K")
    store = await js.create_object_store("O")
    async with await kv.watchall() as keys, await store.watch() as objects:
        assert await keys.updates() is None
        assert await objects.updates() is None
        restart(own_server, js)
        await kv.put("a", b"1")
        await store.put("a", b"1")
        assert (await objects.updates(20)).name == "a"
        assert (await keys.updates(20)).key == "a"


@pytest.fixture
def sync_js(own_server: NatsServer) -> Iterator[Any]:
    with jetarrow.sync.connect(own_server.url, **OPTIONS) as nc:
        yield nc.jetstream()


def test_sync_next_msg_continues_after_server_restart(own_server: NatsServer, sync_js: Any) -> None:
    sync_js.add_stream(name="S", subjects=["s.>"])
    sub = sync_js.subscribe("s.>", ordered_consumer=True)
    sync_js.publish("s.a", b"1")
    assert sub.next_msg(10).data == b"1"
    restart(own_server, sync_js._inner)
    sync_js.publish("s.a", b"2")
    assert sub.next_msg(20).data == b"2"
