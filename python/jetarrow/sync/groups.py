"""Blocking consumer groups."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from jetarrow.jetstream.groups.group import ConsumerGroup as AsyncConsumerGroup
from jetarrow.jetstream.groups.group_batch import GroupBatch as AsyncGroupBatch
from jetarrow.jetstream.groups.member import GroupMember as AsyncGroupMember
from jetarrow.jetstream.literals import GroupKind
from jetarrow.sync.blocking import blocking, forwarded, inner_repr, iterate, with_signature_of
from jetarrow.sync.fetch import MessageBatch

if TYPE_CHECKING:
    from jetarrow.jetstream.groups.option_types import GroupBatchesOptions


class ConsumerGroup:
    """As the async consumer group, blocking."""

    def __init__(self, inner: AsyncConsumerGroup) -> None:
        self._inner = inner

    __repr__ = inner_repr
    consumer_of = forwarded(AsyncConsumerGroup.consumer_of)
    info = blocking(AsyncConsumerGroup.info)
    members = blocking(AsyncConsumerGroup.members)
    add_member = blocking(AsyncConsumerGroup.add_member)
    remove_member = blocking(AsyncConsumerGroup.remove_member)
    set_mappings = blocking(AsyncConsumerGroup.set_mappings)
    delete = blocking(AsyncConsumerGroup.delete)
    step_down = blocking(AsyncConsumerGroup.step_down)

    @property
    def stream(self) -> str:
        """The stream of the group."""
        return self._inner.stream

    @property
    def name(self) -> str:
        """Name of the group."""
        return self._inner.name

    @property
    def kind(self) -> GroupKind:
        """The kind: "static" or "elastic"."""
        return self._inner.kind

    @property
    def key(self) -> str:
        """Key of the group's entry."""
        return self._inner.key

    @property
    def work_queue(self) -> str:
        """The stream that members read."""
        return self._inner.work_queue


class GroupBatch(MessageBatch):
    """As the async batch of a consumer group, blocking."""

    def __init__(self, inner: AsyncGroupBatch) -> None:
        super().__init__(inner)
        self._partition = inner.partition

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self._partition


class GroupMember:
    """As the async member of a consumer group, blocking. `close` may be called from another thread."""

    def __init__(self, inner: AsyncGroupMember) -> None:
        self._inner = inner

    __repr__ = inner_repr
    __reduce__ = AsyncGroupMember.__reduce__
    open = blocking(AsyncGroupMember.open)
    step_down = blocking(AsyncGroupMember.step_down)
    close = blocking(AsyncGroupMember.close)

    @with_signature_of(AsyncGroupMember.batches)
    def batches(self, **options: Unpack[GroupBatchesOptions]) -> Iterator[GroupBatch]:  # noqa: D102
        return map(GroupBatch, iterate(self._inner.batches(**options)))

    @property
    def name(self) -> str:
        """Name of the member."""
        return self._inner.name

    @property
    def partitions(self) -> list[int]:
        """The partitions of the member; empty while it waits for its membership or for another one's partitions."""
        return self._inner.partitions

    @property
    def is_pinned(self) -> bool:
        """Whether this program gets the messages of the member. Others under its name are on standby."""
        return self._inner.is_pinned

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or the group has ended it."""
        return self._inner.is_closed

    def __enter__(self) -> GroupMember:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
