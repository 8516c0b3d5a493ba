"""Iteration over the messages of a pull consumer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Protocol, TypeGuard, TypeVar

from jetarrow._jetarrow import Msg
from jetarrow.core.errors import BadSubscriptionError, TimeoutError
from jetarrow.jetstream.priority import GroupRequest

_T = TypeVar("_T")

# Messages and seconds of the first requests of an iterator. Few messages, because they may be slow to process.
REQUEST_MESSAGES = 500
REQUEST_TIMEOUT = 30.0
# Upper limits of the growing request size, normally and over a link with a high round trip time; the growth factor; and
# the most bytes of a request that has grown.
MAX_REQUEST_MESSAGES = 10_000
MAX_LONG_LINK_MESSAGES = 32_768
GROWTH_FACTOR = 8
MAX_REQUEST_BYTES = 8 * 1024 * 1024
# Most bytes that the server counts beside payload and headers: max_control_line.
PROTOCOL_LINE = 4096
# Multiple of the messages that are processed in one round trip, which a request asks for, so that the next response
# arrives during the processing.
ROUND_TRIPS_AHEAD = 4
# Seconds of processing a response below which the request size grows, and above which it is halved. They limit the time
# that buffered messages wait, far below the usual `ack_wait` of 30 s.
QUICK_SECONDS, SLOW_SECONDS = 0.2, 1.0


class MessageSource(Protocol):
    """The members of `PullSubscription` that the iterator uses."""

    _session: Any
    _stream: str
    _consumer: str
    _closed: bool
    # It has ended by a drain: what has arrived is still yielded.
    _is_drained: bool
    _limit: int

    def _start_fetch(
        self, most: int, max_bytes: int | None, group: GroupRequest | None
    ) -> tuple[asyncio.Future[list[Msg]], Any]:
        """Starts a fetch at once."""

    async def _fetch(
        self, most: int, *, timeout: float, max_bytes: int | None = None, group: GroupRequest | None = None
    ) -> list[Msg]:
        """Returns the available messages, or waits for the first one."""

    async def _until_closed(self, work: Awaitable[_T]) -> _T:
        """Waits for `work` until the subscription ends."""

    def _count_delivered(self, messages: int) -> None:
        """Adds to the number of delivered messages."""

    async def _return_messages(self, messages: list[Msg]) -> None:
        """Sends a nak for messages that were not yielded."""


class RequestSize:
    """Number of messages that the next request asks for: fixed, or growing while they are processed quickly."""

    def __init__(self, most: int, max_bytes: int | None, threshold: int | None, *, largest: int = 0) -> None:
        self._given = most
        self._grows = threshold is None
        self._given_bytes = max_bytes
        self._threshold = threshold
        self.most = most
        # The largest message that the server allows must fit.
        self._most_bytes = max(MAX_REQUEST_BYTES, largest + PROTOCOL_LINE)
        # Shortest response time in seconds; and the number of messages that are processed in twice this time.
        self._waited = 0.0
        self._trip = 0

    @property
    def max_bytes(self) -> int | None:
        """Most bytes of the next request."""
        return self._given_bytes if self.most <= self._given else self._most_bytes

    @property
    def ahead(self) -> int:
        """Number of unprocessed messages below which the next request is sent; 0 sends it when none is left."""
        if self._threshold is not None:
            return self._threshold
        return max(self.most // 2, min(self._trip, self.most)) if self.most > self._given else 0

    def record_batch(self, asked: int, came: int, took: float) -> None:
        """Adapts the size to a response.

        Args:
            asked: Messages that were requested.
            came: Messages that arrived.
            took: Seconds of processing them.
        """
        if not self._grows:
            return
        if took > SLOW_SECONDS:
            self.most = max(self._given, self.most // 2)
        elif came >= asked and took < QUICK_SECONDS:
            rate = came / max(took, 1e-6)
            # Messages that are processed in two round trips.
            self._trip = int(self._waited * rate * 2)
            most = max(MAX_REQUEST_MESSAGES, min(MAX_LONG_LINK_MESSAGES, int(self._waited * rate * ROUND_TRIPS_AHEAD)))
            self.most = max(self._given, min(most, self.most * GROWTH_FACTOR, int(QUICK_SECONDS * rate)))

    def record_wait(self, seconds: float) -> None:
        """Records the response time of a request during which the iterator only waited."""
        self._waited = min(seconds, self._waited) if self._waited else seconds


def has_arrived(request: asyncio.Future[list[Msg]] | None) -> TypeGuard[asyncio.Future[list[Msg]]]:
    """Returns whether the response of a request has arrived."""
    return request is not None and request.done() and not request.cancelled() and request.exception() is None


class Messages:
    """Iterates over the messages of a pull subscription, and sends the pull requests."""

    def __init__(
        self,
        sub: MessageSource,
        most: int = REQUEST_MESSAGES,
        *,
        max_bytes: int | None = None,
        threshold: int | None = None,
        group: GroupRequest | None = None,
    ) -> None:
        self._sub = sub
        self._most = most
        self._max_bytes = max_bytes
        self._threshold = threshold
        self._group = group

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of consumer {self._sub._consumer} of stream {self._sub._stream}>"

    def __call__(self) -> Messages:
        """Returns itself, so that `sub.messages` and `sub.messages()` are the same."""
        return self

    async def __aiter__(self) -> AsyncIterator[Msg]:
        sub = self._sub
        largest = sub._session.native.max_payload
        size = RequestSize(self._most, self._max_bytes, self._threshold, largest=largest)
        ahead: asyncio.Future[list[Msg]] | None = None
        messages: list[Msg] = []
        number = 0
        asked = size.most
        try:
            while not sub._closed or (sub._is_drained and has_arrived(ahead)):
                try:
                    messages, number = await self._next(ahead, size), 0
                except BadSubscriptionError:
                    # The subscription ended meanwhile.
                    continue
                ahead = None
                begin, last = time.monotonic(), asked
                for number, msg in enumerate(messages, 1):
                    if ahead is None and len(messages) - number < size.ahead and not sub._closed and not sub._limit:
                        asked = size.most
                        ahead, call = sub._start_fetch(asked, size.max_bytes, self._group)
                    yield msg
                size.record_batch(last, len(messages), time.monotonic() - begin)
                if ahead is None:
                    asked = size.most
        finally:
            # The iteration has ended: the server redelivers the messages that it did not yield.
            rest = messages[number:]
            if has_arrived(ahead):
                rest += ahead.result()
            elif ahead is not None:
                call.cancel()
                ahead.cancel()
            await sub._return_messages(rest)

    async def _next(self, ahead: asyncio.Future[list[Msg]] | None, size: RequestSize) -> list[Msg]:
        """The response of the request sent ahead, or of a new one. Waits while the connection is down."""
        sub = self._sub
        while True:
            try:
                if ahead is None:
                    begin = time.monotonic()
                    messages = await sub._fetch(
                        size.most, timeout=REQUEST_TIMEOUT, max_bytes=size.max_bytes, group=self._group
                    )
                    size.record_wait(time.monotonic() - begin)
                    return messages
                messages = await sub._until_closed(ahead)
                sub._count_delivered(len(messages))
                return messages
            except TimeoutError:
                if sub._session.native.is_connected:
                    raise
                ahead = None
