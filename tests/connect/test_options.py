"""Options and properties: nats-py's names and defaults, checks of values, effects."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from typing import Any

import jetarrow
import jetarrow.sync
import nats.aio.client as peer
import pytest
from jetarrow import errors
from jetarrow.aio import client as ours
from jetarrow.aio.client import Client, ServerVersion
from jetarrow.server import NatsServer

# A shorter interval than nats-py's: an unresponsive server is detected after 20 s, not after 6 minutes.
OTHER_DEFAULTS = {"ping_interval"}


def test_connect_has_every_option_of_nats_py() -> None:
    theirs = inspect.signature(peer.Client.connect).parameters
    mine = inspect.signature(Client.connect).parameters
    assert len(theirs) > 35
    # Positional order too.
    assert list(mine)[: len(theirs)] == list(theirs)
    different = {name for name in theirs if theirs[name].default != mine[name].default}
    assert different == OTHER_DEFAULTS
    assert mine["ping_interval"].default == 10
    assert mine["max_outstanding_pings"].default == 2


def test_client_has_every_property_of_nats_py() -> None:
    def properties(cls: type) -> set[str]:
        return {name for name, value in inspect.getmembers(cls) if isinstance(value, property)}

    names = {name for name in properties(peer.Client) if not name.startswith("_")}
    assert len(names) > 15
    assert names <= properties(Client)
    assert names <= properties(jetarrow.sync.Client)
    for name in ("DISCONNECTED", "CONNECTED", "CLOSED", "RECONNECTING", "CONNECTING", "DRAINING_SUBS", "DRAINING_PUBS"):
        assert getattr(Client, name) == getattr(peer.Client, name)
    for name in ("Server", "ServerVersion", "Srv", "RawCredentials", "DEFAULT_INBOX_PREFIX", "DEFAULT_CONNECT_TIMEOUT"):
        assert hasattr(ours, name)


async def test_connect_accepts_servers_in_every_form(nats_url: str) -> None:
    bare = nats_url.removeprefix("nats://")
    for servers in (nats_url, bare, [nats_url], (nats_url,), f"{nats_url}, {bare}", [f" {nats_url} "]):
        async with await jetarrow.connect(servers) as nc:  # type: ignore[arg-type]
            assert nc.connected_url is not None
            assert nc.connected_url.geturl() == nats_url


BAD_SERVERS: list[Any] = [
    "nats://host:notaport",
    "http://x",
    "nats://[::",
    "",
    "nats://",
    "nats://:4222",
    "nats://a b",
    "nats://a\r\nPUB x 0\r\n",
    "a,,b",
    ["ok", ""],
    ["nats://x", 7],
    7,
    None,
    {"a": 1},
]


@pytest.mark.parametrize("servers", BAD_SERVERS, ids=repr)
def test_connect_with_invalid_servers_raises(servers: Any) -> None:
    begin = time.monotonic()
    with pytest.raises(errors.BadAddressError) as info:
        jetarrow.sync.connect(servers, connect_timeout=20)
    assert isinstance(info.value, ValueError)
    assert time.monotonic() - begin < 4


def test_invalid_address_error_contains_no_password() -> None:
    with pytest.raises(errors.BadAddressError) as info:
        jetarrow.sync.connect("nats://me:canary@host:notaport")
    assert "canary" not in f"{info.value} {info.value!r}"
    assert "host:notaport" in str(info.value)


async def test_connect_without_reachable_server_raises() -> None:
    with pytest.raises(errors.NoServersError):
        await jetarrow.connect([])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"connect_timeout": -1}, ValueError),
        ({"connect_timeout": float("nan")}, ValueError),
        ({"connect_timeout": "soon"}, TypeError),
        ({"ping_interval": -1}, ValueError),
        ({"max_outstanding_pings": 0}, ValueError),
        ({"reconnect_time_wait": -0.1}, ValueError),
        ({"max_reconnect_attempts": 1.5}, TypeError),
        ({"inbox_prefix": "a b"}, ValueError),
        ({"inbox_prefix": "a.*"}, ValueError),
        ({"inbox_prefix": "a..b"}, ValueError),
        ({"inbox_prefix": "a\r\nb"}, ValueError),
        ({"inbox_prefix": ""}, ValueError),
        ({"inbox_prefix": 7}, TypeError),
        ({"name": 7}, TypeError),
        ({"user": 7, "password": "x"}, TypeError),
        ({"password": 7, "user": "x"}, TypeError),
        ({"user_credentials": 7}, TypeError),
        ({"user_credentials": ("a",)}, ValueError),
        ({"nkeys_seed_str": 7}, TypeError),
        ({"no_such_option": 1}, TypeError),
    ],
    ids=str,
)
async def test_connect_with_invalid_option_values_raises(
    nats_url: str, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error) as info:
        await jetarrow.connect(nats_url, **options)
    assert info.type is error
    # The text has the option.
    assert next(iter(options)) in str(info.value)


async def test_connect_accepts_options_without_effect(nats_url: str) -> None:
    async with await jetarrow.connect(
        nats_url, pedantic=True, verbose=True, flusher_queue_size=1, flush_timeout=1.0, skip_subject_validation=True
    ) as nc:
        await nc.flush()
    client = Client()
    await client.connect([nats_url], loop=asyncio.get_running_loop())
    await client.close()


async def test_connect_sends_options_to_server(own_server: NatsServer) -> None:
    """Name, echo and other options, as the server's connection list has them."""
    async with (
        await jetarrow.connect(own_server.url, name="my name", no_echo=True) as quiet,
        await jetarrow.connect(own_server.url) as other,
    ):
        heard: list[bytes] = []

        async def hear(msg: Any) -> None:
            heard.append(msg.data)

        await quiet.subscribe("a", cb=hear)
        await quiet.flush()
        await quiet.publish("a", b"own")
        await quiet.flush()
        await other.publish("a", b"other's")
        await other.flush()
        await quiet.flush()
        assert heard == [b"other's"]
        answer = await quiet.request("$SYS.REQ.USER.INFO", timeout=5)
        assert json.loads(answer.data)["data"]["user"] is not None
        assert quiet.options["name"] == "my name"
        assert quiet.client_id is not None
        assert quiet.client_id != other.client_id
        assert quiet.client_ip == "127.0.0.1"


@pytest.mark.parametrize("prefix", ["my.inbox", b"my.inbox", "my.inbox."])
async def test_inbox_prefix_begins_reply_subjects(nats_url: str, prefix: str | bytes) -> None:
    async with await jetarrow.connect(nats_url, inbox_prefix=prefix) as nc:
        assert nc.new_inbox().startswith("my.inbox.")
        replies: list[str] = []

        async def answer(msg: Any) -> None:
            replies.append(msg.reply)
            await nc.publish(msg.reply, b"yes")

        await nc.subscribe("question", cb=answer)
        assert (await nc.request("question", b"", timeout=5)).data == b"yes"
        assert replies[0].startswith("my.inbox.")


async def test_flush_and_rtt_publish_no_message(nats_url: str) -> None:
    """A wildcard subscriber receives no message of them, so they are no requests."""
    async with await jetarrow.connect(nats_url) as nc, await jetarrow.connect(nats_url, no_echo=True) as other:
        sub = await nc.subscribe(">")
        for client in (nc, other):
            assert 0 < await client.rtt(5) < 5
            await client.flush(5)
        assert sub.pending_msgs == 0
        for wrong in (0, -1, float("nan")):
            with pytest.raises(errors.BadTimeoutError):
                await nc.flush(wrong)
            with pytest.raises(errors.BadTimeoutError):
                await nc.rtt(wrong)
    with pytest.raises(errors.ConnectionClosedError):
        await nc.flush()
    with pytest.raises(errors.ConnectionClosedError):
        await nc.rtt()


async def test_stats_equal_those_of_nats_py(nats_url: str) -> None:
    async def work(nc: Any, subject: str) -> dict[str, int]:
        sub = await nc.subscribe(subject)
        for size in (0, 1, 1_000):
            await nc.publish(subject, b"x" * size, headers={"a": "b"} if size == 1 else None)
        for _ in range(3):
            await sub.next_msg(5)
        await nc.flush()
        stats: dict[str, int] = dict(nc.stats)
        await nc.close()
        return stats

    theirs = peer.Client()
    await theirs.connect(nats_url)
    assert await work(await jetarrow.connect(nats_url), "stats.ours") == await work(theirs, "stats.theirs")


async def test_concurrent_flushes_return(nats_url: str) -> None:
    async with await jetarrow.connect(nats_url, ping_interval=0.5, max_outstanding_pings=60) as nc:
        for _ in range(20):
            await asyncio.gather(*(nc.flush(30) for _ in range(20)))


async def test_flush_with_paused_server_times_out(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        await nc.flush()
        own_server.pause()
        try:
            with pytest.raises(errors.FlushTimeoutError):
                await nc.flush(0.3)
            with pytest.raises(errors.TimeoutError):
                await nc.rtt(0.3)
        finally:
            own_server.resume()
        await nc.flush()


async def test_flush_raises_after_disconnect(own_server: NatsServer, record: Any) -> None:
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.1, **record.options()) as nc:
        own_server.pause()
        flushing = asyncio.create_task(nc.flush(20))
        await asyncio.sleep(0.1)
        own_server.kill()
        with pytest.raises(errors.FlushTimeoutError):
            await asyncio.wait_for(flushing, 20)
        # A flush that starts while disconnected waits for the reconnect.
        flushing = asyncio.create_task(nc.flush(20))
        await asyncio.to_thread(own_server.start)
        await flushing
        assert nc.is_connected


async def test_properties_before_during_and_after_connection(nats_url: str) -> None:
    nc = Client()
    states = ("is_closed", "is_connected", "is_connecting", "is_reconnecting", "is_draining", "is_draining_pubs")
    assert [name for name in states if getattr(nc, name)] == []
    assert (nc.connected_url, nc.servers, nc.discovered_servers, nc.server_pool) == (None, [], [], [])
    assert (nc.client_id, nc.client_ip, nc.last_error, nc.pending_data_size) == (None, None, None, 0)
    assert nc.stats == peer.Client().stats
    assert nc.max_payload == peer.Client().max_payload
    assert repr(nc.connected_server_version) == repr(peer.Client().connected_server_version)
    connecting = asyncio.create_task(nc.connect(nats_url))
    await asyncio.sleep(0)
    assert nc.is_connecting
    await connecting
    assert nc.is_connected
    assert not nc.is_connecting
    with pytest.raises(errors.Error, match="already connected"):
        await nc.connect(nats_url)
    version = nc.connected_server_version
    assert (version.major, version.minor) >= (2, 10)
    assert repr(nc).startswith("<nats client v")
    await nc.close()
    assert nc.is_closed
    assert (nc.connected_url, nc.client_id, nc.client_ip) == (None, None, None)
    assert nc.stats["reconnects"] == 0
    # As in nats-py, the same client can connect again.
    await nc.connect(nats_url)
    await nc.flush()
    assert nc.is_connected
    await nc.close()


def test_sync_client_has_the_same_properties(nats_url: str) -> None:
    with jetarrow.sync.connect(nats_url, name="blocking") as nc:
        assert nc.is_connected
        assert nc.connected_url is not None
        assert nc.connected_url.geturl() == nats_url
        assert 0 < nc.rtt() < 5
        nc.flush()
        nc.force_reconnect()
        deadline = time.monotonic() + 5
        while nc.stats["reconnects"] < 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        nc.flush()
        assert nc.stats["reconnects"] == 1
        assert nc.new_inbox().startswith("_INBOX.")
        assert nc.options["name"] == "blocking"
        assert nc.connected_server_version.major >= 2
    assert nc.is_closed
    assert nc.last_error is None


async def test_last_error_after_failed_connect_is_its_error() -> None:
    nc = Client()
    with pytest.raises(errors.NoServersError) as info:
        await nc.connect("127.0.0.1:1", connect_timeout=1)
    assert nc.last_error is info.value
    assert not nc.is_connected
    assert not nc.is_connecting


@pytest.mark.parametrize("text", ["2.15.1", "2.11.0-RC.1", "1.2.3+build.5", "1.2.3-beta+7"])
def test_server_version_has_parts(text: str) -> None:
    mine, theirs = ServerVersion(text), peer.ServerVersion(text)
    for part in ("major", "minor", "patch", "prerelease", "build", "dev"):
        assert str(getattr(mine, part)) == str(getattr(theirs, part))
    assert repr(mine) == repr(theirs)


def test_invalid_server_version_raises() -> None:
    with pytest.raises(ValueError, match="not a valid Semantic Version"):
        _ = ServerVersion("x").major
