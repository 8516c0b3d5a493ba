"""Subscribing."""

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

# What `subscribe` makes, where it is not a plain subscription: those of streams go through the client's verb, too, so
# that what programs have put around it (tracing, for example) sees them. Takes the callback and the two limits.
subscription_factory: ContextVar[Callable[[Callback | None, tuple[int, int]], Subscription] | None] = ContextVar(
    "subscription_factory", default=None
)


class Subscribe:
    """The verb `subscribe` of a client."""

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
            subject: May have wildcards.
            queue: Queue group; each message goes to one member.
            cb: Coroutine function called with each message, one after the other. Without it take the messages from the
                subscription that is returned.
            future: Resolves to the first message instead.
            max_msgs: Number of messages after which it ends; 0 or None is no limit.
            pending_msgs_limit: Most messages that may wait to be taken; what comes beyond it is dropped, counted in
                `dropped` and reported to the error callback as SlowConsumerError. None, 0 or less is no limit.
            pending_bytes_limit: Most payload bytes that may wait to be taken, likewise.

        Raises:
            BadSubjectError: The subject or the queue name is not valid.
            Error: `cb` is not a coroutine function.
            ConnectionClosedError: The connection is closed.
            ConnectionDrainingError: The connection is draining, and takes nothing new.
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
