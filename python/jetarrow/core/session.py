"""A client's connection, and how a call on it is waited for: awaited on an event loop, or blocked on in this thread.

Whatever works on a connection is handed a `Session`, and never the client. The two faces of the package differ in the
session alone: with a `BlockingSession` no coroutine ever suspends, so that one `send(None)` runs it to its end.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
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

# While the link is up, a publish waits when more bytes than this are queued.
HIGH_WATER = 8 * 1024 * 1024


def run_to_completion(coro: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine that waits through a `BlockingSession` alone."""
    try:
        coro.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    coro.close()
    raise RuntimeError("this coroutine needs an event loop")


class Closable(Protocol):
    """A subscription, as its session knows it."""

    def _stop_delivery(self) -> asyncio.Task[None] | None: ...

    async def _drain(self) -> None: ...


class Drainable(Protocol):
    """A publisher, as its session knows it."""

    def is_usable_here(self) -> bool:
        """True where its futures can be waited for."""

    async def wait_for_acks(self, wait: float | None = None) -> None:
        """Waits, at most `wait` seconds, until every message has its answer."""

    def unanswered(self) -> tuple[int, int]:
        """Messages that have no answer yet, and their bytes."""


class Session(Protocol):
    """A connection and the way to wait. `LoopSession` awaits, `BlockingSession` blocks."""

    # True where one blocking native call is the shortest way to a result: there is no loop to keep free.
    is_blocking: bool
    connection: Connection | None
    # The same after the end, for what can still be asked.
    last_connection: Connection | None
    connecting: bool
    closed: bool
    # What `connect` was given: without secrets, and for TLS.
    options: dict[str, Any]
    tls: ssl.SSLContext | TLS | None
    # What the context file of `connect` says of JetStream.
    jetstream_options: dict[str, str]
    # "", "subs" while the subscriptions are drained, then "pubs".
    draining: str
    drain_timeout: float
    # The error that ended `connect`, or the last one of a session without events.
    failure: Exception | None
    subscriptions: dict[int, Closable]
    # Weakly, because a publisher's owner may be done with it.
    publishers: WeakSet[Drainable]
    # Of which class its messages are.
    msg_class: type[Any]

    def set_client(self, client: Any) -> None:
        """Names the client that its messages name as theirs."""

    @property
    def client(self) -> Any:
        """That client."""

    @property
    def native(self) -> Connection:
        """The connection. Raises `ConnectionClosedError` where there is none."""

    @property
    def is_closed(self) -> bool:
        """True once the connection has ended for good."""

    @property
    def last_error(self) -> Exception | None:
        """The last error that no call raised, or that ended `connect`."""

    def next_sid(self) -> int:
        """A new subscription's number."""

    def begin(self, callbacks: Mapping[str, Any]) -> Notices | None:
        """Takes the connection's callbacks, and returns where the native core reports events."""

    def hold_events(self) -> None:
        """Keeps what happens from now on for `wait_for_callbacks`."""

    async def wait_for_callbacks(self) -> None:
        """Lets the callbacks run for all that has happened so far."""

    def enqueue_event(self, kind: str, error: Exception) -> None:
        """An event of Python's own making."""

    def report_error(self, error: Exception) -> None:
        """An error that no call waits for: to the error callback, or to the log."""

    async def run(self, call: Call[_T], unwanted: Callable[[_T], Call[None]] | None = None) -> _T:
        """Waits for a native call. Cancelling the wait ends the call.

        `unwanted` makes the call that undoes a result which came too late to be wanted.
        """

    async def sleep(self, delay: float) -> None:
        """Waits `delay` seconds; with 0 it gives others a turn."""

    def now(self) -> float:
        """Seconds of a clock that only goes forward."""

    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that runs; None where there is none."""

    def bridge(self) -> Bridge | None:
        """The mailbox of the event loop that runs; None where there is none."""

    def ack_futures(self) -> AckFutures:
        """Where a publisher's futures are made and resolved."""

    def lock(self) -> AbstractAsyncContextManager[object]:
        """A lock between those that wait on this session."""

    async def gather(self, work: Callable[[_A], Coroutine[Any, Any, _T]], items: Sequence[_A], most: int) -> list[_T]:
        """What `work` makes of each item, in their order; at most `most` of them at a time. The first error ends it."""

    def repeat(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        """Does `work` again and again, `seconds` apart, beside what waits; what it returns ends that.

        What `work` raises ends it too.
        """

    async def drain(self, subscriptions: Sequence[Closable]) -> None:
        """Drains subscriptions side by side, at most `drain_timeout` seconds."""

    async def deliver_pending(self, subscriptions: Sequence[Closable], wait: float) -> None:
        """Ends subscriptions; what has come goes to their callbacks, which are given up after `wait` seconds."""

    async def wait_until_processed(self, native: NativeSubscription, task: asyncio.Task[None] | None) -> bool:
        """Waits until a drained subscription's messages were taken; False where only the caller takes them."""

    def send(self, subject: str, payload: bytes | str, reply: str | None, headers: Headers | None) -> Call[None] | None:
        """Queues a message; the call to wait for where too many bytes are queued."""

    async def request(self, subject: str, payload: bytes | str, timeout: float | None, headers: Headers | None) -> Msg:
        """Publishes a request and waits for the first answer."""

    def ack(self, reply: str, kind: str, **options: Any) -> None:
        """Queues an acknowledgement."""


class Told(Protocol):
    """What has been told of a connection."""

    last_error: Exception | None
    closed: bool


class SharedState(Session):
    """What both kinds of session have."""

    _events: Told | None

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
        self._client: ReferenceType[Any] | None = None
        self._client_class: type[Any] | None = None

    def set_client(self, client: Any) -> None:
        # Weakly: nothing here keeps a client alive.
        self._client, self._client_class = ref(client), type(client)

    @property
    def client(self) -> Any:
        client = self._client and self._client()
        if client is None and self._client_class is not None:
            # The program has let go of it; another one on the same connection does the same.
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
        told = self.failure or (None if events is None else events.last_error)
        # What ended the connection may still be on its way to the callbacks.
        on_its_way = connection is not None and connection.is_closed and events is not None and not events.closed
        if connection is None or (told is not None and not on_its_way):
            return told
        return connection.last_error or told

    def next_sid(self) -> int:
        self._last_sid += 1
        return self._last_sid

    def now(self) -> float:
        return time.monotonic()

    def loop(self) -> asyncio.AbstractEventLoop | None:
        return None

    def send(self, subject: str, payload: bytes | str, reply: str | None, headers: Headers | None) -> Call[None] | None:
        if self.draining == "pubs":
            raise ConnectionDrainingError
        # Not `native` at once: a property takes a twentieth of a publish.
        native = self.connection or self.native
        if native.send(self.loop(), subject, payload, reply, headers) > HIGH_WATER:
            return native.room(HIGH_WATER // 2)
        return None

    def ack(self, reply: str, kind: str, **options: Any) -> None:
        self.native.ack_one(self.loop(), reply, kind, **options)
