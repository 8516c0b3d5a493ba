"""The messages of a pull consumer, one after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Protocol, TypeVar

from jetarrow._jetarrow import Msg
from jetarrow.core.errors import BadSubscriptionError, TimeoutError
from jetarrow.jetstream.priority import GroupRequest

_T = TypeVar("_T")

# What an iterator asks for at a time, and how long one request waits. Few, because each is on its way to be processed.
REQUEST_MESSAGES = 500
REQUEST_TIMEOUT = 30.0
# What it grows to by itself, and over a long link; how much at a time; and the most bytes of such a request.
MAX_REQUEST_MESSAGES = 10_000
MAX_LONG_LINK_MESSAGES = 32_768
GROWTH_FACTOR = 8
MAX_REQUEST_BYTES = 8 * 1024 * 1024
# What the server counts beside payload and headers, at most.
PROTOCOL_LINE = 4096
# So many times what is handled in the time that a request takes is asked for: it comes while that is handled.
ROUND_TRIPS_AHEAD = 4
# Seconds: handled in less, more are asked for; in more, half as many. What is held waits no longer than about
# this, far below any time in which messages are to be acknowledged.
QUICK_SECONDS, SLOW_SECONDS = 0.2, 1.0


class MessageSource(Protocol):
    """A `PullSubscription`, as far as it counts here."""

    _session: Any
    _stream: str
    _consumer: str
    _closed: bool
    _limit: int

    def _start_fetch(
        self, most: int, max_bytes: int | None, group: GroupRequest | None
    ) -> tuple[asyncio.Future[list[Msg]], Any]:
        """A fetch that is under way when this returns."""

    async def _fetch(
        self, most: int, *, timeout: float, max_bytes: int | None = None, group: GroupRequest | None = None
    ) -> list[Msg]:
        """What is there, or the first that comes."""

    async def _until_closed(self, work: Awaitable[_T]) -> _T:
        """Waits for it; the end of the subscription ends it."""

    def _count_delivered(self, messages: int) -> None:
        """So many more were fetched."""

    async def _return_messages(self, messages: list[Msg]) -> None:
        """Gives messages that were not handed out back to the server."""


class RequestSize:
    """How many messages the next request asks for: given, or growing as long as they are handled quickly."""

    def __init__(self, most: int, max_bytes: int | None, threshold: int | None, *, largest: int = 0) -> None:
        self._given = most
        self._grows = threshold is None
        self._given_bytes = max_bytes
        self._threshold = threshold
        self.most = most
        # A message as large as the server allows has to fit.
        self._most_bytes = max(MAX_REQUEST_BYTES, largest + PROTOCOL_LINE)
        # Seconds that the shortest request took; and how many messages are handled in twice that.
        self._waited = 0.0
        self._trip = 0

    @property
    def max_bytes(self) -> int | None:
        """Most bytes of the next request."""
        return self._given_bytes if self.most <= self._given else self._most_bytes

    @property
    def ahead(self) -> int:
        """With fewer than this left, the next request is sent; 0 is when none is."""
        if self._threshold is not None:
            return self._threshold
        return max(self.most // 2, min(self._trip, self.most)) if self.most > self._given else 0

    def record_batch(self, asked: int, came: int, took: float) -> None:
        """So many came of those that were asked for, and were handled in so many seconds."""
        if not self._grows:
            return
        if took > SLOW_SECONDS:
            self.most = max(self._given, self.most // 2)
        elif came >= asked and took < QUICK_SECONDS:
            rate = came / max(took, 1e-6)
            # Handled while a request is under way and answered.
            self._trip = int(self._waited * rate * 2)
            most = max(MAX_REQUEST_MESSAGES, min(MAX_LONG_LINK_MESSAGES, int(self._waited * rate * ROUND_TRIPS_AHEAD)))
            self.most = max(self._given, min(most, self.most * GROWTH_FACTOR, int(QUICK_SECONDS * rate)))

    def record_wait(self, seconds: float) -> None:
        """A request that nothing else was done beside took so long, of which little is the messages' own time."""
        self._waited = min(seconds, self._waited) if self._waited else seconds


class Messages:
    """The messages of a pull subscription, one after the other. It pulls by itself."""

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
        """Itself: `sub.messages` and `sub.messages()` are the same."""
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
            while not sub._closed:
                messages, number = await self._next(ahead, size), 0
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
            # The iteration has ended: what was not handed out is for others.
            rest = messages[number:]
            if ahead is not None:
                if ahead.done() and not ahead.cancelled() and ahead.exception() is None:
                    rest += ahead.result()
                else:
                    call.cancel()
                    ahead.cancel()
            await sub._return_messages(rest)

    async def _next(self, ahead: asyncio.Future[list[Msg]] | None, size: RequestSize) -> list[Msg]:
        """What the request sent ahead brings, or another one. While the link is down it is waited for."""
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
            except BadSubscriptionError:
                # It was ended while this waited.
                return []
            except TimeoutError:
                if sub._session.native.is_connected:
                    raise
                ahead = None
