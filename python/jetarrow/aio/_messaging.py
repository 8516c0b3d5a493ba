"""Core messaging: publish, subscribe, request, drain."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakMethod, WeakSet

from jetarrow import _jetarrow
from jetarrow._run import awaited, bridge_of
from jetarrow.aio._events import Events, log_error
from jetarrow.aio._options import DEFAULT_DRAIN_TIMEOUT, DEFAULT_PENDING_SIZE
from jetarrow.aio._status import Status
from jetarrow.aio.msg import Msg
from jetarrow.aio.subscription import (
    DEFAULT_SUB_PENDING_BYTES_LIMIT,
    DEFAULT_SUB_PENDING_MSGS_LIMIT,
    Callback,
    Subscription,
)
from jetarrow.errors import (
    BadTimeoutError,
    ConnectionClosedError,
    ConnectionDrainingError,
    ConnectionReconnectingError,
    DrainTimeoutError,
    Error,
    NoRespondersError,
    TimeoutError,
)

if TYPE_CHECKING:
    from jetarrow.publisher import Acks

_T = TypeVar("_T")
# The number of dropped messages, or what a heartbeat tells.
Notice = Callable[[int, _jetarrow.Missed | None], None]
Headers = Mapping[str, str | list[str]]

DEFAULT_FLUSH_TIMEOUT = 10.0

# While the link is up, `publish` waits when so many bytes are queued.
HIGH_WATER = 8 * 1024 * 1024

_log = logging.getLogger("jetarrow")


class Messaging(Status):
    """What a client does with core NATS."""

    # The sync twin's client blocks in every call, and has no event loop.
    _blocks = False

    _connection: _jetarrow.Connection | None = None
    _drain_timeout: float = DEFAULT_DRAIN_TIMEOUT
    _pending_size = DEFAULT_PENDING_SIZE
    _events: Events | None = None
    # The last error, where the events do not have it.
    _failure: Exception | None = None

    def __init__(self) -> None:
        self._subs: dict[int, Subscription] = {}
        self._last_sid = 0
        # What publishes to streams; weakly, because its owner may be done with it.
        self._publishers: WeakSet[Acks] = WeakSet()
        # "", "subs" while the subscriptions are drained, then "pubs".
        self._draining = ""

    async def _run(self, call: _jetarrow.Call[_T], unwanted: Callable[[_T], _jetarrow.Call[None]] | None = None) -> _T:
        return await awaited(call, unwanted)

    async def _pause(self, delay: float) -> None:
        """Waits; the sync twin sleeps."""
        await asyncio.sleep(delay)

    def _loop(self) -> asyncio.AbstractEventLoop | None:
        return asyncio.get_running_loop()

    def _now(self) -> float:
        return time.monotonic()

    @property
    def _native(self) -> _jetarrow.Connection:
        if self._connection is None:
            raise ConnectionClosedError
        return self._connection

    def _report(self, error: Exception) -> None:
        """An error that nobody waits for: to the error callback, or to the log."""
        if self._events is None:
            self._failure = error
            log_error(error)
        else:
            self._events.tell("error", error)

    async def publish(
        self,
        subject: str,
        payload: bytes | str = b"",
        reply: str = "",
        headers: Headers | None = None,
    ) -> None:
        """Publishes a message. It is queued, and sent in order; `flush` waits until the server has it.

        Parameters:
            subject: what to publish to; no wildcards.
            payload: bytes-like, or str, which is sent as UTF-8.
            reply: subject for answers.
            headers: name to value, or to a list of values. Line breaks in a value become spaces. The mapping is not
                changed.

        Raises:
            BadSubjectError, BadHeaderError, MaxPayloadError: nothing was queued.
            OutboundBufferLimitError: not connected, and more than `pending_size` bytes are queued.
            ConnectionClosedError, ConnectionDrainingError: the connection is closed, or about to be.
        """
        if self._draining == "pubs":
            raise ConnectionDrainingError
        native = self._native
        if native.send(self._loop(), subject, payload, reply, headers, self._pending_size) > HIGH_WATER:
            await self._run(native.room(HIGH_WATER // 2))

    async def _raise(self, error: Exception) -> None:
        raise error

    def _fail(self, error: Exception) -> Any:
        """What a message's verbs end in that cannot be; the sync twin raises here."""
        return self._raise(error)

    def _respond(self, reply: str, data: bytes | str, headers: Headers | None) -> Any:
        """What `msg.respond` calls; the sync twin blocks here."""
        return self.publish(reply, data, headers=headers)

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

        Parameters:
            subject: may have wildcards.
            queue: queue group; each message goes to one member.
            cb: coroutine function called with each message, one after the other. Without it take the messages from the
                subscription that is returned.
            future: resolves to the first message instead.
            max_msgs: end after so many messages; 0 is no limit.
            pending_msgs_limit, pending_bytes_limit: most messages, and payload bytes, that may wait to be taken; what
                comes beyond it is dropped, counted in `dropped` and told to the error callback as SlowConsumerError.
                0 or less is no limit.

        Raises:
            BadSubjectError: the subject or the queue name is not valid.
            Error: `cb` is not a coroutine function.
            ConnectionClosedError, ConnectionDrainingError: the connection is closed, or about to be.
        """
        if self.is_closed:
            raise ConnectionClosedError
        if self._draining:
            raise ConnectionDrainingError
        self._last_sid += 1
        sub = Subscription(
            self, self._last_sid, subject, queue, cb, future, max_msgs, pending_msgs_limit, pending_bytes_limit
        )
        await sub._open()
        return sub

    async def _open_subscription(
        self, subject: str, queue: str, limits: tuple[int, int], kind: str, on_notice: Notice
    ) -> _jetarrow.Subscription:
        bridge = None if self._blocks else bridge_of(asyncio.get_running_loop())
        # The native side holds it: a strong reference would keep the client for as long as it is connected.
        method = WeakMethod(on_notice)

        def tell(dropped: int, missed: _jetarrow.Missed | None) -> None:
            notice = method()
            if notice is not None:
                notice(dropped, missed)

        call = self._native.subscribe(
            subject,
            queue=queue or None,
            pending_messages=max(limits[0], 0),
            pending_bytes=max(limits[1], 0),
            kind=kind,
            bridge=bridge,
            on_notice=tell,
        )
        return await self._run(call)

    async def request(
        self,
        subject: str,
        payload: bytes | str = b"",
        timeout: float = 0.5,
        old_style: bool = False,
        headers: Headers | None = None,
    ) -> Msg:
        """Publishes a request and waits for the first answer.

        Parameters:
            subject: what to publish to.
            payload: bytes-like, or str, which is sent as UTF-8.
            timeout: seconds to wait for the answer.
            old_style: with an inbox and a subscription of its own, instead of one for all requests.
            headers: name to value, or to a list of values.

        Raises:
            NoRespondersError: nobody listens on the subject.
            TimeoutError: no answer in time.
            BadSubjectError, BadHeaderError, MaxPayloadError: nothing was sent.
            ConnectionClosedError, ConnectionDrainingError: the connection is closed, or about to be.
        """
        if self._draining == "pubs":
            raise ConnectionDrainingError
        if old_style:
            return await self._request_old_style(subject, payload, timeout, headers)
        native = self._native
        if not self._blocks:
            loop = asyncio.get_running_loop()
            future = native.request_future(loop, bridge_of(loop), self, subject, payload, timeout, headers)
            if future is not None:
                return await future
        return await self._run(native.request_msg(self, subject, payload, timeout=timeout, headers=headers))

    async def _request_old_style(
        self, subject: str, payload: bytes | str, timeout: float, headers: Headers | None
    ) -> Msg:
        inbox = self.new_inbox()
        sub = await self.subscribe(inbox, max_msgs=1)
        try:
            await self.publish(subject, payload, reply=inbox, headers=headers)
            msg = await sub.next_msg(timeout)
        finally:
            sub._native.unsubscribe()
            sub._forget()
        if (msg.headers or {}).get("Status") == "503":
            raise NoRespondersError
        return msg

    def new_inbox(self) -> str:
        """A subject that nobody else uses, for answers."""
        return self._native.new_inbox()

    async def flush(self, timeout: float = DEFAULT_FLUSH_TIMEOUT) -> None:
        """Waits until the server has received and processed all that was sent so far.

        Parameters:
            timeout: seconds.

        Raises:
            FlushTimeoutError: no confirmation in time.
            BadTimeoutError: `timeout` is not positive.
            ConnectionClosedError: the connection is closed.
        """
        if not timeout > 0:
            raise BadTimeoutError
        if self.is_closed:
            raise ConnectionClosedError
        await self._run(self._native.flush(timeout))

    async def rtt(self, timeout: float = DEFAULT_FLUSH_TIMEOUT) -> float:
        """Seconds that a round trip to the server takes.

        Parameters:
            timeout: seconds.

        Raises:
            TimeoutError: no answer in time.
            BadTimeoutError: `timeout` is not positive.
            ConnectionClosedError: the connection is closed.
        """
        start = time.perf_counter()
        try:
            await self.flush(timeout)
        except TimeoutError as error:
            raise TimeoutError(f"no answer from the server within {timeout} s") from error
        return time.perf_counter() - start

    async def drain(self) -> None:
        """Ends all subscriptions, waits until their messages are processed, sends what is queued, and closes.

        Subscriptions that take longer than `drain_timeout` (30 seconds unless `connect` was told otherwise) are given
        up, and the error callback gets DrainTimeoutError.

        Raises:
            ConnectionClosedError: the connection is closed.
            ConnectionReconnectingError: the link is down.
        """
        if self._draining:
            return
        if self.is_closed:
            raise ConnectionClosedError
        if not self._native.is_connected:
            raise ConnectionReconnectingError
        subs = list(self._subs.values())
        self._draining = "subs"
        try:
            await self._drain_all(subs)
            self._draining = "pubs"
            await self.flush()
        except Error as error:
            self._report(error)
        except BaseException:
            # Ctrl-C, or cancelled: nobody wants to wait any more.
            await self._close(hurry=True)
            raise
        finally:
            self._draining = "pubs"
            await self.close()
            self._draining = ""

    async def _drain_all(self, subs: list[Subscription]) -> None:
        if self._blocks:
            for sub in subs:
                await self._run(sub._native.drain(self._drain_timeout))
            return
        tasks = [asyncio.ensure_future(sub._drain()) for sub in subs]
        if not tasks:
            return
        done, late = await asyncio.wait(tasks, timeout=self._drain_timeout)
        for task in late:
            task.cancel()
        if late:
            self._report(DrainTimeoutError())
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.debug("draining a subscription: %s", error)

    def _stop_subscriptions(self) -> None:
        for sub in list(self._subs.values()):
            sub._stop()
        self._subs.clear()

    async def close(self) -> None:
        """Sends what is queued, then closes the connection, and returns after `closed_cb`.

        A second call does nothing.
        """
        await self._close()

    async def _close(self, *, hurry: bool = False) -> None:
        raise NotImplementedError
