"""A client's connection, and how a call on it is waited for: awaited on an event loop, or blocked on in this thread.

Whatever works on a connection is handed a `Session`, and never the client. The two faces of the package differ in the
session alone: with a `BlockingSession` no coroutine ever suspends, so that one `send(None)` runs it to its end.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from jetarrow._jetarrow import Bridge, Call, Connection, Msg, Notices
from jetarrow._jetarrow import Subscription as NativeSubscription
from jetarrow.core.errors import ConnectionClosedError, ConnectionDrainingError, DrainTimeoutError
from jetarrow.core.events import Events, check_callbacks, log_error
from jetarrow.core.futures import FutureHome, LoopHome, ThreadHome
from jetarrow.core.options import DEFAULT_DRAIN_TIMEOUT, DEFAULT_PENDING_SIZE
from jetarrow.core.tls import TLS

_T = TypeVar("_T")
Headers = Mapping[str, str | list[str]]

# While the link is up, a publish waits when so many bytes are queued.
HIGH_WATER = 8 * 1024 * 1024

_log = logging.getLogger("jetarrow")
_bridges: WeakKeyDictionary[asyncio.AbstractEventLoop, Bridge] = WeakKeyDictionary()


def bridge_of(loop: asyncio.AbstractEventLoop) -> Bridge:
    """The loop's mailbox, made at its first use."""
    bridge = _bridges.get(loop)
    if bridge is None:
        bridge = _bridges[loop] = Bridge()
        drain = bridge.drain
        try:
            loop.add_reader(bridge.fileno(), drain)
        except NotImplementedError:
            # Windows' default loop watches no pipes.
            bridge.wake_with(lambda: loop.call_soon_threadsafe(drain))
    return bridge


def finish(coro: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine that waits through a `BlockingSession` alone."""
    try:
        coro.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    coro.close()
    raise RuntimeError("this coroutine needs an event loop")


async def _raise(error: Exception) -> None:
    raise error


class Closable(Protocol):
    """A subscription, as its session knows it."""

    def _stop(self) -> None: ...

    async def _drain(self) -> None: ...


class Drainable(Protocol):
    """A publisher, as its session knows it."""

    def here(self) -> bool:
        """True where its futures can be waited for."""

    async def drained(self, wait: float | None = None) -> None:
        """Waits, at most `wait` seconds, until every message has its answer."""


class Session(Protocol):
    """A connection and the way to wait. `LoopSession` awaits, `BlockingSession` blocks."""

    # True where one blocking native call is the shortest way to a result: there is no loop to keep free.
    blocks: bool
    connection: Connection | None
    # The same after the end, for what can still be asked.
    last: Connection | None
    connecting: bool
    closed: bool
    # What `connect` was given: without secrets, and for TLS.
    options: dict[str, Any]
    tls: ssl.SSLContext | TLS | None
    # "", "subs" while the subscriptions are drained, then "pubs".
    draining: str
    drain_timeout: float
    pending_size: int
    # The error that ended `connect`, or the last one of a session without events.
    failure: Exception | None
    subscriptions: dict[int, Closable]
    # Weakly, because a publisher's owner may be done with it.
    publishers: WeakSet[Drainable]

    @property
    def native(self) -> Connection:
        """The connection. Raises `ConnectionClosedError` where there is none."""

    @property
    def is_closed(self) -> bool:
        """True once the connection has ended for good."""

    @property
    def last_error(self) -> Exception | None:
        """The last error that nobody waited for, or that ended `connect`."""

    def next_sid(self) -> int:
        """A new subscription's number."""

    def begin(self, callbacks: Mapping[str, Any]) -> Notices | None:
        """Takes the connection's callbacks, and gives what the native core tells its events to."""

    async def settle(self) -> None:
        """Lets the callbacks run for all that has happened so far."""

    def tell(self, kind: str, error: Exception) -> None:
        """An event of Python's own making."""

    def report(self, error: Exception) -> None:
        """An error that no call waits for: to the error callback, or to the log."""

    async def run(self, call: Call[_T], unwanted: Callable[[_T], Call[None]] | None = None) -> _T:
        """Waits for a native call. Cancelling the wait ends the call.

        `unwanted` makes the call that undoes a result which came too late to be wanted.
        """

    async def pause(self, delay: float) -> None:
        """Waits `delay` seconds; with 0 it gives others a turn."""

    def now(self) -> float:
        """Seconds of a clock that only goes forward."""

    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that runs; None where there is none."""

    def bridge(self) -> Bridge | None:
        """The mailbox of the event loop that runs; None where there is none."""

    def home(self) -> FutureHome:
        """Where a publisher's futures are made and resolved."""

    def lock(self) -> AbstractAsyncContextManager[object]:
        """A lock between those that wait on this session."""

    async def drain(self, subscriptions: Sequence[Closable]) -> None:
        """Drains subscriptions side by side, at most `drain_timeout` seconds."""

    async def processed(self, native: NativeSubscription, task: asyncio.Task[None] | None) -> bool:
        """Waits until a drained subscription's messages were taken; False where only the caller takes them."""

    def send(self, subject: str, payload: bytes | str, reply: str, headers: Headers | None) -> Call[None] | None:
        """Queues a message; the call to wait for where too many bytes are queued."""

    async def request(self, subject: str, payload: bytes | str, timeout: float, headers: Headers | None) -> Msg:
        """Publishes a request and waits for the first answer."""

    # What a message's verbs call. They return what the user awaits, or have done it when they return.

    def ack(self, reply: str, kind: str, **options: Any) -> Any:
        """Sends an acknowledgement."""

    def respond(self, reply: str, data: bytes | str, headers: Headers | None) -> Any:
        """Publishes an answer."""

    def fail(self, error: Exception) -> Any:
        """Ends in an error, as every other outcome does."""


class _Shared:
    """What both kinds of session have."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.last: Connection | None = None
        self.connecting = False
        self.closed = False
        self.options: dict[str, Any] = {}
        self.tls: ssl.SSLContext | TLS | None = None
        self.draining = ""
        self.drain_timeout: float = DEFAULT_DRAIN_TIMEOUT
        self.pending_size = DEFAULT_PENDING_SIZE
        self.failure: Exception | None = None
        self.subscriptions: dict[int, Closable] = {}
        self.publishers: WeakSet[Drainable] = WeakSet()
        self._last_sid = 0

    @property
    def native(self) -> Connection:
        if self.connection is None:
            raise ConnectionClosedError
        return self.connection

    @property
    def is_closed(self) -> bool:
        connection = self.connection or self.last
        return self.closed or (connection is not None and connection.is_closed)

    def next_sid(self) -> int:
        self._last_sid += 1
        return self._last_sid

    def now(self) -> float:
        return time.monotonic()

    def loop(self) -> asyncio.AbstractEventLoop | None:
        return None

    def send(self, subject: str, payload: bytes | str, reply: str, headers: Headers | None) -> Call[None] | None:
        if self.draining == "pubs":
            raise ConnectionDrainingError
        native = self.native
        if native.send(self.loop(), subject, payload, reply, headers, self.pending_size) > HIGH_WATER:
            return native.room(HIGH_WATER // 2)
        return None

    async def run(self, call: Call[_T], unwanted: Callable[[_T], Call[None]] | None = None) -> _T:
        raise NotImplementedError

    async def ack(self, reply: str, kind: str, *, confirm: float | None = None, **options: Any) -> None:
        if confirm is None:
            self.native.ack_one(self.loop(), reply, kind, **options)
        else:
            await self.run(self.native.ack([reply], kind, confirm=confirm))

    async def respond(self, reply: str, data: bytes | str, headers: Headers | None) -> None:
        room = self.send(reply, data, "", headers)
        if room is not None:
            await self.run(room)


class LoopSession(_Shared, Session):
    """Awaits on the running event loop."""

    blocks = False

    def __init__(self) -> None:
        super().__init__()
        self._events: Events | None = None
        self._notices: Notices | None = None

    def begin(self, callbacks: Mapping[str, Any]) -> Notices:
        check_callbacks(callbacks)
        self._events = Events(callbacks)
        self._notices = Notices(self._events.tell, self.bridge())
        return self._notices

    async def settle(self) -> None:
        if self._events is not None and self._notices is not None:
            self._notices.deliver()
            await self._events.settle()

    def tell(self, kind: str, error: Exception) -> None:
        if self._events is not None:
            self._events.tell(kind, error)

    def report(self, error: Exception) -> None:
        if self._events is None:
            self.failure = error
            log_error(error)
        else:
            self._events.tell("error", error)

    @property
    def last_error(self) -> Exception | None:
        return self.failure or (None if self._events is None else self._events.last_error)

    async def run(self, call: Call[_T], unwanted: Callable[[_T], Call[None]] | None = None) -> _T:
        loop = asyncio.get_running_loop()
        future = call.start(loop, bridge_of(loop))
        try:
            return await future
        except asyncio.CancelledError:
            call.cancel()
            if unwanted is not None and future.done() and not future.cancelled() and future.exception() is None:
                unwanted(future.result()).start(loop, bridge_of(loop))
            raise

    async def pause(self, delay: float) -> None:
        await asyncio.sleep(delay)

    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def bridge(self) -> Bridge:
        return bridge_of(asyncio.get_running_loop())

    def home(self) -> FutureHome:
        loop = asyncio.get_running_loop()
        return LoopHome(loop, bridge_of(loop))

    def lock(self) -> AbstractAsyncContextManager[object]:
        return asyncio.Lock()

    async def drain(self, subscriptions: Sequence[Closable]) -> None:
        tasks = [asyncio.ensure_future(sub._drain()) for sub in subscriptions]
        if not tasks:
            return
        done, late = await asyncio.wait(tasks, timeout=self.drain_timeout)
        for task in late:
            task.cancel()
        if late:
            self.report(DrainTimeoutError())
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.debug("draining a subscription: %s", error)

    async def processed(self, native: NativeSubscription, task: asyncio.Task[None] | None) -> bool:
        await self.run(native.emptied())
        if task is not None and task is not asyncio.current_task():
            # The last callback may still run.
            await asyncio.wait([task])
        return True

    async def request(self, subject: str, payload: bytes | str, timeout: float, headers: Headers | None) -> Msg:
        native, loop = self.native, asyncio.get_running_loop()
        future = native.request_future(loop, bridge_of(loop), self, subject, payload, timeout, headers)
        if future is not None:
            return await future
        return await self.run(native.request_msg(self, subject, payload, timeout=timeout, headers=headers))

    def fail(self, error: Exception) -> Any:
        return _raise(error)


class _ThreadLock:
    """A lock for coroutines that never suspend."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class BlockingSession(_Shared, Session):
    """Blocks the thread in native code, with the GIL released. Nothing that waits here suspends a coroutine."""

    blocks = True

    def begin(self, callbacks: Mapping[str, Any]) -> None:
        if used := [name for name, callback in callbacks.items() if callback]:
            raise TypeError(f"{used[0]}: the blocking client runs no callbacks; use jetarrow.connect for them")

    async def settle(self) -> None:
        pass

    def tell(self, kind: str, error: Exception) -> None:
        pass

    def report(self, error: Exception) -> None:
        self.failure = error
        log_error(error)

    @property
    def last_error(self) -> Exception | None:
        return self.failure

    async def run(self, call: Call[_T], unwanted: Callable[[_T], Call[None]] | None = None) -> _T:
        return call.block()

    async def pause(self, delay: float) -> None:
        time.sleep(delay)  # noqa: ASYNC251  # there is no event loop here

    def bridge(self) -> None:
        return None

    def home(self) -> FutureHome:
        return ThreadHome()

    def lock(self) -> AbstractAsyncContextManager[object]:
        return _ThreadLock()

    async def drain(self, subscriptions: Sequence[Closable]) -> None:
        for sub in subscriptions:
            await sub._drain()

    async def processed(self, native: NativeSubscription, task: asyncio.Task[None] | None) -> bool:
        return False

    async def request(self, subject: str, payload: bytes | str, timeout: float, headers: Headers | None) -> Msg:
        return self.native.request_msg(self, subject, payload, timeout=timeout, headers=headers).block()

    def ack(self, reply: str, kind: str, **options: Any) -> Any:
        return finish(super().ack(reply, kind, **options))

    def respond(self, reply: str, data: bytes | str, headers: Headers | None) -> Any:
        return finish(super().respond(reply, data, headers))

    def fail(self, error: Exception) -> Any:
        raise error
