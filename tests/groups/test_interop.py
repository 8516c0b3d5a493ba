"""Members in Go and in Python share a group: one consumer a name, each partition once, order per key over kills."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import pytest
from jetarrow.jetstream.groups.config import GroupConfig, PartitioningFilter
from jetarrow.jetstream.groups.group import ConsumerGroup, create_group
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from ..tools import until
from .go_peer import GoPeer, MemberProcess, OurPeer

PARTITIONS = 6
ACK_WAIT = 3.0
Peers = dict[str, Any]


@pytest.fixture
async def source(own: JetStreamContext) -> JetStreamContext:
    await own.add_stream(name="ORDERS", subjects=["orders.>"])
    return own


@pytest.fixture
def peers(pcgroups_tool: str, own_server: NatsServer) -> Peers:
    return {"go": GoPeer(pcgroups_tool, own_server.url, "ORDERS"), "ours": OurPeer(own_server.url, "ORDERS")}


async def elastic(js: JetStreamContext, *members: str) -> ConsumerGroup:
    config = GroupConfig("elastic", PARTITIONS, (PartitioningFilter("orders.*", (1,)),), members)
    return await create_group(js, "ORDERS", "G", config)


async def publish(js: JetStreamContext, keys: int, numbers: range) -> None:
    for number, key in itertools.product(numbers, range(keys)):
        await js.publish(f"orders.k{key}", f"{key} {number}".encode())


async def consumers(js: JetStreamContext) -> dict[str, Any]:
    return {info.name: info for info in await js.consumers_info("ORDERS-G")}


async def is_empty(js: JetStreamContext) -> bool:
    info = await js.stream_info("ORDERS-G")
    return info.state.messages == 0 and not any(one.lag for one in info.sources or ())


@pytest.mark.parametrize(("first", "second"), [("go", "ours"), ("ours", "go")])
@pytest.mark.parametrize(
    "settings", [{"ack_wait": 3.0, "max_ack_pending": 1}, {"ack_wait": 3.5, "max_ack_pending": 200}], ids=str
)
async def test_instances_of_one_name_share_a_consumer(
    first: str, second: str, settings: dict[str, float], source: JetStreamContext, peers: Peers
) -> None:
    await elastic(source, "m1", "m2")
    with peers[first].member("G", "m1", **settings) as one:
        await publish(source, 9, range(1))
        await until(lambda: one.handled)
        before = (await consumers(source))["m1"]
        with peers[second].member("G", "m1", **settings) as other:
            await publish(source, 9, range(1, 2))
            await until(lambda: len(one.handled) >= 2)
            after = (await consumers(source))["m1"]
            assert after.created == before.created
            assert after.config == before.config
            assert not other.handled
            one.kill()
            await publish(source, 9, range(2, 3))
            await until(lambda: other.handled)
            assert (await consumers(source))["m1"].created == before.created


async def test_each_partition_has_one_consumer_after_each_change(source: JetStreamContext, peers: Peers) -> None:
    group = await elastic(source, "m1", "m2", "m3", "m4")
    kinds = {"m1": "go", "m2": "ours", "m3": "go", "m4": "ours"}
    everything = [f"{partition}.orders.*" for partition in range(PARTITIONS)]
    processes = [peers[kind].member("G", name, ack_wait=ACK_WAIT) for name, kind in kinds.items()]
    try:
        for process in processes:
            process.__enter__()
        changes = [("remove", "m1"), ("remove", "m4"), ("add", "m1"), ("remove", "m2"), ("add", "m4"), ("remove", "m3")]
        present = set(kinds)
        for number, (verb, name) in enumerate([("add", "m1"), *changes]):
            await (group.add_member(name) if verb == "add" else group.remove_member(name))
            present = present | {name} if verb == "add" else present - {name}
            await publish(source, 12, range(number, number + 1))

            async def is_shared(expected: set[str] = present) -> bool:
                found = await consumers(source)
                subjects = [one for info in found.values() for one in info.config.filter_subjects]
                # The server itself refuses overlaps in a work queue.
                return set(found) == expected and sorted(subjects) == everything

            await asyncio.wait_for(until(is_shared), ACK_WAIT + 2 + 15)  # and 15 s of a busy machine
        await until(lambda: is_empty(source))
    finally:
        for process in processes:
            process.kill()
    assert_order(processes, missing=0)


def assert_order(processes: list[MemberProcess], *, missing: int) -> None:
    """Each key in its order by the time of processing, and no message acknowledged by two."""
    handled = sorted(
        (one for process in processes for one in process.handled if not one["error"]), key=lambda one: one["started"]
    )
    found: dict[str, list[int]] = {}
    for one in handled:
        key, number = one["data"].split()
        assert one["subject"] == f"orders.k{key}"
        found.setdefault(key, []).append(int(number))
    for key, numbers in found.items():
        assert numbers == sorted(set(numbers)), f"key {key}: {numbers}"
    rounds = max(map(max, found.values())) + 1
    # A killed process may have acknowledged messages that it has not written.
    assert len(found) * rounds - sum(map(len, found.values())) <= missing


async def test_order_holds_over_kills_of_either_side(source: JetStreamContext, peers: Peers) -> None:
    await elastic(source, "m1", "m2")
    chance = random.Random(1)
    everyone: list[tuple[str, MemberProcess]] = []
    running: dict[tuple[str, str], MemberProcess] = {}

    def start(kind: str, name: str) -> None:
        # A pin that ends soon lets both kinds take over.
        process = peers[kind].member("G", name, ack_wait=1.0, max_ack_pending=1, work=0.002)
        process.__enter__()
        everyone.append((kind, process))
        running[kind, name] = process

    try:
        for kind, name in itertools.product(("go", "ours"), ("m1", "m2")):
            start(kind, name)
        kills = 8
        for number in range(kills):
            await publish(source, 12, range(number * 10, number * 10 + 10))
            at = chance.choice(sorted(running))
            running[at].kill()
            start(*at)
            await asyncio.sleep(chance.uniform(0.2, 0.8))
        await until(lambda: is_empty(source), 90)
    finally:
        for _, process in everyone:
            process.kill()
    assert {kind for kind, process in everyone if process.handled} == {"go", "ours"}
    assert_order([process for _, process in everyone], missing=kills)
