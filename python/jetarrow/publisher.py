"""Publishing message by message, many in flight at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

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
        self.loop = asyncio.get_running_loop()
        self.native = nc._native.publisher(bridge_of(self.loop), max_inflight=max_inflight, timeout=ack_timeout)
        self.max_inflight = max_inflight
        self.max_bytes = max_bytes

    def full(self) -> bool:
        """True when the next message has to wait. One message passes whatever its size."""
        native = self.native
        return native.pending >= self.max_inflight or (
            self.max_bytes is not None and native.pending_bytes >= self.max_bytes
        )

    async def room(self, wait: float | None) -> None:
        """Waits until there is room, at most `wait` seconds."""
        try:
            async with asyncio.timeout(wait):
                while self.full():
                    await self.native.room(self.loop)
        except TimeoutError:
            raise TooManyStalledMsgsError from None

    async def drained(self) -> None:
        """Waits until every message has its answer."""
        while self.native.pending:
            await self.native.room(self.loop)


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
        if acks.full():
            if not self._backpressure:
                raise MaxAckPendingError
            await acks.room(None)
        target = subject if subject is not None else self._subject
        if target is None:
            raise TypeError("subject is missing: give it to publisher() or to publish()")
        return acks.native.publish(acks.loop, target, payload, headers, msg_id, None)

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
        return Stats(*native.counts, native.pending, native.pending_bytes)

    async def __aenter__(self) -> Publisher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        await self.flush()
        if self._acks is None:
            return
        unseen = []
        for number, future in enumerate(self._acks.native.take_failed()):
            # The loop's own mark for an exception that nobody has looked at.
            if getattr(future, "_log_traceback", True) and not future.cancelled():
                failure = future.exception()
                if isinstance(failure, Exception):
                    unseen.append(RowError(number, failure))
        if unseen:
            text = f"{len(unseen)} messages were not stored and nobody awaited them; the first: {unseen[0].error}"
            raise BatchError(text, errors=unseen) from unseen[0].error
