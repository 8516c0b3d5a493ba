"""Subscribing."""

from __future__ import annotations

import asyncio

from jetarrow._jetarrow import Msg
from jetarrow.core.errors import ConnectionClosedError, ConnectionDrainingError
from jetarrow.core.session import Session
from jetarrow.core.subscription import (
    DEFAULT_SUB_PENDING_BYTES_LIMIT,
    DEFAULT_SUB_PENDING_MSGS_LIMIT,
    Callback,
    Subscription,
)


class Subscribe:
    """The verb `subscribe` of a client."""

    _session: Session

    async def subscribe(
        self,
        subject: str,
        queue: str = "",
        cb: Callback | None = None,
        future: asyncio.Future[Msg] | None = None,
        max_msgs: int = 0,
        pending_msgs_limit: int = DEFAULT_SUB_PENDING_MSGS_LIMIT,
        pending_bytes_limit: int = DEFAULT_SUB_PENDING_BYTES_LIMIT,
    ) -> Subscription:
        """Subscribes to a subject.

        Args:
            subject: May have wildcards.
            queue: Queue group; each message goes to one member.
            cb: Coroutine function called with each message, one after the other. Without it take the messages from the
                subscription that is returned.
            future: Resolves to the first message instead.
            max_msgs: Number of messages after which it ends; 0 is no limit.
            pending_msgs_limit: Most messages that may wait to be taken; what comes beyond it is dropped, counted in
                `dropped` and reported to the error callback as SlowConsumerError. 0 or less is no limit.
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
        sub = Subscription(
            session, session.next_sid(), subject, queue, cb, future, max_msgs, pending_msgs_limit, pending_bytes_limit
        )
        await sub._open()
        return sub
