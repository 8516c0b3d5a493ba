"""Subscription: messages by iteration, one at a time, or by callback."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self
from weakref import WeakMethod

from jetarrow import _jetarrow
from jetarrow._jetarrow import Msg
from jetarrow.core.errors import ConnectionClosedError
from jetarrow.core.subscription import (
    DEFAULT_SUB_PENDING_BYTES_LIMIT,
    DEFAULT_SUB_PENDING_MSGS_LIMIT,
    MESSAGES_PER_TURN,
)
from jetarrow.nats.client.errors import SlowConsumerError
from jetarrow.nats.client.message import Message, message_of

if TYPE_CHECKING:
    from jetarrow.nats.client.client import Client

# Messages and bytes that may wait for the callbacks.
MOST_UNSEEN = (DEFAULT_SUB_PENDING_MSGS_LIMIT, DEFAULT_SUB_PENDING_BYTES_LIMIT)

_log = logging.getLogger("jetarrow.callbacks")


class Subscription(AsyncIterable[Message], AbstractAsyncContextManager["Subscription"]):
    """A subscription to a subject. Made by `Client.subscribe`.

    Read it with `async for message in subscription` or `await subscription.next()`; as a context manager it
    unsubscribes at the end.
    """

    def __init__(
        self,
        subject: str,
        sid: str,
        queue: str,
        client: Client,
        max_pending_messages: int | None = None,
        max_pending_bytes: int | None = None,
    ) -> None:
        self._subject = subject
        self._sid = sid
        self._queue = queue
        self._client = client
        self._limits = (max_pending_messages or 0, max_pending_bytes or 0)
        self._callbacks: list[Callable[[Message], None]] = []
        self._closed = False
        # An ended subscription drops its unread messages, unless it was drained.
        self._keeps_messages = False
        # Messages that the callbacks have seen, from the first callback on.
        self._seen: deque[Message] | None = None
        self._seen_bytes = 0
        self._dropped_seen = [0, 0]
        self._arrived = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        # Messages that had arrived at the last report of dropped ones.
        self._reported: int | None = None
        session = client.nc._session
        # Weak, because the native core holds it.
        method = WeakMethod(self._on_notice)

        def notify(dropped: int, missed: _jetarrow.Missed | None) -> None:
            notice = method()
            if notice is not None and dropped:
                notice()

        self._native = session.native.subscribe(
            subject,
            queue=queue or None,
            pending_messages=self._limits[0],
            pending_bytes=self._limits[1],
            kind="core",
            msg_class=Msg,
            bridge=session.bridge(),
            on_notice=notify,
        )

    def __repr__(self) -> str:
        queue = f", queue {self._queue}" if self._queue else ""
        return f"<Subscription to {self._subject}{queue}>"

    @property
    def subject(self) -> str:
        """The subject."""
        return self._subject

    @property
    def queue(self) -> str:
        """The queue group, or an empty string."""
        return self._queue

    @property
    def closed(self) -> bool:
        """Whether the subscription has ended."""
        return self._closed

    @property
    def pending(self) -> tuple[int, int]:
        """Number and payload bytes of the unread messages."""
        if self._closed and not self._keeps_messages:
            return 0, 0
        if self._seen is not None:
            return len(self._seen), self._seen_bytes
        return self._native.pending_msgs, self._native.pending_bytes

    @property
    def dropped(self) -> tuple[int, int]:
        """Number and payload bytes of the messages that exceeded the limits."""
        messages, size = self._dropped_seen
        return self._native.dropped + messages, self._native.dropped_bytes + size

    @property
    def messages(self) -> AsyncIterator[Message]:
        """The messages, until the subscription ends."""
        return self._iterate()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Message]:
        while True:
            try:
                message = await self.next()
            except RuntimeError:
                return
            yield message

    def add_callback(self, callback: Callable[[Message], None]) -> None:
        """Adds a function that is called with each message, before the message can be read.

        It runs in the event loop, and must not block. A callback that fails is logged.

        Args:
            callback: The function.
        """
        self._callbacks.append(callback)
        if self._pump is None and not self._closed:
            self._seen = deque()
            # The callbacks get messages that exceed the limits, too: their limits are those of `_keep`.
            self._native.set_limits(*(max(limit, most) for limit, most in zip(self._limits, MOST_UNSEEN, strict=True)))
            self._pump = asyncio.get_running_loop().create_task(self._call_back())

    def remove_callback(self, callback: Callable[[Message], None]) -> None:
        """Removes a callback, if it was added."""
        with suppress(ValueError):
            self._callbacks.remove(callback)

    async def _call_back(self) -> None:
        """Calls the callbacks with the messages as they arrive, and keeps the messages for `next`."""
        try:
            await self._deliver()
        finally:
            self._arrived.set()

    async def _deliver(self) -> None:
        since = 0
        while await self._is_ready(None) == "messages":
            while (message := self._take()) is not None:
                for callback in list(self._callbacks):
                    try:
                        callback(message)
                    except Exception:
                        _log.exception("a callback of the subscription to %s failed", self._subject)
                self._keep(message)
                since += 1
                if since % MESSAGES_PER_TURN == 0:
                    await asyncio.sleep(0)

    def _keep(self, message: Message) -> None:
        assert self._seen is not None
        (messages, size), grown = self._limits, self._seen_bytes + len(message.data)
        if (messages and len(self._seen) >= messages) or (size and grown > size):
            self._dropped_seen[0] += 1
            self._dropped_seen[1] += len(message.data)
            self._on_notice()
            return
        self._reported = None
        self._seen.append(message)
        self._seen_bytes = grown
        self._arrived.set()

    def _on_notice(self) -> None:
        """Reports dropped messages, once until another message was kept."""
        kept = self._native.delivered - self._native.dropped
        if self._reported == kept:
            return
        self._reported = kept
        self._client._report(SlowConsumerError(self._subject, self._sid, *self.pending))

    def _take(self) -> Message | None:
        """The next message that has arrived from the server."""
        msg = self._native.take(self._client.nc._session, int(self._sid))
        return None if msg is None else message_of(msg)

    async def _is_ready(self, wait: float | None) -> str:
        """Waits at most `wait` seconds; returns "messages", "ended" or "late". Another task may take the messages."""
        session = self._client.nc._session
        arrival = session.arrival(self._native) if wait is None else None
        if arrival is not None:
            await arrival
            return "messages"
        try:
            return await session.run(self._native.ready(wait=wait))
        except ConnectionClosedError:
            return "ended"

    async def next(self, timeout: float | None = None) -> Message:
        """Waits for the next message.

        Args:
            timeout: Maximum seconds; None has no limit.

        Returns:
            The message.

        Raises:
            TimeoutError: No message in time.
            RuntimeError: The subscription has ended. After `drain`, the messages that had arrived come first.
        """
        if self._closed and not self._keeps_messages:
            raise RuntimeError("Subscription is closed")
        if self._seen is not None:
            if not self._seen:
                await asyncio.wait_for(self._wait_for_seen(), timeout)
            return self._next_seen()
        message = self._take()
        if message is not None:
            return message
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            left = None if deadline is None else deadline - loop.time()
            if left is not None and left <= 0:
                raise TimeoutError
            ready = await self._is_ready(left)
            if self._seen is not None:
                # A callback was added meanwhile.
                return await self.next(None if deadline is None else max(deadline - loop.time(), 0))
            ended = self._closed and not self._keeps_messages
            message = None if ended else self._take()
            if message is not None:
                return message
            if ended or ready == "ended":
                raise RuntimeError("Subscription is closed")

    async def _wait_for_seen(self) -> None:
        while not self._seen and self._pump is not None and not self._pump.done():
            self._arrived.clear()
            await self._arrived.wait()

    def _next_seen(self) -> Message:
        if not self._seen or (self._closed and not self._keeps_messages):
            raise RuntimeError("Subscription is closed")
        message = self._seen.popleft()
        self._seen_bytes -= len(message.data)
        return message

    async def unsubscribe(self) -> None:
        """Ends the subscription. Unread messages are dropped. A second call does nothing."""
        self._end(keeps_messages=False)

    async def drain(self) -> None:
        """Ends the subscription. Messages that have arrived can still be read. A second call does nothing."""
        if self._closed:
            return
        self._keeps_messages = True
        session = self._client.nc._session
        try:
            with suppress(ConnectionClosedError):
                await session.run(self._native.drain(session.drain_timeout))
        finally:
            self._end(keeps_messages=True)

    def _end(self, *, keeps_messages: bool) -> None:
        if self._closed:
            return
        self._closed, self._keeps_messages = True, keeps_messages
        self._client._subscriptions.pop(self._sid, None)
        self._native.unsubscribe()
        self._arrived.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.unsubscribe()
