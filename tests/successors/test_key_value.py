"""Buckets beyond the scenarios: values stored during a purge, lists that are left, mirrors of other domains."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import jetarrow.nats.client
import jetarrow.nats.jetstream
import pytest
from jetarrow.nats.jetstream import ExternalStreamSource, JetStream, StreamSource
from jetarrow.nats.key_value import KeyNotFoundError, KeyValue, KeyValueConfig, create_key_value, key_value
from jetarrow.nats.key_value.keys import format_ttl
from jetarrow.server import NatsServer

from ..tools import free_ports, until


@pytest.fixture
async def js(nats_url: str) -> AsyncIterator[JetStream]:
    async with await jetarrow.nats.client.connect(nats_url) as client:
        yield jetarrow.nats.jetstream.new(client)


@pytest.fixture
async def bucket(js: JetStream, request: pytest.FixtureRequest) -> AsyncIterator[KeyValue]:
    name = f"B-{abs(hash(request.node.name))}"
    yield await create_key_value(js, KeyValueConfig(bucket=name, history=5))
    await js.delete_stream(f"KV_{name}")


async def test_purge_deletes_keeps_a_value_that_is_stored_meanwhile(
    bucket: KeyValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bucket.put("a", b"1")
    await bucket.delete("a")
    purge = bucket._stream.purge

    async def put_and_purge(**options: Any) -> None:
        await bucket.put("a", b"2")
        await purge(**options)

    monkeypatch.setattr(bucket._stream, "purge", put_and_purge)
    await bucket.purge_deletes(older_than=timedelta(seconds=-1))
    assert [entry.value async for entry in await bucket.history("a")] == [b"2"]


async def test_purge_deletes_keeps_a_young_marker_without_its_history(bucket: KeyValue) -> None:
    await bucket.put("a", b"1")
    await bucket.delete("a")
    await bucket.purge_deletes(older_than=timedelta(hours=1))
    assert [entry.revision async for entry in await bucket.history("a")] == [2]
    assert await bucket.create("a", b"3") == 3


async def test_lists_end_if_the_last_message_is_removed_before_it_comes(js: JetStream, bucket: KeyValue) -> None:
    async def removed() -> None:
        await bucket._stream.purge()

    for verb in (bucket.keys, lambda: bucket.history("a")):
        await bucket.put("a", b"1")
        found = await verb()
        await removed()
        assert [item async for item in found] == []
    await bucket.put("a", b"1")
    async with await bucket.watch_all() as watch:
        await removed()
        assert [entry async for entry in watch.values()] == []
        assert watch.at_eod()
        # The watch goes on, also by the wait that `values` has begun.
        await bucket.put("b", b"2")
        assert (await anext(watch)).key == "b"
        await bucket.put("c", b"3")
        assert (await anext(watch)).key == "c"


async def test_stop_of_a_list_deletes_its_consumer(bucket: KeyValue) -> None:
    for key in "abc":
        await bucket.put(key, b"1")
        await bucket.put(key, b"2")
    keys, history = await bucket.keys(), await bucket.history("a")
    assert await anext(keys) == "a"
    assert (await anext(history)).value == b"1"
    assert (await bucket.status()).stream_info.state.consumer_count == 2
    await keys.stop()
    await history.stop()
    assert (await bucket.status()).stream_info.state.consumer_count == 0
    assert [key async for key in keys] == []
    assert [entry async for entry in history] == []


@pytest.mark.parametrize(
    ("ttl", "text"),
    [
        (timedelta(hours=2), "7200s"),
        (timedelta(milliseconds=1500), "1500ms"),
        # A float of these seconds is below them.
        (timedelta(milliseconds=1001), "1001ms"),
        (timedelta(seconds=1, microseconds=7), "1000007us"),
        (timedelta(), "0s"),
    ],
)
def test_ttl_is_written_in_the_largest_unit_that_divides_it(ttl: timedelta, text: str) -> None:
    assert format_ttl(ttl) == text


async def test_mirror_of_another_domain_writes_to_its_origin() -> None:
    (port,) = free_ports(1)
    hub = f"jetstream {{ domain: hub }}\nleafnodes {{ listen: 127.0.0.1:{port} }}\n"
    leaf = f'jetstream {{ domain: leaf }}\nleafnodes {{ remotes: [ {{ url: "nats://127.0.0.1:{port}" }} ] }}\n'
    with NatsServer(config=hub) as one, NatsServer(config=leaf) as two:
        async with (
            await jetarrow.nats.client.connect(one.url) as at_hub,
            await jetarrow.nats.client.connect(two.url) as at_leaf,
        ):
            origin = await create_key_value(jetarrow.nats.jetstream.new(at_hub), KeyValueConfig(bucket="B"))
            await origin.put("a", b"1")
            js = jetarrow.nats.jetstream.new(at_leaf)
            source = StreamSource(name="B", external=ExternalStreamSource(api="$JS.hub.API"))
            await create_key_value(js, KeyValueConfig(bucket="M", mirror=source))
            mirror = await key_value(js, "M")

            async def has(key: str) -> bool:
                try:
                    return bool(await mirror.get(key))
                except KeyNotFoundError:
                    return False

            await until(lambda: has("a"))
            await mirror.put("b", b"2")
            assert (await origin.get("b")).value == b"2"
            await until(lambda: has("b"))
            assert [key async for key in await mirror.keys()] == ["a", "b"]
