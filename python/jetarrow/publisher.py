"""Publishing message by message, many in flight at once."""

from __future__ import annotations

import asyncio
import concurrent.futures
import select
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from jetarrow import _jetarrow
from jetarrow._exit import watch_publisher
from jetarrow._jetarrow import Bridge
from jetarrow._run import bridge_of
from jetarrow.js.errors import BatchError, MaxAckPendingError, TooManyStalledMsgsError
from jetarrow.publish import RowError

if TYPE_CHECKING:
    from jetarrow.aio.client import Client
    from jetarrow.js.api import PubAck

Headers = Mapping[str, str | list[str]]


class Acks:
    """The native publisher of one event loop, with its limits. The futures are the loop's."""

    def __init__(self, nc: Client, *, max_inflight: int, max_bytes: int | None, ack_timeout: float) -> None:
        self.loop, bridge = self._home()
        self.native = nc._native.publisher(
            bridge,
            max_inflight=max_inflight,
            max_bytes=max_bytes,
            timeout=ack_timeout,
            by_turn=not nc._blocks,
            # Only a publisher with its own window, which also bounds bytes, asks for its failures at the end.
            keep_failed=max_bytes is not None,
        )
        self.publish = self.native.publish
        self._thread = threading.get_ident()
        watch_publisher(self)
        nc._publishers.add(self)

    def _home(self) -> tuple[Any, Bridge]:
        loop = asyncio.get_running_loop()
        return loop, bridge_of(loop)

    def here(self) -> bool:
        """True where its futures can be used: in its own loop."""
        # Asking asyncio costs a system call. A thread runs one loop at a time.
        return self._thread == threading.get_ident() and bool(self.loop.is_running())

    async def room(self, wait: float | None) -> None:
        """Waits until there is room, at most `wait` seconds."""
        try:
            async with asyncio.timeout(wait):
                while self.native.full():
                    await self.native.room(self.loop)
        except TimeoutError:
            raise TooManyStalledMsgsError from None

    async def drained(self, wait: float | None = None) -> None:
        """Waits, at most `wait` seconds, until every message has its answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while self.native.pending:
                    await self.native.room(self.loop)


class AckFuture(concurrent.futures.Future[Any]):
    """A future that knows, as asyncio's do, whether anybody has looked at its exception."""

    _log_traceback = False

    def set_exception(self, exception: BaseException | None) -> None:
        self._log_traceback = True
        super().set_exception(exception)

    def result(self, timeout: float | None = None) -> Any:
        self._log_traceback = False
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._log_traceback = False
        return super().exception(timeout)


class Threads:
    """What stands for the event loop where there is none: its futures are for any thread."""

    @staticmethod
    def create_future() -> AckFuture:
        return AckFuture()


def _serve(bridge: Bridge, native: _jetarrow.Publisher, owner: weakref.ref[Acks]) -> None:
    """Resolves futures in a thread of its own, until their publisher is gone and none is left."""
    while True:
        if select.select([bridge.fileno()], [], [], 1.0)[0]:
            bridge.drain()
        elif owner() is None and not native.pending:
            return


class BlockingAcks(Acks):
    """The same for the sync twin. Its coroutines never suspend: they block, and Ctrl-C wakes them."""

    def __init__(self, nc: Client, *, max_inflight: int, max_bytes: int | None, ack_timeout: float) -> None:
        super().__init__(nc, max_inflight=max_inflight, max_bytes=max_bytes, ack_timeout=ack_timeout)
        # Not the native thread: what a user hangs on a future may block, and would stop all that the client does.
        arguments = (self._bridge, self.native, weakref.ref(self))
        threading.Thread(target=_serve, args=arguments, name="jetarrow-acks", daemon=True).start()

    def _home(self) -> tuple[Any, Bridge]:
        self._bridge = Bridge()
        return Threads, self._bridge

    def here(self) -> bool:
        return True

    async def room(self, wait: float | None) -> None:
        deadline = None if wait is None else time.monotonic() + wait
        try:
            while self.native.full():
                left = None if deadline is None else max(deadline - time.monotonic(), 0)
                future: Any = self.native.room(self.loop)
                future.result(left)
        except TimeoutError:
            raise TooManyStalledMsgsError from None

    async def drained(self, wait: float | None = None) -> None:
        deadline = None if wait is None else time.monotonic() + wait
        with suppress(TimeoutError):
            while self.native.pending:
                future: Any = self.native.room(self.loop)
                future.result(None if deadline is None else max(deadline - time.monotonic(), 0))


def acks_of(nc: Client, *, max_inflight: int, max_bytes: int | None, ack_timeout: float) -> Acks:
    """The publisher for the face that `nc` belongs to."""
    kind = BlockingAcks if nc._blocks else Acks
    return kind(nc, max_inflight=max_inflight, max_bytes=max_bytes, ack_timeout=ack_timeout)


class Stats(NamedTuple):
    """What a publisher has done so far."""

    stored: int
    duplicates: int
    errors: int
    pending: int
    pending_bytes: int


class Publisher:
    """Publishes message by message with many in flight. Made by `js.publisher`; use it with `async with`.

    Leaving the block waits for all acks; failed messages that nobody awaited raise `BatchError` there.
    """

    def __init__(
        self,
        make: Callable[[], Acks],
        subject: str | None,
        *,
        backpressure: bool,
    ) -> None:
        self._make = make
        self._subject = subject
        self._backpressure = backpressure
        self._acks: Acks | None = None

    async def publish(
        self,
        payload: bytes | str,
        *,
        subject: str | None = None,
        headers: Headers | None = None,
        msg_id: str | None = None,
    ) -> asyncio.Future[PubAck]:
        """Queues one message; waits for room in the window only.

        Parameters:
            payload: bytes-like, or str, which is sent as UTF-8.
            subject: default the publisher's.
            headers: name to value, or to a list of values.
            msg_id: the stream stores one message per id within its duplicate window.

        Returns:
            A future that resolves to the `PubAck`, or raises a typed error.

        Raises:
            MaxAckPendingError: the window is full and the publisher has `backpressure=False`; nothing was sent.
            BadSubjectError, BadHeaderError, MaxPayloadError: before anything is sent.
        """
        acks = self._acks
        if acks is None:
            acks = self._acks = self._make()
        target = subject if subject is not None else self._subject
        if target is None:
            raise TypeError("subject is missing: give it to publisher() or to publish()")
        while (future := acks.publish(acks.loop, target, payload, headers, msg_id, None)) is None:
            if not self._backpressure:
                raise MaxAckPendingError
            await acks.room(None)
        return future

    async def flush(self) -> None:
        """Waits until every message has its answer."""
        if self._acks is not None:
            await self._acks.drained()

    @property
    def pending(self) -> int:
        """Messages that have no answer yet."""
        return self._acks.native.pending if self._acks is not None else 0

    @property
    def stats(self) -> Stats:
        """Counts so far: stored, duplicates, errors, pending, pending_bytes."""
        if self._acks is None:
            return Stats(0, 0, 0, 0, 0)
        native = self._acks.native
        return Stats(native.stored, native.duplicates, native.errors, native.pending, native.pending_bytes)

    async def __aenter__(self) -> Publisher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self._finish()

    async def _finish(self) -> None:
        """Waits for all acks, and raises what nobody has looked at."""
        await self.flush()
        if self._acks is None:
            return
        unseen = []
        for number, future in enumerate(self._acks.native.take_failed()):
            # The future's own mark for an exception that nobody has looked at.
            if getattr(future, "_log_traceback", True) and not future.cancelled():
                failure = future.exception()
                if isinstance(failure, Exception):
                    unseen.append(RowError(number, failure))
        if unseen:
            text = f"{len(unseen)} messages were not stored and nobody awaited them; the first: {unseen[0].error}"
            raise BatchError(text, errors=unseen) from unseen[0].error
