"""Blocking consumer groups."""

from __future__ import annotations

from jetarrow.jetstream.groups.config import GroupKind
from jetarrow.jetstream.groups.group import ConsumerGroup as AsyncConsumerGroup
from jetarrow.sync.blocking import blocking, forwarded, inner_repr


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
