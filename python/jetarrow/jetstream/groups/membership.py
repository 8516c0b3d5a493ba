"""A member's part of its group: follows the entry, and creates and deletes the member's consumer."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jetarrow.core.errors import BadSubscriptionError, Error, TimeoutError
from jetarrow.jetstream import models
from jetarrow.jetstream.api_errors import APIError, NotFoundError
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.group_errors import GroupChangedError, GroupConfigError, GroupMemberError, GroupNotFoundError
from jetarrow.jetstream.groups.config import PRIORITY_GROUP, GroupConfig
from jetarrow.jetstream.groups.group import ConsumerGroup
from jetarrow.jetstream.groups.partitions import shared, subjects_of
from jetarrow.jetstream.manage.consumers import put_consumer

if TYPE_CHECKING:
    from jetarrow.jetstream.kv.entry import Entry
    from jetarrow.jetstream.kv.key_values import KeyValues
    from jetarrow.jetstream.kv.watcher import KeyWatcher

# Errors of nats-server: a consumer of this name exists with another configuration; another consumer of the work queue
# reads one of the subjects.
CONSUMER_DIFFERS, SUBJECT_IN_USE = 10148, 10100
# Seconds after `ack_wait` at which a member without a consumer tries again (pcgroups).
CORRECTION = 0.5
# Least and most seconds that a program without the pin waits before it creates the consumer after a change (pcgroups).
BACKOFF = (0.4, 0.5)
# Shortest pinned time in seconds.
MIN_PINNED = 1.0


def pinned_time(ack_wait: float) -> float:
    """Seconds without a pull after which the server pins another program."""
    return max(ack_wait, MIN_PINNED)


class Membership:
    """The consumer of a member, as the group's entry demands it."""

    def __init__(
        self,
        js: KeyValues,
        group: ConsumerGroup,
        member: str,
        *,
        ack_wait: float,
        max_ack_pending: int,
        quiet: Callable[[], Awaitable[None]],
    ) -> None:
        # Called before the consumer is deleted: acknowledgements on the way would never be answered.
        self._quiet = quiet
        self._js, self._group, self._member = js, group, member
        self._ack_wait, self._max_ack_pending = ack_wait, max_ack_pending
        self._session = js._api.session
        self._watcher: KeyWatcher | None = None
        self._config: GroupConfig | None = None
        # The entry that was followed to its end: a rebalance that fails or is cancelled is repeated.
        self._followed: GroupConfig | None = None
        # Whether the consumer of a former entry is to be deleted, and the pin that allows it.
        self._is_leaving = False
        self._leaving_pin: str | None = None
        # Time at which a member without a consumer tries again.
        self._retry_at = math.inf
        # The group was deleted, or its entry ends its members.
        self.is_over = False
        self.sub: PullSubscription | None = None

    @property
    def partitions(self) -> list[int]:
        """The partitions that the member reads; empty without a consumer."""
        # Not those of a new entry before its rebalance: batches of the former consumer are still acknowledged.
        config = self._followed
        if config is None or self.sub is None:
            return []
        if config.mappings:
            return sorted(config.mappings.get(self._member, ()))
        return shared(config.members, config.partitions).get(self._member, [])

    @property
    def consumer(self) -> str:
        """Name of the consumer."""
        return self._group.consumer_of(self._member)

    async def open(self) -> None:
        """Reads the entry and creates the consumer.

        Raises:
            GroupNotFoundError: The group, or the work queue of an elastic group, does not exist.
            GroupConfigError: The entry is invalid, or the consumer of a static group has other settings.
            GroupMemberError: The group is static and has no such member.
        """
        group = self._group
        try:
            await self._js.stream_info(group.work_queue)
        except NotFoundError:
            raise GroupNotFoundError(
                f"could not join group {group.name!r}: there is no stream {group.work_queue!r} to read"
            ) from None
        self._watcher = await (await group._bucket()).watch(group.key)
        first = await self._watcher.updates(timeout=None)
        if first is None or first.operation is not None:
            raise group._not_found()
        self._config = GroupConfig.from_json(group.kind, first.value or b"")
        if group.kind == "static" and not self._subjects(self._config):
            raise GroupMemberError(
                f"static group {group.name!r} of stream {group.stream!r} has no partition for member {self._member!r}:"
                " its members cannot change"
            )
        await self._join()
        self._followed = self._config

    async def follow(self, pin: str | None, now: float) -> None:
        """Takes changes of the entry, and tries again to create a consumer that is missing.

        Args:
            pin: The pin id that this program saw last.
            now: Seconds of the session's clock.

        Raises:
            GroupChangedError: The group was changed so that its members end.
            GroupConfigError: The entry is invalid.
        """
        assert self._watcher is not None
        while not self.is_over:
            try:
                entry = await self._watcher.updates(timeout=0)
            except TimeoutError:
                break
            if entry is not None:
                await self._apply(entry)
        config, followed = self._config, self._followed
        if self.is_over or config is None or followed is None:
            return
        if self._is_leaving or (followed.members, followed.mappings) != (config.members, config.mappings):
            await self._rebalance(pin)
            self._followed = config
        elif self.sub is None and now >= self._retry_at:
            await self._join()

    async def _apply(self, entry: Entry) -> None:
        group = self._group
        if entry.operation is not None:
            await self._end()
            return
        old = self._config
        try:
            config = GroupConfig.from_json(group.kind, entry.value or b"")
            field = None if old is None else old.difference(config)
            if field is not None:
                raise GroupChangedError(
                    f"member {self._member!r} of {group.kind} group {group.name!r} of stream {group.stream!r} has"
                    f" ended: {field} were changed; open it again"
                )
        except Error:
            await self._end()
            raise
        self._config = config

    async def _end(self) -> None:
        self.is_over = True
        self.drop()
        if self._group.kind == "static":
            await self._quiet()
            with suppress(Error):
                await self._js.delete_consumer(self._group.work_queue, self.consumer)

    async def _rebalance(self, pin: str | None) -> None:
        if self.sub is not None:
            self._is_leaving, self._leaving_pin = True, pin
        self.drop()
        # If this is interrupted, the next entry may be the former one.
        self._retry_at = -math.inf
        if self._is_leaving:
            pin = self._leaving_pin
            # Only the pinned program deletes: the others would delete the consumer that it has made.
            if pin is not None and await self.pinned_id() == pin:
                await self._quiet()
                with suppress(NotFoundError):
                    await self._js.delete_consumer(self._group.work_queue, self.consumer)
            else:
                await self._session.sleep(random.uniform(*BACKOFF))
            self._is_leaving = False
        await self._join()

    async def pinned_id(self) -> str | None:
        """Requests the id of the pinned program; None if there is none, or no consumer."""
        try:
            return pinned_id_of(await self._js.consumer_info(self._group.work_queue, self.consumer))
        except NotFoundError:
            return None

    async def info(self) -> models.ConsumerInfo:
        """Requests configuration and state of the consumer."""
        return await self._js.consumer_info(self._group.work_queue, self.consumer)

    async def rejoin(self, now: float) -> None:
        """Creates the consumer anew after it was deleted, as the entry demands it now."""
        self.drop()
        # A rebalance deletes it too: the pinned program creates the next one.
        self._retry_at = now + random.uniform(*BACKOFF)

    def drop(self) -> None:
        """Stops pulling."""
        sub, self.sub = self.sub, None
        if sub is not None and not sub._closed:
            sub._end()

    async def close(self) -> None:
        """Stops pulling and watching. The consumer stays."""
        self.drop()
        if self._watcher is not None:
            with suppress(Error):
                await self._watcher.stop()

    def _subjects(self, config: GroupConfig) -> list[str]:
        filters = [one.filter for one in config.filters]
        return subjects_of(self._member, config.partitions, filters, config.members, config.mappings)

    async def _join(self) -> None:
        config = self._config
        assert config is not None
        subjects = self._subjects(config)
        if not subjects:
            # Outside of the membership: a change of the entry brings it in.
            self._retry_at = math.inf
            return
        try:
            info = await self._create(subjects)
        except APIError as error:
            if self._group.kind == "static" and error.err_code == CONSUMER_DIFFERS:
                raise GroupConfigError(
                    f"consumer {self.consumer!r} of stream {self._group.stream!r} has other settings: all programs of"
                    f" member {self._member!r} need the same ack_wait and max_ack_pending"
                ) from None
            self._retry(error)
            return
        except (TimeoutError, BadSubscriptionError) as error:
            self._retry(error)
            return
        # Not before: the caller may be cancelled while it waits for the answer.
        self._retry_at = math.inf
        self.sub = PullSubscription(self._js._api, stream=self._group.work_queue, consumer=self.consumer, info=info)

    def _retry(self, error: Exception) -> None:
        self._retry_at = self._session.now() + self._ack_wait + CORRECTION
        if getattr(error, "err_code", None) not in (SUBJECT_IN_USE, CONSUMER_DIFFERS):
            self._session.report_error(error)

    async def _create(self, subjects: list[str]) -> models.ConsumerInfo:
        queue = self._group.work_queue
        wanted = self._wanted(subjects)
        try:
            return await put_consumer(self._js._api, queue, wanted, action="create")
        except APIError as error:
            if error.err_code != CONSUMER_DIFFERS or self._group.kind == "static":
                raise
        with suppress(NotFoundError):
            await self._js.delete_consumer(queue, self.consumer)
        return await put_consumer(self._js._api, queue, wanted, action="create")

    def _wanted(self, subjects: list[str]) -> models.ConsumerConfig:
        is_static = self._group.kind == "static"
        more: dict[str, Any] = {"durable_name": self.consumer} if is_static else {"inactive_threshold": self._ack_wait}
        return models.ConsumerConfig(
            name=self.consumer,
            ack_wait=self._ack_wait,
            max_ack_pending=self._max_ack_pending,
            filter_subjects=subjects,
            priority_groups=[PRIORITY_GROUP],
            priority_policy="pinned_client",
            priority_timeout=pinned_time(self._ack_wait),
            **more,
        )


def pinned_id_of(info: models.ConsumerInfo) -> str | None:
    """The id of the program that a consumer is pinned to."""
    found = (one.pinned_client_id for one in info.priority_groups or () if one.group == PRIORITY_GROUP)
    return next(found, None) or None
