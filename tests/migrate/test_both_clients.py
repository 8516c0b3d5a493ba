"""Statements of the checklist and of rules, against a server: nats-py and jetarrow side by side, refused values."""

from __future__ import annotations

import uuid
from typing import Any

import jetarrow
import nats
import pytest
from jetarrow.js import errors as js_errors
from jetarrow.js.api import ConsumerConfig

from tests.tools import until

COUNT = 40


async def test_clients_of_both_kinds_share_a_queue_group(nats_url: str) -> None:
    subject = uuid.uuid4().hex
    received: dict[str, list[bytes]] = {"nats-py": [], "jetarrow": []}
    clients: list[Any] = [await nats.connect(nats_url), await jetarrow.connect(nats_url)]
    for client, name in zip(clients, received, strict=True):

        async def add(msg: Any, name: str = name) -> None:
            received[name].append(msg.data)

        await client.subscribe(subject, queue="workers", cb=add)
        await client.flush()
    for number in range(COUNT):
        await clients[0].publish(subject, b"%d" % number)
    await clients[0].flush()

    async def all_received() -> bool:
        return sum(map(len, received.values())) == COUNT

    await until(all_received)
    assert sorted(int(one) for got in received.values() for one in got) == list(range(COUNT))
    assert all(received.values())
    for client in clients:
        await client.close()


async def test_clients_of_both_kinds_share_a_durable_consumer(nats_url: str) -> None:
    name = uuid.uuid4().hex
    clients: list[Any] = [await nats.connect(nats_url), await jetarrow.connect(nats_url)]
    js = [client.jetstream() for client in clients]
    await js[0].add_stream(name=name, subjects=[f"{name}.>"])
    for number in range(COUNT):
        await js[0].publish(f"{name}.a", b"%d" % number)
    for first, second in ((0, 1), (1, 0)):
        durable = f"work-{first}"
        subs = [await js[at].pull_subscribe(f"{name}.>", durable=durable) for at in (first, second)]
        got = []
        for sub in subs:
            for msg in await sub.fetch(COUNT // 2):
                got.append(int(msg.data))
                await msg.ack_sync(timeout=20)
        assert sorted(got) == list(range(COUNT))
    for client in clients:
        await client.close()


@pytest.mark.parametrize("prefix", ["a b", "a..b", "a.*"])
async def test_a_prefix_that_the_rule_finds_is_refused(nats_url: str, prefix: str) -> None:
    with pytest.raises(ValueError, match="inbox_prefix"):
        await jetarrow.connect(nats_url, inbox_prefix=prefix)


async def test_keys_refuses_unknown_keywords(nats_url: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        kv = await nc.jetstream().create_key_value(bucket=uuid.uuid4().hex)
        with pytest.raises(TypeError):
            await kv.keys(meta_only=True)  # type: ignore[call-arg]
        for key in ("a b", ".a"):
            with pytest.raises(js_errors.InvalidKeyError):
                await kv.purge(key)


async def test_a_consumer_that_pull_subscribe_creates_has_the_limit_that_the_rule_names(nats_url: str) -> None:
    name = uuid.uuid4().hex
    async with await jetarrow.connect(nats_url) as nc:
        js = nc.jetstream()
        await js.add_stream(name=name, subjects=[f"{name}.>"])
        for config in (None, ConsumerConfig(ack_policy="explicit"), ConsumerConfig(ack_policy="all")):
            info = await (await js.pull_subscribe(f"{name}.>", config=config)).consumer_info()
            assert info.config.max_ack_pending == 100_000
        info = await (await js.pull_subscribe(f"{name}.>", config=ConsumerConfig(ack_policy="none"))).consumer_info()
        assert info.config.max_ack_pending != 100_000
        await js.delete_stream(name)
