"""Blocking subscriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar, cast

from jetarrow._jetarrow import SyncMsg
from jetarrow.core import subscription as aio
from jetarrow.core.closed_event import ClosedEvent
from jetarrow.core.session import run_to_completion
from jetarrow.jetstream import push
from jetarrow.sync.blocking import blocking, blocking_messages, inner_repr

_O = TypeVar("_O", bound=Mapping[str, object])


def without_callbacks(options: _O) -> _O:
    """Returns the options; raises TypeError if they have a callback or a future."""
    if options.get("cb") is not None or options.get("future") is not None:
        raise TypeError("jetarrow.sync has no message callbacks: iterate the subscription, or call next_msg()")
    return options


class Subscription:
    """As `jetarrow.aio.subscription.Subscription`, blocking: iterate it with `for`, or call `next_msg`."""

    def __init__(self, inner: aio.Subscription) -> None:
        self._inner = inner

    __repr__ = inner_repr
    next_msg = blocking_messages(aio.Subscription.next_msg)
    unsubscribe = blocking(aio.Subscription.unsubscribe)
    drain = blocking(aio.Subscription.drain)

    def __iter__(self) -> Iterator[SyncMsg]:
        inner = self._inner
        while run_to_completion(inner._wait_for_messages()):
            while (msg := inner._native.take(inner._session, inner._id)) is not None:
                yield cast("SyncMsg", msg)

    def messages(self) -> Iterator[SyncMsg]:
        """Iterates over received messages."""
        return iter(self)

    @property
    def subject(self) -> str:
        """The subject."""
        return self._inner.subject

    @property
    def queue(self) -> str:
        """The queue group, or an empty string."""
        return self._inner.queue

    @property
    def pending_msgs(self) -> int:
        """Number of received messages that are not consumed yet."""
        return self._inner.pending_msgs

    @property
    def pending_bytes(self) -> int:
        """Payload bytes of those messages."""
        return self._inner.pending_bytes

    @property
    def delivered(self) -> int:
        """Number of received messages, dropped ones included."""
        return self._inner.delivered

    @property
    def dropped(self) -> int:
        """Number of messages dropped at the pending limits."""
        return self._inner.dropped


class PushSubscription(Subscription):
    """As `jetarrow.js.push.PushSubscription`, blocking."""

    _inner: push.PushSubscription

    def __init__(self, inner: push.PushSubscription) -> None:
        super().__init__(inner)

    @property
    def is_closed(self) -> bool:
        """Whether the subscription or its connection has ended."""
        return self._inner.is_closed

    @property
    def closed(self) -> ClosedEvent:
        """Event that is set at the end of the subscription: `sub.closed.wait(timeout)`."""
        return self._inner.closed

    destroy = blocking(push.PushSubscription.destroy)
    consumer_info = blocking(push.PushSubscription.consumer_info)
