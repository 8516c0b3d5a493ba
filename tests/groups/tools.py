"""A group of the stream ORDERS, and its members."""

from __future__ import annotations

from typing import Any

from jetarrow.jetstream.groups.member import GroupMember
from jetarrow.js.client import JetStreamContext

ACK_WAIT = 1.0


async def elastic(js: JetStreamContext, *members: str, **options: Any) -> Any:
    options = {"filter": "orders.*", "partition_by": [1], "partitions": 6, "members": members, **options}
    return await js.create_consumer_group("ORDERS", "G", **options)


def member(js: JetStreamContext, name: str = "m1", **options: Any) -> GroupMember:
    return js.consumer_group("ORDERS", "G", member=name, **{"ack_wait": ACK_WAIT, **options})
