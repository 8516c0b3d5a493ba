"""Consumer groups: entries, work queues and their changes, on a real server."""

from __future__ import annotations

import pytest
from jetarrow.jetstream.groups.config import GroupConfig, GroupConfigError, PartitioningFilter
from jetarrow.jetstream.groups.group import ConsumerGroup, GroupNotFoundError, create_group
from jetarrow.jetstream.groups.partitions import partition_of
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext

from ..tools import until


@pytest.fixture
async def source(own: JetStreamContext) -> JetStreamContext:
    await own.add_stream(name="ORDERS", subjects=["orders.>"])
    return own


def elastic(*members: str, partitions: int = 6) -> GroupConfig:
    return GroupConfig("elastic", partitions, (PartitioningFilter("orders.*.*", (1,)),), members)


async def test_an_elastic_group(source: JetStreamContext) -> None:
    group = await create_group(source, "ORDERS", "billing", elastic("m1", "m2"))
    entry = await (await source.key_value("elastic-consumer-groups")).get("ORDERS.billing")
    assert entry.value == (
        b'{"max_members":6,"partitioning_filters":[{"filter":"orders.*.*","partitioning_wildcards":[1]}],'
        b'"members":["m1","m2"]}'
    )
    queue = (await source.stream_info("ORDERS-billing")).config
    assert (queue.retention, queue.discard, queue.allow_direct) == ("workqueue", "new", True)
    for number in range(7):
        await source.publish(f"orders.k{number}.x", b"")

    async def sourced() -> bool:
        return (await source.stream_info("ORDERS-billing")).state.messages == 7

    await until(sourced)
    table = await source.read("ORDERS-billing", columns=["subject"]).read_all()
    subjects = [f"orders.k{number}.x" for number in range(7)]
    assert table["subject"].to_pylist() == [f"{partition_of(one, [2], 6)}.{one}" for one in subjects]
    # Again: the same group, whatever its members are now.
    await create_group(source, "ORDERS", "billing", elastic())
    assert (await group.info()).members == ("m1", "m2")
    with pytest.raises(GroupConfigError, match="other partitions"):
        await create_group(source, "ORDERS", "billing", elastic(partitions=7))


async def test_members_change(source: JetStreamContext) -> None:
    group = await create_group(source, "ORDERS", "billing", elastic("m1"))
    assert (await group.add_member("m2", "m1")).members == ("m1", "m2")
    assert (await group.remove_member("m1", "m7")).members == ("m2",)
    assert await group.members() == {"m2": False}
    await source.add_consumer("ORDERS-billing", name="m2", filter_subjects=["0.>"], ack_policy="explicit")
    assert await group.members() == {"m2": True}
    with pytest.raises(GroupConfigError, match="letters, digits"):
        await group.add_member("a b")
    await group.set_mappings({"a": [0, 2, 4], "b": [1, 3, 5]})
    assert (await group.info()).mappings == {"a": (0, 2, 4), "b": (1, 3, 5)}
    with pytest.raises(GroupConfigError, match="has mappings"):
        await group.add_member("m3")
    with pytest.raises(GroupConfigError, match="each partition"):
        await group.set_mappings({"a": [0]})


async def test_the_end_of_a_group(source: JetStreamContext) -> None:
    group = await create_group(source, "ORDERS", "billing", elastic("m1"))
    await group.delete()
    with pytest.raises(js_errors.NotFoundError):
        await source.stream_info("ORDERS-billing")
    for verb in (group.info, group.members, group.delete):
        with pytest.raises(GroupNotFoundError, match="no elastic group 'billing' of stream 'ORDERS'"):
            await verb()


async def test_a_static_group(source: JetStreamContext) -> None:
    config = GroupConfig("static", 4, (PartitioningFilter("orders.*"),), ("m1", "m2"))
    group = await create_group(source, "ORDERS", "audit", config)
    assert (await group.info()).to_json() == b'{"max_members":4,"filters":["orders.*"],"members":["m1","m2"]}'
    with pytest.raises(GroupConfigError, match="is static"):
        await group.add_member("m3")
    with pytest.raises(GroupConfigError, match="other members"):
        await create_group(source, "ORDERS", "audit", GroupConfig("static", 4, config.filters, ("m2", "m1")))
    other = await create_group(source, "ORDERS", "audit-m1", config)
    for one in (group, other):
        await source.add_consumer("ORDERS", durable_name=one.consumer_of("m1"), ack_policy="explicit")
    await group.delete()
    assert {info.name for info in await source.consumers_info("ORDERS")} == {"audit-m1-m1"}


async def test_a_stream_without_groups(source: JetStreamContext) -> None:
    with pytest.raises(GroupNotFoundError, match="create_consumer_group"):
        await ConsumerGroup(source, "ORDERS", "billing", "elastic").info()
    with pytest.raises(js_errors.NotFoundError):
        await create_group(source, "NONE", "billing", elastic())


async def test_a_change_of_members_keeps_the_rest_of_an_entry(source: JetStreamContext) -> None:
    """Also what this module would write otherwise, such as `null` and fields of later versions."""
    group = await create_group(source, "ORDERS", "G", elastic())
    bucket = await source.key_value("elastic-consumer-groups")
    await bucket.put("ORDERS.G", b'{"max_members":3,"partitioning_filters":null,"later":{"x":1},"members":["m1"]}')
    await group.add_member("m2")
    expected = b'{"max_members":3,"partitioning_filters":null,"later":{"x":1},"members":["m1","m2"]}'
    assert (await bucket.get("ORDERS.G")).value == expected
    await group.set_mappings({"m1": [0, 1, 2]})
    assert b'"members"' not in ((await bucket.get("ORDERS.G")).value or b"")


async def test_a_group_with_an_invalid_entry_can_be_deleted(source: JetStreamContext) -> None:
    group = await create_group(source, "ORDERS", "G", elastic("m1"))
    await (await source.key_value("elastic-consumer-groups")).put("ORDERS.G", b"no json")
    with pytest.raises(GroupConfigError):
        await group.info()
    await group.delete()
    with pytest.raises(GroupNotFoundError):
        await group.info()
    with pytest.raises(js_errors.NotFoundError):
        await source.stream_info("ORDERS-G")
