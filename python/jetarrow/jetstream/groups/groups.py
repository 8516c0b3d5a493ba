"""The verbs of a context that create, open and list consumer groups, and run their members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from jetarrow.core.arguments import check_whole
from jetarrow.core.suggestions import suggests_keywords
from jetarrow.jetstream.errors import BucketNotFoundError, NoKeysError
from jetarrow.jetstream.group_errors import GroupConfigError
from jetarrow.jetstream.kv.key_values import KeyValues
from jetarrow.jetstream.literals import GroupKind, check_literal

if TYPE_CHECKING:
    from jetarrow.jetstream.groups.group import ConsumerGroup
    from jetarrow.jetstream.groups.member import GroupMember


class ConsumerGroups(KeyValues):
    """The verbs of partitioned consumer groups."""

    @suggests_keywords
    async def create_consumer_group(
        self,
        stream: str,
        name: str,
        *,
        partitions: int,
        kind: GroupKind = "elastic",
        filter: str | Sequence[str] | None = None,
        partition_by: Sequence[int] | Sequence[Sequence[int]] | None = None,
        members: Iterable[str] = (),
        mappings: Mapping[str, Iterable[int]] | None = None,
        max_buffered_msgs: int = 0,
        max_buffered_bytes: int = 0,
    ) -> ConsumerGroup:
        """Creates a partitioned consumer group; opens it if it exists with the same configuration.

        Args:
            stream: The stream whose messages the members share.
            name: Name of the group: letters, digits, `-`, `_` and `=`.
            partitions: Number of partitions, which is the most members that have work. It cannot be changed.
            kind: "elastic" has a work-queue stream of its own, and members that change; "static" reads a stream whose
                subjects begin with the partition, with fixed members.
            filter: Subjects of the group, one filter or several, each with a `*` or a final `>`; without the partition.
                Default: all.
            partition_by: Numbers of the `*` of the filter, from 1, whose tokens are the key: one list for all filters,
                or one for each. Default: the whole subject is the key. For elastic groups.
            members: Names of the members, among which the partitions are divided.
            mappings: Instead of `members`: the partitions of each member.
            max_buffered_msgs: Most messages in the work queue of an elastic group; default 0, no limit.
            max_buffered_bytes: Most bytes in the work queue; default 0, no limit.

        Raises:
            GroupConfigError: The configuration or a name is invalid, or the group exists with another configuration.
            NotFoundError: The stream does not exist.
            ValueError: The kind is unknown.
        """
        from jetarrow.jetstream.groups.config import GroupConfig, filters_of
        from jetarrow.jetstream.groups.group import create_group

        check_literal("kind", kind, GroupKind)
        check_whole(partitions=partitions, max_buffered_msgs=max_buffered_msgs, max_buffered_bytes=max_buffered_bytes)
        if kind == "static" and (partition_by or max_buffered_msgs or max_buffered_bytes):
            raise GroupConfigError(
                "a static group has no partition_by, max_buffered_msgs and max_buffered_bytes: its stream has the"
                " partition in its subjects (a subject transform)"
            )
        config = GroupConfig(
            kind,
            partitions,
            filters_of(filter, partition_by),
            tuple(members),
            {member: tuple(own) for member, own in (mappings or {}).items()},
            max_buffered_msgs,
            max_buffered_bytes,
        )
        return await create_group(self, stream, name, config)

    async def open_consumer_group(self, stream: str, name: str, *, kind: GroupKind | None = None) -> ConsumerGroup:
        """Opens a consumer group.

        Args:
            stream: The stream of the group.
            name: Its name.
            kind: "static" or "elastic". Default: the one that exists.

        Raises:
            GroupNotFoundError: There is no such group.
            GroupConfigError: Its entry is invalid, or there are an elastic and a static group of this name.
        """
        from jetarrow.jetstream.groups.group import open_group

        return await open_group(self, stream, name, kind)

    async def consumer_groups(self, stream: str) -> list[ConsumerGroup]:
        """Returns the consumer groups of a stream, sorted by name.

        Args:
            stream: The stream.
        """
        from jetarrow.jetstream.groups.config import BUCKETS
        from jetarrow.jetstream.groups.group import KINDS, ConsumerGroup

        found: list[ConsumerGroup] = []
        for kind in KINDS:
            try:
                keys = await (await self.key_value(BUCKETS[kind])).keys()
            except (BucketNotFoundError, NoKeysError):
                continue
            names = (key.partition(".") for key in keys)
            found += [ConsumerGroup(self, stream, name, kind) for owner, _, name in names if owner == stream]
        return sorted(found, key=lambda group: (group.name, group.kind))

    @suggests_keywords
    def consumer_group(
        self,
        stream: str,
        name: str,
        *,
        member: str,
        kind: GroupKind | None = None,
        ack_wait: float = 5.0,
        max_ack_pending: int = 1000,
    ) -> GroupMember:
        """Returns a member of a consumer group, which reads its partitions in the order of each key.

        Several programs may run under one member name: the server selects one of them, and another one takes over when
        it ends or hangs for `ack_wait` (at least 1 s). All of them, also those in Go and Java, need the same
        `ack_wait` and `max_ack_pending`.

        Args:
            stream: The stream of the group.
            name: Name of the group.
            member: Name of the member. In an elastic group it may be added later: the member waits.
            kind: "static" or "elastic". Default: the one that exists.
            ack_wait: Seconds after which the server delivers an unacknowledged message again. Batches in work are kept
                from that.
            max_ack_pending: Most unacknowledged messages of the member.

        Returns:
            The member: `async with js.consumer_group(…) as member`, then `async for batch in member.batches()`. It is
            opened by either.

        Raises:
            GroupConfigError: The member's name is invalid.
            ValueError: A number is not positive, or the kind is unknown.
        """
        from jetarrow.jetstream.groups.config import check_name
        from jetarrow.jetstream.groups.member import GroupMember

        if kind is not None:
            check_literal("kind", kind, GroupKind)
        check_whole(max_ack_pending=max_ack_pending)
        if not ack_wait > 0 or max_ack_pending < 1:
            raise ValueError(
                f"ack_wait must be positive and max_ack_pending 1 or more, not {ack_wait} and {max_ack_pending}"
            )
        check_name("member", member)
        return GroupMember(self, stream, name, member, kind=kind, ack_wait=ack_wait, max_ack_pending=max_ack_pending)
