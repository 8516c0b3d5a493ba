"""Features of `jetarrow.nats.client` that nats-core does not have: WebSocket, both kinds of names on one connection."""

from __future__ import annotations

import asyncio

import jetarrow
import jetarrow.nats.client
import jetarrow.nats.jetstream
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.nats.client import Client, ClientStatus
from jetarrow.server import NatsServer

from ..tools import free_port, until


async def test_websocket_reconnects() -> None:
    port = free_port()
    with NatsServer(config=f"websocket {{ host: 127.0.0.1, port: {port}, no_tls: true }}") as server:
        url = f"ws://127.0.0.1:{port}"
        async with await jetarrow.nats.client.connect(url, reconnect_time_wait=0.05) as client:
            calls: list[str] = []
            client.add_disconnected_callback(lambda: calls.append("disconnected"))
            client.add_reconnected_callback(lambda: calls.append("reconnected"))
            subscription = await client.subscribe("a")
            await client.flush()
            server.restart()
            await until(lambda: "reconnected" in calls)
            await client.publish("a", b"x" * 100_000)
            assert len((await subscription.next(20)).data) == 100_000
            assert (calls, client.stats().reconnects) == (["disconnected", "reconnected"], 1)


async def test_both_kinds_of_names_share_a_connection(nats_url: str, js: JetStreamContext, stream: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        client = Client(nc)
        old, new = await nc.subscribe("both"), await client.subscribe("both")
        await nc.publish("both", b"1")
        await client.publish("both", b"2", headers={"A": "1"})
        assert [(await new.next(20)).data for _ in range(2)] == [b"1", b"2"]
        messages = [await old.next_msg(20) for _ in range(2)]
        assert [message.data for message in messages] == [b"1", b"2"]
        assert messages[1].headers == {"A": "1"}
        successor = jetarrow.nats.jetstream.new(client)
        await successor.publish(f"{stream}.a", b"new")
        await nc.jetstream().publish(f"{stream}.a", b"old")
        sub = await nc.jetstream().pull_subscribe(f"{stream}.>", durable="d")
        assert [message.data for message in await sub.fetch(1)] == [b"new"]
        consumer = await successor.get_consumer(stream, "d")
        message = await consumer.next(max_wait=20)
        assert message.data == b"old"
        await message.double_ack(timeout=20)
        assert (client.stats().out_messages, client.status) == (nc.stats["out_msgs"], ClientStatus.CONNECTED)
    assert client.status is ClientStatus.CLOSED
    with pytest.raises(RuntimeError, match="Subscription is closed"):
        await new.next(1)


async def test_a_callback_only_subscription_receives_without_a_reference(nats_url: str) -> None:
    async with await jetarrow.nats.client.connect(nats_url) as client:
        got: list[bytes] = []
        (await client.subscribe("held")).add_callback(lambda message: got.append(message.data))
        for number in range(100):
            await client.publish("held", b"%d" % number)
        await until(lambda: len(got) == 100)
        assert got == [b"%d" % number for number in range(100)]


async def test_a_callback_that_is_added_while_next_waits(nats_url: str) -> None:
    async with await jetarrow.nats.client.connect(nats_url) as client:
        subscription = await client.subscribe("late")
        waiting = asyncio.ensure_future(subscription.next(20))
        await asyncio.sleep(0)
        got: list[bytes] = []
        subscription.add_callback(lambda message: got.append(message.data))
        await client.publish("late", b"x")
        assert (await waiting).data == b"x"
        await client.publish("late", b"y")
        assert (await subscription.next(20)).data == b"y"
        assert got[-1:] == [b"y"]
