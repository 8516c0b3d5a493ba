"""A filter that matches no subject of its stream warns once."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.aio.client import Client
from jetarrow.jetstream.filter_check import subjects_collide
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

CALLS: dict[str, Callable[[JetStreamContext, str], Awaitable[Any]]] = {
    "read": lambda js, stream: js.read(stream, subjects="orders.x").read_all(),
    "latest": lambda js, stream: js.latest(stream, subjects=["orders.x"]).read_all(),
    "add_consumer": lambda js, stream: js.add_consumer(stream, filter_subject="orders.x"),
    "filter_subjects": lambda js, stream: js.add_consumer(stream, filter_subjects=[f"{stream}.a", "orders.x"]),
    "pull_subscribe": lambda js, stream: js.pull_subscribe("orders.x", stream=stream),
    "subscribe": lambda js, stream: js.subscribe("orders.x", stream=stream),
}


@pytest.mark.parametrize("call", CALLS)
async def test_filter_without_match_warns_once(js: JetStreamContext, stream: str, call: str) -> None:
    await js.publish(f"{stream}.b", b"{}")
    with pytest.warns(
        UserWarning, match=rf"filter 'orders.x' of .+ matches no subject of stream '{stream}' \("
    ) as told:
        await CALLS[call](js, stream)
    assert len([one for one in told if "matches no subject" in str(one.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await CALLS[call](js, stream)


async def test_follow_read_warns_when_it_opens(js: JetStreamContext, stream: str) -> None:
    async with js.read(stream, subjects="orders.x", follow=True) as reader:
        with pytest.warns(UserWarning, match="filter 'orders.x' of the read matches no subject"):
            await reader._open()


def test_sync_read_warns(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    with pytest.warns(UserWarning, match="filter 'orders.x' of the read"):
        assert list(sync_js.read(stream, subjects="orders.x")) == []


async def test_warning_suggests_the_nearest_subject(js: JetStreamContext, stream: str) -> None:
    with pytest.warns(UserWarning, match=rf"did you mean '{stream}\.>'"):
        await js.add_consumer(stream, filter_subject=f"{stream}x.>")


async def test_filter_that_can_match_does_not_warn(js: JetStreamContext, stream: str) -> None:
    await js.publish(f"{stream}.old", b"{}")
    await js.add_stream(name=f"{stream}M", sources=[{"name": stream}], subjects=["unused.subject"])
    await js.update_stream(stream, subjects=[f"{stream}.new.*"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A message that was stored before the subjects changed.
        await js.read(stream, subjects=f"{stream}.old", start_seq=2).read_all()
        await js.add_consumer(stream, filter_subject=f"{stream}.*.a")
        # Sources bring subjects that the configuration does not list.
        await js.add_consumer(f"{stream}M", filter_subject="orders.x")
        kv = await js.create_key_value(bucket=stream)
        assert await (await kv.watch("none")).updates(timeout=30) is None
    await js.delete_stream(f"{stream}M")
    await js.delete_key_value(stream)


async def test_consumer_with_pending_messages_makes_no_request(nc: Client, js: JetStreamContext, stream: str) -> None:
    asked: list[str] = []

    async def note(msg: Any) -> None:
        asked.append(msg.subject)

    await nc.subscribe(f"$JS.API.STREAM.INFO.{stream}", cb=note)
    await js.publish(f"{stream}.a", b"")
    await js.add_consumer(stream, filter_subject=f"{stream}.a")
    await nc.flush()
    assert asked == []
    await js.add_consumer(stream, filter_subject=f"{stream}.b")
    await js.add_consumer(stream, filter_subject=f"{stream}.b")
    await nc.flush()
    assert len(asked) == 1


async def test_user_without_permission_gets_no_warning_and_no_second_request() -> None:
    config = (
        'authorization: {users: [{user: a, password: b, permissions: {publish: {deny: ["$JS.API.STREAM.INFO.>"]}}}]}\n'
    )
    with NatsServer(config=config) as server:
        told: list[Exception] = []

        async def tell(error: Exception) -> None:
            told.append(error)

        async with await jetarrow.connect(server.url, user="a", password="b", error_cb=tell) as nc:
            js = nc.jetstream()
            await js.add_stream(name="S", subjects=["s.>"])
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for number in range(3):
                    await js.add_consumer("S", filter_subject=f"x.{number}")
            await nc.flush()
        assert len(told) <= 1


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.*", "a.b", True),
        ("a.>", "a.b.c", True),
        (">", "x", True),
        ("*.b", "a.*", True),
        ("a.>", "a", False),
        ("a", "a.>", False),
        ("a.b", "a.c", False),
        ("a.*", "a.b.c", False),
        ("a.b.>", "a.*", False),
    ],
)
def test_subjects_collide(one: str, other: str, expected: bool) -> None:
    assert subjects_collide(one, other) is expected
    assert subjects_collide(other, one) is expected
