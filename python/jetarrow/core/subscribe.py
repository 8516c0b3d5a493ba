"""The client method `subscribe`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

from jetarrow._jetarrow import Msg
from jetarrow.core.arguments import check_whole
from jetarrow.core.errors import ConnectionClosedError, ConnectionDrainingError
from jetarrow.core.session import Session
from jetarrow.core.subscription import (
    DEFAULT_SUB_PENDING_BYTES_LIMIT,
    DEFAULT_SUB_PENDING_MSGS_LIMIT,
    Callback,
    Subscription,
)

# Creates the subscription of `subscribe` from the callback and the two limits, in place of a `Subscription`. JetStream
# subscriptions call the client's `subscribe` too, so that wrappers around it (for example tracing) see them.
subscription_factory: ContextVar[Callable[[Callback | None, tuple[int, int]], Subscription] | None] = ContextVar(
    "subscription_factory", default=None
)


class Subscribe:
    """The method `subscribe` of a client."""

    _session: Session

    async def subscribe(
        self,
        subject: str,
        queue: str | None = "",
        cb: Callback | None = None,
        future: asyncio.Future[Msg] | None = None,
        max_msgs: int | None = 0,
        pending_msgs_limit: int | None = DEFAULT_SUB_PENDING_MSGS_LIMIT,
        pending_bytes_limit: int | None = DEFAULT_SUB_PENDING_BYTES_LIMIT,
    ) -> Subscription:
        """Subscribes to a subject.

        Args:
            subject: The subject; may contain wildcards.
            queue: Queue group; each message is delivered to one member.
            cb: Coroutine function called with each message, one at a time. Without it, read the messages from the
                returned subscription.
            future: Resolves to the first message; used in place of `cb`.
            max_msgs: Number of messages after which the subscription ends; 0 or None has no limit.
            pending_msgs_limit: Maximum buffered messages. Further messages are dropped, counted in `dropped` and
                reported to the error callback as SlowConsumerError. None, 0 or less has no limit.
            pending_bytes_limit: Maximum buffered payload bytes, likewise.

        Raises:
            BadSubjectError: The subject or the queue group is invalid.
            Error: `cb` is not a coroutine function.
            ConnectionClosedError: The connection is closed.
            ConnectionDrainingError: The connection is draining.
        """
        session = self._session
        if session.is_closed:
            raise ConnectionClosedError
        if session.draining:
            raise ConnectionDrainingError
        check_whole(max_msgs=max_msgs, pending_msgs_limit=pending_msgs_limit, pending_bytes_limit=pending_bytes_limit)
        queue, max_msgs = queue or "", max_msgs or 0
        pending_msgs_limit, pending_bytes_limit = pending_msgs_limit or 0, pending_bytes_limit or 0
        make = subscription_factory.get()
        sub = (
            Subscription(
                session,
                session.next_sid(),
                subject,
                queue,
                cb,
                future,
                max_msgs,
                pending_msgs_limit,
                pending_bytes_limit,
            )
            if make is None
            else make(cb, (pending_msgs_limit, pending_bytes_limit))
        )
        await sub._start()
        return sub
