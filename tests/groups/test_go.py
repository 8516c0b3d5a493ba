"""Groups that the Go library and we create, change and delete: the same entries, work queues and partitions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jetarrow.jetstream.groups.config import GroupConfig, GroupConfigError, PartitioningFilter
from jetarrow.jetstream.groups.group import ConsumerGroup, GroupNotFoundError, create_group
from jetarrow.jetstream.groups.partitions import subjects_of
from jetarrow.jetstream.literals import GroupKind
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .go_peer import GoError, GoPeer

FILTERS: list[tuple[tuple[str, tuple[int, ...]], ...]] = [
    (("orders.*.*", (1,)),),
    (("orders.*.*", (2, 1)),),
    (("orders.*.>", (1,)),),
    (("orders.*", ()),),
    (("orders.eu.*", (1,)), ("orders.us.*.*", (2,))),
    ((">", ()),),
    (),
]


@pytest.fixture
async def source(own: JetStreamContext) -> JetStreamContext:
    await own.add_stream(name="ORDERS", subjects=["orders.>"])
    return own


@pytest.fixture
def go(pcgroups_tool: str, own_server: NatsServer) -> GoPeer:
    return GoPeer(pcgroups_tool, own_server.url, "ORDERS")


def elastic(filters: tuple[tuple[str, tuple[int, ...]], ...], **more: Any) -> GroupConfig:
    return GroupConfig("elastic", 6, tuple(PartitioningFilter(*one) for one in filters), **more)


def go_filters(config: GroupConfig) -> list[dict[str, Any]]:
    return [{"filter": one.filter, "partitioning_wildcards": list(one.wildcards)} for one in config.filters]


def go_create(go: GoPeer, group: str, config: GroupConfig) -> Any:
    """Creates a group with the settings of a configuration of ours, without members if it is elastic."""
    if config.kind == "static":
        mappings = [{"member": name, "partitions": list(own)} for name, own in config.mappings.items()]
        return go(
            "create",
            group,
            kind="static",
            partitions=config.partitions,
            static_filters=[one.filter for one in config.filters] or None,
            members=list(config.members) or None,
            mappings=mappings or None,
        )
    return go(
        "create",
        group,
        partitions=config.partitions,
        filters=go_filters(config),
        max_msgs=config.max_buffered_msgs,
        max_bytes=config.max_buffered_bytes,
    )


async def entry_of(js: JetStreamContext, group: str, kind: GroupKind = "elastic") -> Any:
    entry = await (await js.key_value(f"{kind}-consumer-groups")).get(f"ORDERS.{group}")
    assert entry.value is not None
    # Go escapes `>`, and the order of members is any; the rest is equal byte for byte.
    found = json.loads(entry.value)
    assert json.dumps(found, separators=(",", ":")) == entry.value.decode().replace(r"\u003e", ">")
    return {**found, "members": sorted(found["members"])} if "members" in found else found


async def queue_of(js: JetStreamContext, group: str) -> tuple[Any, Any]:
    info = await js.stream_info(f"ORDERS-{group}")
    config = {**info.config.as_dict(), "name": ""}
    return info.created, config


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("limits", [{}, {"max_buffered_msgs": 100, "max_buffered_bytes": 100_000}], ids=["", "limits"])
async def test_elastic_groups_of_both_are_equal(
    filters: tuple[tuple[str, tuple[int, ...]], ...], limits: dict[str, int], source: JetStreamContext, go: GoPeer
) -> None:
    config = elastic(filters, **limits)
    await create_group(source, "ORDERS", "ours", config)
    go_create(go, "theirs", config)
    assert await entry_of(source, "ours") == await entry_of(source, "theirs")
    ours, theirs = await queue_of(source, "ours"), await queue_of(source, "theirs")
    assert ours[1] == theirs[1]
    # Each is accepted by the other side, and nothing is made again.
    go_create(go, "ours", config)
    await create_group(source, "ORDERS", "theirs", config)
    assert (await queue_of(source, "ours"), await queue_of(source, "theirs")) == (ours, theirs)
    assert go("list") == ["ours", "theirs"]
    with pytest.raises(GoError, match="can not be updated to the requested one"):
        go_create(go, "ours", elastic((("orders.eu.>", ()),), **limits))
    with pytest.raises(GroupConfigError, match="other filters"):
        await create_group(source, "ORDERS", "theirs", elastic((("orders.eu.>", ()),), **limits))


@pytest.mark.parametrize(
    "config",
    [
        GroupConfig("static", 4, (), ("m1", "m2")),
        GroupConfig("static", 4, (PartitioningFilter("orders.*"),), ("m2", "m1")),
        GroupConfig("static", 3, (PartitioningFilter("orders.*"), PartitioningFilter("orders.*.>")), ("m1",)),
        GroupConfig("static", 3, mappings={"a": (2, 0), "b": (1,)}),
        GroupConfig("static", 2),
    ],
    ids=lambda config: config.to_json().decode(),
)
async def test_static_groups_of_both_are_equal(config: GroupConfig, source: JetStreamContext, go: GoPeer) -> None:
    await create_group(source, "ORDERS", "ours", config)
    go_create(go, "theirs", config)
    for group in ("ours", "theirs"):
        entry = await (await source.key_value("static-consumer-groups")).get(f"ORDERS.{group}")
        assert (entry.value or b"").replace(rb"\u003e", b">") == config.to_json()
    go_create(go, "ours", config)
    await create_group(source, "ORDERS", "theirs", config)
    assert go("list", kind="static") == ["ours", "theirs"]
    assert go("config", "ours", kind="static") == json.loads(config.to_json())
    assert await ConsumerGroup(source, "ORDERS", "theirs", "static").info() == config


async def test_the_buckets_of_both_differ_in_ttls_only(source: JetStreamContext, go: GoPeer) -> None:
    async def bucket() -> Any:
        config = (await source.stream_info("KV_elastic-consumer-groups")).config.as_dict()
        # Our buckets allow a TTL per key, which needs a higher level of the server's API.
        return {name: value for name, value in config.items() if name not in ("allow_msg_ttl", "metadata")}

    await create_group(source, "ORDERS", "billing", elastic(()))
    ours = await bucket()
    await source.delete_key_value("elastic-consumer-groups")
    go("create", "audit", partitions=6, filters=[])
    assert await bucket() == ours


@pytest.mark.parametrize("maker", ["ours", "go"])
async def test_changes_of_both_leave_the_same_entry(maker: str, source: JetStreamContext, go: GoPeer) -> None:
    config = elastic((("orders.*.*", (1,)),), max_buffered_msgs=1000)
    if maker == "ours":
        group = await create_group(source, "ORDERS", "G", config)
    else:
        go_create(go, "G", config)
        group = ConsumerGroup(source, "ORDERS", "G", "elastic")
    fixed = await entry_of(source, "G")

    async def assert_members(*members: str) -> None:
        expected = {**fixed, "members": list(members)} if members else fixed
        assert await entry_of(source, "G") == expected
        assert sorted((await group.info()).members) == list(members)
        assert sorted(go("config", "G").get("members", [])) == list(members)

    go("add", "G", members=["m2", "m1"])
    await assert_members("m1", "m2")
    await group.add_member("m3")
    await assert_members("m1", "m2", "m3")
    go("add", "G", members=["m3", "m4"])
    await assert_members("m1", "m2", "m3", "m4")
    await group.remove_member("m1", "m4")
    await assert_members("m2", "m3")
    go("remove", "G", members=["m3"])
    await assert_members("m2")
    await group.remove_member("m2")
    await assert_members()

    mappings = {"a": [0, 2, 4], "b": [1, 3, 5]}
    listed = [{"member": name, "partitions": own} for name, own in mappings.items()]
    await group.set_mappings(mappings)
    ours = await entry_of(source, "G")
    assert ours == {**fixed, "member_mappings": listed}
    go("map", "G", mappings=listed)
    assert await entry_of(source, "G") == ours
    with pytest.raises(GoError, match="member mappings"):
        go("add", "G", members=["m1"])
    with pytest.raises(GroupConfigError, match="has mappings"):
        await group.add_member("m1")
    go("unmap", "G")
    await assert_members()


async def test_filters_that_go_wrote_as_null_stay_null(source: JetStreamContext, go: GoPeer) -> None:
    go("create", "G", partitions=6, filters=None)
    await ConsumerGroup(source, "ORDERS", "G", "elastic").add_member("m1")
    assert (await entry_of(source, "G"))["partitioning_filters"] is None


async def test_members_have_the_same_subjects(source: JetStreamContext, go: GoPeer) -> None:
    config = elastic((("orders.eu.*", (1,)), ("orders.us.*", (1,))))
    group = await create_group(source, "ORDERS", "G", config)
    filters = [one.filter for one in config.filters]
    members: list[str] = []
    for name in ("m10", "m1", "m2", "M", "_", "m11", "m3"):
        members = list((await group.add_member(name)).members)
        for member in (*members, "absent"):
            theirs = go("filters", "G", member=member) or []
            assert subjects_of(member, 6, filters, members, {}) == theirs, member


async def test_mapped_members_have_the_same_subjects_with_one_filter(source: JetStreamContext, go: GoPeer) -> None:
    group = await create_group(source, "ORDERS", "G", elastic((("orders.eu.*", (1,)),)))
    mappings = {"a": [3, 0], "b": [1, 2, 4, 5]}
    await group.set_mappings(mappings)
    for member in ("a", "b", "c"):
        theirs = go("filters", "G", member=member) or []
        assert subjects_of(member, 6, ["orders.eu.*"], [], mappings) == theirs


async def test_mapped_members_with_two_filters_repeat_subjects_in_go(source: JetStreamContext, go: GoPeer) -> None:
    group = await create_group(source, "ORDERS", "G", elastic((("orders.eu.*", (1,)), ("orders.us.*", (1,)))))
    await group.set_mappings({"a": range(6)})
    theirs = go("filters", "G", member="a")
    ours = subjects_of("a", 6, ["orders.eu.*", "orders.us.*"], [], {"a": range(6)})
    assert (len(theirs), len(ours)) == (12, 6)
    assert set(theirs) == set(ours)
    with pytest.raises(js_errors.BadRequestError) as refused:
        await source.add_consumer("ORDERS-G", name="a", filter_subjects=theirs, ack_policy="explicit")
    assert refused.value.err_code == 10138


async def test_each_deletes_the_groups_of_the_other(source: JetStreamContext, go: GoPeer) -> None:
    await create_group(source, "ORDERS", "ours", elastic(()))
    go_create(go, "theirs", elastic(()))
    go("delete", "ours")
    await ConsumerGroup(source, "ORDERS", "theirs", "elastic").delete()
    assert go("list") in (None, [])
    assert {info.config.name async for info in _streams(source)} == {"ORDERS", "KV_elastic-consumer-groups"}
    with pytest.raises(GroupNotFoundError):
        await ConsumerGroup(source, "ORDERS", "ours", "elastic").info()
    with pytest.raises(GoError, match="not found"):
        go("config", "theirs")
    # A name is free again.
    go_create(go, "ours", elastic((("orders.*", ()),)))
    await create_group(source, "ORDERS", "theirs", elastic((("orders.*", ()),)))


async def _streams(js: JetStreamContext) -> Any:
    for info in await js.streams_info():
        yield info


async def test_go_deletes_consumers_of_groups_whose_name_begins_alike(source: JetStreamContext, go: GoPeer) -> None:
    """A limit of the Go library, which ours does not have: `DeleteStatic` takes the consumers of `audit-m1` too."""
    config = GroupConfig("static", 4, (), ("m1",))
    for remove, left in (("go", set()), ("ours", {"audit-x-m1"})):
        for name in ("audit", "audit-x"):
            group = await create_group(source, "ORDERS", name, config)
            await source.add_consumer("ORDERS", durable_name=group.consumer_of("m1"), ack_policy="explicit")
        if remove == "go":
            go("delete", "audit", kind="static")
        else:
            await ConsumerGroup(source, "ORDERS", "audit", "static").delete()
        assert {info.name for info in await source.consumers_info("ORDERS")} == left
        await ConsumerGroup(source, "ORDERS", "audit-x", "static").delete()
