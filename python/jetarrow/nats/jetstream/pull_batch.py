"""The messages of one `fetch`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetarrow import _jetarrow
from jetarrow._jetarrow import Msg
from jetarrow.core import errors
from jetarrow.core.arguments import FOREVER
from jetarrow.core.bridges import bridge_of
from jetarrow.jetstream.errors import APIError, NotFoundError
from jetarrow.jetstream.pull_lifecycle import message_size
from jetarrow.nats.jetstream.consumer_protocols import MessageBatch
from jetarrow.nats.jetstream.errors import ConsumerDeletedError
from jetarrow.nats.jetstream.message import Message, wrapped

if TYPE_CHECKING:
    from jetarrow.jetstream.fetch import PullSubscription
    from jetarrow.nats.jetstream.jetstream import JetStream

# The number of messages of a request that is limited by bytes.
MANY = 1_000_000


@dataclass
class Request:
    """The arguments of a `fetch`."""

    most: int
    max_bytes: int | None
    max_wait: float | None
    heartbeat: float | None
    group: tuple[str, int, int, int] | None
    no_wait: bool


def failure(error: Exception) -> Exception:
    """The error of nats-jetstream for one of a fetch."""
    if isinstance(error, NotFoundError):
        return ConsumerDeletedError("Consumer Deleted")
    if isinstance(error, errors.TimeoutError):
        return TimeoutError(str(error))
    if isinstance(error, errors.ConnectionClosedError):
        return RuntimeError("Connection is closed")
    if isinstance(error, APIError):
        text = error.description or str(error)
        if error.code == 400:
            return ValueError(f"Bad Request: {text}")
        if "push based" in text.lower():
            return ValueError(f"Consumer type mismatch: {text}")
        return Exception(f"Status {error.code}: {text}")
    return error


class PullMessageBatch(MessageBatch):
    """The messages of one `fetch`, as they arrive. Made by `fetch`."""

    def __init__(self, sub: PullSubscription, jetstream: JetStream, request: Request) -> None:
        self._sub = sub
        self._jetstream = jetstream
        self._loop = asyncio.get_running_loop()
        self._deadline = None if request.max_wait is None else self._loop.time() + request.max_wait
        self._request = request
        self._left = request.most
        self._bytes_left = request.max_bytes
        # Messages that have arrived, the next one at the end.
        self._arrived: list[Message] = []
        self._error: Exception | None = None
        self._call: _jetarrow.Call[list[Msg]] | None = None
        self._answer: asyncio.Future[list[Msg]] | None = None
        self._start(request.max_wait)

    @property
    def error(self) -> Exception | None:
        """Why the request ended early, known after the last message; None if it did not."""
        return self._error

    @property
    def is_complete(self) -> bool:
        """Whether all messages that were requested are read, so that no other one follows."""
        return not self._arrived and self._left <= 0

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        while not self._arrived:
            if self._answer is None:
                raise StopAsyncIteration
            try:
                await self._receive(self._answer)
            except asyncio.CancelledError:
                self._end()
                raise
        return self._arrived.pop()

    def _start(self, wait: float | None) -> None:
        """Sends a request at once, so that its messages arrive meanwhile."""
        request = self._request
        try:
            self._call = self._sub._native.fetch(
                self._sub._session,
                self._sub._id,
                self._left,
                max_bytes=self._bytes_left,
                timeout=FOREVER if wait is None else wait,
                min_messages=0 if request.no_wait else 1,
                heartbeat=request.heartbeat,
                group=request.group,
            )
            self._answer = self._call.start(self._loop, bridge_of(self._loop))
        except errors.Error as error:
            self._error, self._answer = failure(error), None

    async def _receive(self, answer: asyncio.Future[list[Msg]]) -> None:
        """Takes the messages of a request, and sends another one for those that are missing."""
        try:
            messages = await answer
        except (errors.Error, ValueError) as error:
            self._answer = None
            # A message larger than the rest of `max_bytes` ends the batch.
            if self._bytes_left is None or isinstance(error, errors.Error):
                self._error = failure(error)
            return
        self._answer = None
        self._arrived = wrapped(messages, self._jetstream)
        self._left -= len(messages)
        if self._bytes_left is not None:
            self._bytes_left -= sum(map(message_size, messages))
        wait = None if self._deadline is None else self._deadline - self._loop.time()
        if self._request.no_wait or not messages or self._left <= 0 or (self._bytes_left or 1) <= 0:
            return
        if wait is None or wait > 0:
            self._start(wait)

    def _end(self) -> None:
        """Ends the request; its messages are delivered again: by the server, or by the next fetch without acks."""
        answer, self._answer = self._answer, None
        if answer is not None and answer.done() and not answer.cancelled() and answer.exception() is None:
            # They arrived while the wait for them was cancelled.
            self._sub._native.put_back(answer.result()).start(self._loop, bridge_of(self._loop))
        elif self._call is not None:
            self._call.cancel()

    def __del__(self) -> None:
        answer = getattr(self, "_answer", None)
        if answer is not None and not answer.done():
            self._end()
