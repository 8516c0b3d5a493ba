"""A consumer group: its entry, its members and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING

from jetarrow.jetstream import models
from jetarrow.jetstream.errors import BucketNotFoundError, KeyNotFoundError, NotFoundError
from jetarrow.jetstream.group_errors import GroupNotFoundError as GroupNotFoundError
from jetarrow.jetstream.groups.config import (
    BUCKETS,
    PRIORITY_GROUP,
    GroupConfig,
    GroupConfigError,
    PartitioningFilter,
    check_name,
)
from jetarrow.jetstream.groups.partitions import transform
from jetarrow.jetstream.kv.key_values import KeyValues
from jetarrow.jetstream.literals import GroupKind, check_literal

if TYPE_CHECKING:
    from jetarrow.jetstream.kv.key_value import KeyValue


KINDS: tuple[GroupKind, ...] = ("elastic", "static")


class ConsumerGroup:
    """A partitioned consumer group of a stream."""

    def __init__(self, js: KeyValues, stream: str, name: str, kind: GroupKind) -> None:
        self._js = js
        self.stream = stream
        self.name = name
        self.kind = kind

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {self.stream}, {self.kind}>"

    @property
    def key(self) -> str:
        """Key of the group's entry."""
        return f"{self.stream}.{self.name}"

    @property
    def work_queue(self) -> str:
        """The stream that members read."""
        return f"{self.stream}-{self.name}" if self.kind == "elastic" else self.stream

    def consumer_of(self, member: str) -> str:
        """Name of a member's consumer."""
        return member if self.kind == "elastic" else f"{self.name}-{member}"

    async def info(self) -> GroupConfig:
        """Returns the configuration, with the members.

        Raises:
            GroupNotFoundError: The group does not exist.
            GroupConfigError: The stored entry is invalid.
        """
        return (await self._read())[0]

    async def members(self) -> dict[str, bool]:
        """Returns whether each member has a consumer that is in use.

        Raises:
            GroupNotFoundError: The group does not exist.
        """
        config = await self.info()
        names = config.mappings or config.members
        return {name: await self._is_active(name) for name in names}

    async def add_member(self, *members: str) -> GroupConfig:
        """Adds members to an elastic group; running members share the partitions anew.

        Args:
            *members: Their names.

        Returns:
            The new configuration.

        Raises:
            GroupNotFoundError: The group does not exist.
            GroupConfigError: The group is static or has mappings, or a name is invalid.
            KeyWrongLastSequenceError: Another client changed the members meanwhile: nothing was changed, try again.
        """
        return await self._change("add members", lambda old: (*old, *(one for one in members if one not in old)))

    async def remove_member(self, *members: str) -> GroupConfig:
        """Removes members from an elastic group; as `add_member`."""
        return await self._change("remove members", lambda old: tuple(one for one in old if one not in members))

    async def set_mappings(self, mappings: Mapping[str, Iterable[int]]) -> GroupConfig:
        """Gives each member of an elastic group its partitions, in place of its list of members.

        Args:
            mappings: Partitions by member; each partition once.

        Returns:
            The new configuration.

        Raises:
            GroupNotFoundError: The group does not exist.
            GroupConfigError: The group is static, or a partition is missing or there twice.
            KeyWrongLastSequenceError: Another client changed the entry meanwhile: nothing was changed, try again.
        """
        config, revision = await self._read()
        self._must_be_elastic("set mappings")
        found = {member: tuple(own) for member, own in mappings.items()}
        return await self._write(replace(config, members=(), mappings=found), revision)

    async def delete(self) -> None:
        """Deletes the group with its consumers, and the work queue of an elastic group with all its messages.

        Members that run end without an error. A group whose entry is invalid is deleted too, except for the consumers
        of a static one.

        Raises:
            GroupNotFoundError: The group does not exist.
        """
        try:
            config = await self.info()
        except GroupConfigError:
            # An invalid entry names no members, whose consumers of a static group remain.
            config = GroupConfig(self.kind, partitions=1)
        await (await self._bucket()).delete(self.key)
        if self.kind == "elastic":
            with suppress(NotFoundError):
                await self._js.delete_stream(self.work_queue)
            return
        # By the names of its members: another group's name may begin with this one's.
        for member in config.mappings or config.members:
            with suppress(NotFoundError):
                await self._js.delete_consumer(self.stream, self.consumer_of(member))

    async def step_down(self, member: str) -> None:
        """Has another program that runs under a member's name take over.

        Args:
            member: The member.

        Raises:
            NotFoundError: The member has no consumer.
        """
        await self._js.unpin_consumer(self.work_queue, self.consumer_of(member), PRIORITY_GROUP)

    async def _bucket(self) -> KeyValue:
        try:
            return await self._js.key_value(BUCKETS[self.kind])
        except BucketNotFoundError:
            raise self._not_found() from None

    async def _read(self) -> tuple[GroupConfig, int]:
        try:
            entry = await (await self._bucket()).get(self.key)
        except KeyNotFoundError:
            raise self._not_found() from None
        return GroupConfig.from_json(self.kind, entry.value or b""), entry.revision or 0

    def _not_found(self) -> GroupNotFoundError:
        return GroupNotFoundError(
            f"there is no {self.kind} group {self.name!r} of stream {self.stream!r}: create it with"
            " js.create_consumer_group()"
        )

    async def _change(self, what: str, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> GroupConfig:
        config, revision = await self._read()
        self._must_be_elastic(what)
        if config.mappings:
            raise GroupConfigError(f"could not {what}: group {self.name!r} has mappings; use set_mappings()")
        return await self._write(replace(config, members=change(config.members)), revision)

    def _must_be_elastic(self, what: str) -> None:
        if self.kind == "static":
            raise GroupConfigError(f"could not {what}: group {self.name!r} is static; delete it and create another one")

    async def _write(self, config: GroupConfig, revision: int) -> GroupConfig:
        config.check()
        await (await self._bucket()).update(self.key, config.to_json(), revision)
        return config

    async def _is_active(self, member: str) -> bool:
        try:
            info = await self._js.consumer_info(self.work_queue, self.consumer_of(member))
        except NotFoundError:
            return False
        return self.kind == "elastic" or bool(info.num_waiting)


async def create_group(js: KeyValues, stream: str, name: str, config: GroupConfig) -> ConsumerGroup:
    """Creates a group, and the work queue of an elastic one; opens it if it exists with the same configuration.

    Raises:
        GroupConfigError: The configuration or the name is invalid, or the group exists with another one.
        NotFoundError: The stream does not exist.
    """
    check_name("group", name)
    config.check()
    group = ConsumerGroup(js, stream, name, config.kind)
    source = (await js.stream_info(stream)).config
    bucket = await js.create_key_value(
        bucket=BUCKETS[config.kind], history=1, replicas=max(1, source.num_replicas or 1)
    )
    try:
        entry = await bucket.get(group.key)
    except KeyNotFoundError:
        entry = None
    if entry is not None:
        field = GroupConfig.from_json(config.kind, entry.value or b"").difference(config)
        if field is not None:
            raise GroupConfigError(
                f"could not create group {name!r} of stream {stream!r}: it exists with other {field}; delete it first"
            )
        return group
    if config.kind == "elastic":
        filters = config.filters or (PartitioningFilter(""),)
        transforms = [transform(one.filter, one.wildcards, config.partitions) for one in filters]
        await js.add_stream(
            name=group.work_queue,
            retention="workqueue",
            discard="new",
            storage=source.storage,
            num_replicas=source.num_replicas,
            allow_direct=True,
            max_msgs=config.max_buffered_msgs or -1,
            max_bytes=config.max_buffered_bytes or -1,
            sources=[
                models.StreamSource(name=stream, subject_transforms=list(starmap(models.SubjectTransform, transforms)))
            ],
        )
    # If this fails, a second call creates the rest: the work queue may be another client's, with messages.
    await bucket.put(group.key, config.to_json())
    return group


async def open_group(js: KeyValues, stream: str, name: str, kind: GroupKind | None) -> ConsumerGroup:
    """Returns a group that exists, of a kind or of either; raises as `open_consumer_group`."""
    if kind is not None:
        check_literal("kind", kind, GroupKind)
    found: list[ConsumerGroup] = []
    for one in (kind,) if kind else KINDS:
        group = ConsumerGroup(js, stream, name, one)
        try:
            await group.info()
        except GroupNotFoundError:
            continue
        found.append(group)
    if len(found) > 1:
        raise GroupConfigError(f"stream {stream!r} has an elastic and a static group {name!r}: give kind=")
    if not found:
        raise GroupNotFoundError(
            f"stream {stream!r} has no {f'{kind} ' if kind else ''}consumer group {name!r}: create it with"
            " js.create_consumer_group()"
        )
    return found[0]
