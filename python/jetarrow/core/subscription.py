"""Subscription: messages by callback, by iteration or one at a time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from weakref import WeakMethod

from jetarrow import _jetarrow
from jetarrow._jetarrow import Msg
from jetarrow.core.arguments import check_whole, seconds
from jetarrow.core.errors import (
    BadSubscriptionError,
    ConnectionClosedError,
    ConnectionDrainingError,
    Error,
    SlowConsumerError,
    TimeoutError,
)
from jetarrow.core.session import Session

DEFAULT_SUB_PENDING_MSGS_LIMIT = 512 * 1024
DEFAULT_SUB_PENDING_BYTES_LIMIT = 128 * 1024 * 1024

# Messages delivered before other tasks of the event loop run.
MESSAGES_PER_TURN = 512

Callback = Callable[[Msg], Awaitable[None]]


def check_callback(cb: object) -> None:
    """Checks that a callback is a coroutine function, or a partial of one."""
    if not inspect.iscoroutinefunction(cb) and not inspect.iscoroutinefunction(getattr(cb, "func", None)):
        raise Error("nats: must use coroutine for subscriptions: define the callback with async def")


class Subscription:
    """A subscription to a subject. Created by `nc.subscribe`.

    With a callback, it is called with each message, one at a time. Without one, read messages with
    `async for msg in sub.messages` or `await sub.next_msg()`.
    """

    def __init__(
        self,
        conn: Session,
        id: int = 0,
        subject: str = "",
        queue: str = "",
        cb: Callback | None = None,
        future: asyncio.Future[Msg] | None = None,
        max_msgs: int = 0,
        pending_msgs_limit: int = DEFAULT_SUB_PENDING_MSGS_LIMIT,
        pending_bytes_limit: int = DEFAULT_SUB_PENDING_BYTES_LIMIT,
    ) -> None:
        self._session = conn
        self._id = id
        self._subject = subject
        self._queue = queue
        self._cb = cb
        self._future = future
        self._max_msgs = max_msgs
        self._limits = (pending_msgs_limit, pending_bytes_limit)
        self._closed = False
        self._native_sub: _jetarrow.Subscription | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def _native(self) -> _jetarrow.Subscription:
        if self._native_sub is None:
            raise BadSubscriptionError
        return self._native_sub

    @property
    def _newest(self) -> _jetarrow.Subscription:
        """The one that receives messages; those of `_native` are read."""
        return self._native

    async def _start(self) -> None:
        await self._open()

    async def _open(self, kind: str = "core") -> None:
        """Subscribes at the server, and starts the task that delivers messages."""
        if self._cb is not None:
            check_callback(self._cb)
        self._native_sub = self._subscribe(self._subject, self._queue, kind)
        if self._max_msgs > 0:
            self._native_sub.unsubscribe(self._max_msgs)
        self._session.subscriptions[self._id] = self
        if self._cb is not None or self._future is not None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def __repr__(self) -> str:
        queue = f", queue {self._queue}" if self._queue else ""
        return f"<{type(self).__name__} to {self._subject}{queue}>"

    def _subscribe(self, subject: str, queue: str, kind: str) -> _jetarrow.Subscription:
        # Weak, because the native core holds it: a strong reference would keep the client while it is connected.
        method = WeakMethod(self._on_notice)

        def notify(dropped: int, missed: _jetarrow.Missed | None) -> None:
            notice = method()
            if notice is not None:
                notice(dropped, missed)

        session = self._session
        return session.native.subscribe(
            subject,
            queue=queue or None,
            pending_messages=max(self._limits[0], 0),
            pending_bytes=max(self._limits[1], 0),
            kind=kind,
            msg_class=session.msg_class,
            bridge=session.bridge(),
            on_notice=notify,
        )

    def _on_notice(self, dropped: int, missed: _jetarrow.Missed | None) -> None:
        """Called in the event loop after dropped messages, or when a heartbeat shows missing messages."""
        if dropped:
            self._session.report_error(SlowConsumerError(self._subject, "", self._id, self))

    @property
    def subject(self) -> str:
        """The subject."""
        return self._subject

    @property
    def queue(self) -> str:
        """The queue group, or an empty string."""
        return self._queue

    @property
    def pending_msgs(self) -> int:
        """Number of received messages that are not consumed yet."""
        return self._native.pending_msgs

    @property
    def pending_bytes(self) -> int:
        """Payload bytes of those messages."""
        return self._native.pending_bytes

    @property
    def delivered(self) -> int:
        """Number of received messages, dropped ones included."""
        return self._native.delivered

    @property
    def dropped(self) -> int:
        """Number of messages dropped at the pending limits."""
        return self._native.dropped

    @property
    def messages(self) -> Messages:
        """Iterates over received messages: `async for msg in sub.messages` (or `sub.messages()`).

        Raises:
            Error: The subscription has a callback or a future.
        """
        if self._cb is not None or self._future is not None:
            raise Error(
                "cannot iterate over messages: the subscription has a callback or a future; subscribe without one"
            )
        return Messages(self)

    def __aiter__(self) -> AsyncIterator[Msg]:
        return self.messages.__aiter__()

    async def next_msg(self, timeout: float | None = 1.0) -> Msg:
        """Returns the next message, also after the end of the subscription or connection if it was received before.

        Args:
            timeout: Maximum seconds to wait; None has no limit.

        Raises:
            TimeoutError: No message arrived in time.
            ConnectionClosedError: The connection is closed.
            Error: The subscription has a callback.
        """
        if self._cb is not None:
            if self._session.is_closed:
                raise ConnectionClosedError
            raise Error("nats: next_msg cannot be used in async subscriptions: subscribe without cb=")
        if self._native_sub is None and self._session.is_closed:
            raise ConnectionClosedError
        msg = self._native.take(self._session, self._id)
        if msg is None:
            msg = await self._wait(timeout)
        return msg

    async def _wait(self, timeout: float | None) -> Msg:
        """Waits for the next message. Several callers may wait: each message is returned to one of them."""
        timeout = seconds("timeout", timeout)
        deadline = None if timeout is None else self._session.now() + timeout
        if self._session.is_closed:
            raise ConnectionClosedError
        while True:
            left = None if deadline is None else max(deadline - self._session.now(), 0.0)
            ready = await self._wait_ready(left)
            msg = self._native.take(self._session, self._id)
            if msg is not None:
                return msg
            if left == 0:
                raise TimeoutError
            if ready == "ended":
                if self._session.is_closed:
                    raise ConnectionClosedError
                if left is None:
                    raise BadSubscriptionError
                await self._session.sleep(left)

    async def _wait_ready(self, wait: float | None) -> str:
        """Waits at most `wait` seconds; returns "messages", "ended", or "late" after a timeout."""
        if wait == 0:
            return "late"
        return await self._session.run(self._native.ready(wait=wait))

    async def _wait_for_messages(self) -> bool:
        """Waits for messages; returns False when the subscription has ended and is empty."""
        return await self._wait_ready(None) == "messages"

    async def _run(self) -> None:
        """Delivers messages until the subscription ends. An error is reported to the error callback."""
        try:
            await (self._deliver() if self._cb is not None else self._deliver_one())
        except Exception as error:
            self._session.report_error(error)
        finally:
            self._unregister()

    async def _deliver(self) -> None:
        """Calls the callback with each message, one at a time."""
        cb, nc = self._cb, self._session
        assert cb is not None
        since = 0
        while True:
            native = self._native
            while (msg := native.take(nc, self._id)) is not None:
                try:
                    await cb(msg)
                except asyncio.CancelledError:
                    task = asyncio.current_task()
                    if task is not None and task.cancelling():
                        raise
                    break
                except Exception as error:
                    nc.report_error(error)
                since += 1
                if since >= MESSAGES_PER_TURN:
                    # A callback that does not suspend must not block other tasks.
                    since = 0
                    await asyncio.sleep(0)
            arrival = nc.arrival(native)
            if arrival is not None:
                await arrival
            elif not (native.pending_msgs or await self._wait_for_messages()):
                return

    async def _deliver_one(self) -> None:
        future = self._future
        assert future is not None
        try:
            more = await self._wait_for_messages()
        except Exception as error:
            if future.done():
                raise
            future.set_exception(error)
            return
        msg = self._native.take(self._session, self._id) if more else None
        if msg is not None and not future.done():
            future.set_result(msg)

    def _unregister(self) -> None:
        self._session.subscriptions.pop(self._id, None)

    def _check_open(self) -> None:
        if self._session.is_closed:
            raise ConnectionClosedError
        if self._session.draining:
            raise ConnectionDrainingError
        if self._closed:
            raise BadSubscriptionError

    async def unsubscribe(self, limit: int = 0) -> None:
        """Unsubscribes.

        Args:
            limit: Number of messages, counted from the start of the subscription, after which it ends; 0 ends it now.
                Heartbeats of a push consumer do not count. Messages received by then are still delivered: by iteration,
                `next_msg` and to the callback.

        Raises:
            ConnectionClosedError: The connection is closed.
            ConnectionDrainingError: The connection is draining.
            BadSubscriptionError: The subscription was already unsubscribed or drained.
        """
        self._check_open()
        check_whole(limit=limit)
        if limit <= 0 or not self._unsubscribe_after(limit):
            self._end()

    def _unsubscribe_after(self, limit: int) -> bool:
        """Ends it after that many messages; False if they have been consumed."""
        native = self._native
        if not native.pending_msgs and native.delivered >= limit:
            return False
        native.unsubscribe(limit)
        return True

    async def drain(self) -> None:
        """Unsubscribes, and waits until all received messages are processed.

        Raises:
            ConnectionClosedError: The connection is closed.
            ConnectionDrainingError: The connection is draining.
            BadSubscriptionError: The subscription was already unsubscribed or drained.
        """
        self._check_open()
        await self._drain()

    async def _drain(self) -> None:
        native = self._newest
        is_processed = True
        try:
            await self._session.run(native.drain(self._session.drain_timeout))
            is_processed = await self._session.wait_until_processed(native, self._task)
        finally:
            if is_processed:
                self._closed = True
                self._unregister()

    def _end(self) -> None:
        """Unsubscribes now. Received messages can still be consumed."""
        self._closed = True
        if self._native_sub is not None:
            self._native_sub.unsubscribe()
        if self._task is None:
            # A task delivers the received messages first; it unregisters afterwards.
            self._unregister()

    def _stop_delivery(self) -> asyncio.Task[None] | None:
        """Unsubscribes; returns the task that still delivers messages, unless it is the caller."""
        self._end()
        task = self._task
        return None if task is None or task.done() or task is _current_task() else task


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class Messages:
    """Iterator over a subscription's messages; concurrent iterations share them."""

    def __init__(self, sub: Subscription) -> None:
        self._sub = sub
        self._iterator: AsyncIterator[Msg] | None = None

    def __call__(self) -> Messages:
        """Returns itself: `sub.messages` and `sub.messages()` are the same."""
        return self

    async def __aiter__(self) -> AsyncIterator[Msg]:
        sub = self._sub
        nc = sub._session
        since = 0
        while True:
            # Looked up each time: an ordered subscription replaces its native subscription.
            native = sub._native
            while (msg := native.take(nc, sub._id)) is not None:
                yield msg
                since += 1
                if since >= MESSAGES_PER_TURN:
                    # Other tasks run. After the message: a cancellation here must not lose it.
                    since = 0
                    await nc.sleep(0)
            arrival = nc.arrival(native)
            if arrival is not None:
                await arrival
            elif not (native.pending_msgs or await sub._wait_for_messages()):
                break
        sub._unregister()

    async def __anext__(self) -> Msg:
        if self._iterator is None:
            self._iterator = self.__aiter__()
        return await self._iterator.__anext__()
