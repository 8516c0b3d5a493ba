"""Verbs of groups and options of members that are refused."""

from __future__ import annotations

from typing import Any

import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import GroupConfigError, GroupNotFoundError

from .tools import elastic, member


@pytest.fixture
async def js(own: JetStreamContext) -> JetStreamContext:
    await own.add_stream(name="ORDERS", subjects=["orders.>"])
    return own


async def test_verbs_of_groups(js: JetStreamContext) -> None:
    with pytest.raises(GroupNotFoundError, match="no consumer group 'G'"):
        await member(js).open()
    group = await elastic(js, "m1")
    assert (await js.open_consumer_group("ORDERS", "G")).kind == "elastic"
    with pytest.raises(GroupNotFoundError, match="no static consumer group"):
        await js.open_consumer_group("ORDERS", "G", kind="static")
    await js.create_consumer_group("ORDERS", "G", kind="static", partitions=2)
    assert [one.kind for one in await js.consumer_groups("ORDERS")] == ["elastic", "static"]
    assert await js.consumer_groups("OTHER") == []
    with pytest.raises(GroupConfigError, match="give kind="):
        await js.open_consumer_group("ORDERS", "G")
    with pytest.raises(GroupConfigError, match="static group has no partition_by"):
        await js.create_consumer_group("ORDERS", "H", kind="static", partitions=2, filter="a.*", partition_by=[1])
    with pytest.raises(GroupConfigError, match="give filter="):
        await js.create_consumer_group("ORDERS", "H", partitions=2, partition_by=[1])
    two = {"filter": ["orders.*", "orders.*.x.*"], "partitions": 2}
    with pytest.raises(GroupConfigError, match="one for each"):
        await js.create_consumer_group("ORDERS", "H", partition_by=[[1]], **two)
    made = await js.create_consumer_group("ORDERS", "H", partition_by=[[1], [2, 1]], **two)
    assert [one.wildcards for one in (await made.info()).filters] == [(1,), (2, 1)]
    await js.delete_stream(group.work_queue)
    with pytest.raises(GroupNotFoundError, match="no stream 'ORDERS-G'"):
        await member(js, kind="elastic").open()


@pytest.mark.parametrize("options", [{"ack_wait": 0}, {"max_ack_pending": 0}, {"kind": "other"}])
async def test_options_that_are_refused(options: dict[str, Any], js: JetStreamContext) -> None:
    with pytest.raises(ValueError, match=r"positive|kind"):
        member(js, **options)
    with pytest.raises(GroupConfigError, match="name"):
        member(js, "a b")
    with pytest.raises(ValueError, match="rows"):
        await anext(member(js).batches(rows=0))
