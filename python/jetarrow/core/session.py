"""Session: a client's connection, and the waiting for its calls, on an event loop or by blocking the thread.

Objects that use a connection receive a `Session`, not the client. The async and the sync classes differ in the session
only: with a `BlockingSession` no coroutine suspends, so that one `send(None)` runs it to completion.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar
from weakref import ReferenceType, WeakSet, ref

from jetarrow._jetarrow import Bridge, Call, Connection, Msg, Notices
from jetarrow._jetarrow import Subscription as NativeSubscription
from jetarrow.core.errors import ConnectionClosedError, ConnectionDrainingError
from jetarrow.core.futures import AckFutures
from jetarrow.core.options import DEFAULT_DRAIN_TIMEOUT
from jetarrow.core.tls import TLS

_T = TypeVar("_T")
_A = TypeVar("_A")
Headers = Mapping[str, str | list[str]]

# While connected, a publish waits if more bytes than this are queued.
HIGH_WATER = 8 * 1024 * 1024


def run_to_completion(coro: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine that waits through a `BlockingSession` only, and returns its result."""
    try:
        coro.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    coro.close()
    raise RuntimeError("the coroutine suspended: it waits for an event loop, not through a BlockingSession")


class Closable(Protocol):
    """The part of a subscription that its session uses."""

    def _stop_delivery(self) -> asyncio.Task[None] | None: ...

    async def _drain(self) -> None: ...


class Drainable(Protocol):
    """The part of a publisher that its session uses."""

    def is_usable_here(self) -> bool:
        """Whether the caller can wait for its futures."""

    async def wait_for_acks(self, wait: float | None = None) -> None:
        """Waits, at most `wait` seconds, until every message is acknowledged or has failed."""

    def unanswered(self) -> tuple[int, int]:
        """Number of unacknowledged messages, and their bytes."""


class Lock(Protocol):
    """A lock for coroutines of a session."""

    async def turn(self) -> AbstractContextManager[object]:
        """Returns the context manager of one turn, for `with await lock.turn():`."""


class Session(Protocol):
    """A connection, and the waiting for its calls: `LoopSession` awaits, `BlockingSession` blocks."""

    # True without an event loop: one blocking native call is the fastest implementation then.
    is_blocking: bool
    connection: Connection | None
    # The connection, also after its end, for its counters and attributes.
    last_connection: Connection | None
    connecting: bool
    closed: bool
    # The options of `connect` without secrets, and its `tls`.
    options: dict[str, Any]
    tls: ssl.SSLContext | TLS | None
    # The JetStream options of the context file.
    jetstream_options: dict[str, str]
    # "subs" while subscriptions are drained, then "pubs"; otherwise empty.
    draining: str
    drain_timeout: float
    # The error that ended `connect`, or the last one of a session without events.
    failure: Exception | None
    subscriptions: dict[int, Closable]
    # Weakly: the owner of a publisher may delete it.
    publishers: WeakSet[Drainable]
    # The class of received messages.
    msg_class: type[Any]

    def set_client(self, client: Any) -> None:
        """Sets the client that messages refer to; held weakly."""

    @property
    def client(self) -> Any:
        """The client that messages refer to."""

    @property
    def native(self) -> Connection:
        """The connection; raises `ConnectionClosedError` without one."""

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed."""

    @property
    def last_error(self) -> Exception | None:
        """The last error that no call raised, or that ended `connect`."""

    def next_sid(self) -> int:
        """Returns the id of a new subscription."""

    def begin(self, callbacks: Mapping[str, Any]) -> Notices | None:
        """Sets the connection's callbacks, and returns the object that receives events of the native core."""

    def hold_events(self) -> None:
        """Queues events from now on until `wait_for_callbacks`."""

    async def wait_for_callbacks(self) -> None:
        """Waits until the callbacks of all events so far have returned."""

    def enqueue_event(self, kind: str, error: Exception) -> None:
        """Enqueues an event that Python code has created."""

    def report_error(self, error: Exception) -> None:
        """Reports an error that no call raises: to the error callback, or to the log."""

    async def run(self, call: Call[_T], unwanted: Callable[[_T], Call[None]] | None = None) -> _T:
        """Waits for a native call. Cancelling the wait cancels the call.

        `unwanted` creates the call that reverts a result which arrived after the cancellation.
        """

    def arrival(self, native: NativeSubscription) -> asyncio.Future[None] | None:
        """Returns a future that resolves at the next message, or at the end, of a subscription without messages.

        None if `native.ready` has to be awaited: at the end, for ordered subscriptions, and without an event loop.
        """

    async def sleep(self, delay: float) -> None:
        """Waits `delay` seconds; 0 yields to other tasks."""

    def now(self) -> float:
        """Seconds of a monotonic clock."""

    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The running event loop; None without one."""

    def bridge(self) -> Bridge | None:
        """The mailbox of the running event loop; None without one."""

    def ack_futures(self) -> AckFutures:
        """Returns the object that creates and resolves a publisher's futures."""

    def lock(self) -> Lock:
        """Returns a new lock for coroutines of this session."""

    async def gather(self, work: Callable[[_A], Coroutine[Any, Any, _T]], items: Sequence[_A], limit: int) -> list[_T]:
        """Calls `work` for each item, at most `limit` at a time; returns the results in order, or the first error."""

    def repeat(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        """Calls `work` every `seconds` in the background; the returned function stops it.

        An error of `work` stops it too.
        """

    async def drain(self, subscriptions: Sequence[Closable]) -> None:
        """Drains subscriptions concurrently, at most `drain_timeout` seconds."""

    async def deliver_pending(self, subscriptions: Sequence[Closable], wait: float) -> None:
        """Unsubscribes; delivers received messages to the callbacks, which are cancelled after `wait` seconds."""

    async def wait_until_processed(self, native: NativeSubscription, task: asyncio.Task[None] | None) -> bool:
        """Waits until a drained subscription's messages are processed; False if only the caller consumes them."""

    def send(self, subject: str, payload: bytes | str, reply: str | None, headers: Headers | None) -> Call[None] | None:
        """Queues a message; returns a call to wait for if more than `HIGH_WATER` bytes are queued."""

    async def request(self, subject: str, payload: bytes | str, timeout: float | None, headers: Headers | None) -> Msg:
        """Publishes a request and waits for the first reply."""

    def ack(self, reply: str, kind: str, **options: Any) -> None:
        """Queues an acknowledgement."""


class EventState(Protocol):
    """The events that a connection has reported."""

    last_error: Exception | None
    closed: bool


class SharedState(Session):
    """State and methods of both kinds of session."""

    _events: EventState | None

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.last_connection: Connection | None = None
        self.connecting = False
        self.closed = False
        self.options: dict[str, Any] = {}
        self.tls: ssl.SSLContext | TLS | None = None
        self.jetstream_options: dict[str, str] = {}
        self.draining = ""
        self.drain_timeout: float = DEFAULT_DRAIN_TIMEOUT
        self.failure: Exception | None = None
        self.subscriptions: dict[int, Closable] = {}
        self.publishers: WeakSet[Drainable] = WeakSet()
        self._last_sid = 0
        self._sid_lock = threading.Lock()
        self._client: ReferenceType[Any] | None = None
        self._client_class: type[Any] | None = None

    def set_client(self, client: Any) -> None:
        # Weakly: a session does not keep its client alive.
        self._client, self._client_class = ref(client), type(client)

    @property
    def client(self) -> Any:
        client = self._client and self._client()
        if client is None and self._client_class is not None:
            # The program has deleted the client: create another one with the same session.
            client = object.__new__(self._client_class)
            client._session = self
        return client

    @property
    def native(self) -> Connection:
        if self.connection is None:
            raise ConnectionClosedError
        return self.connection

    @property
    def is_closed(self) -> bool:
        connection = self.connection or self.last_connection
        return self.closed or (connection is not None and connection.is_closed)

    @property
    def last_error(self) -> Exception | None:
        connection, events = self.connection or self.last_connection, self._events
        reported = self.failure or (None if events is None else events.last_error)
        # The error that closed the connection may not have been enqueued yet.
        is_delayed = connection is not None and connection.is_closed and events is not None and not events.closed
        if connection is None or (reported is not None and not is_delayed):
            return reported
        return connection.last_error or reported

    def next_sid(self) -> int:
        with self._sid_lock:
            self._last_sid += 1
            return self._last_sid

    def now(self) -> float:
        return time.monotonic()

    def loop(self) -> asyncio.AbstractEventLoop | None:
        return None

    def send(self, subject: str, payload: bytes | str, reply: str | None, headers: Headers | None) -> Call[None] | None:
        if self.draining == "pubs":
            raise ConnectionDrainingError
        # Not `native` first: a property takes 5 % of the time of a publish.
        native = self.connection or self.native
        if native.send(self.loop(), subject, payload, reply, headers) > HIGH_WATER:
            return native.room(HIGH_WATER // 2)
        return None

    def ack(self, reply: str, kind: str, **options: Any) -> None:
        self.native.ack_one(self.loop(), reply, kind, **options)
