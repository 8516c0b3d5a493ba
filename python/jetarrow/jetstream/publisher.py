"""Publishing message by message, many in flight at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Unpack

from jetarrow.core.at_exit import register_publisher
from jetarrow.core.cpython import is_exception_retrieved
from jetarrow.core.session import Headers, Session
from jetarrow.jetstream.errors import BatchError, Error, MaxAckPendingError, TooManyStalledMsgsError
from jetarrow.jetstream.models import PubAck
from jetarrow.jetstream.publish_headers import NO_EXPECTATIONS, PublishExtras, TimeToLive, publish_headers
from jetarrow.jetstream.publish_result import RowError

if TYPE_CHECKING:
    from jetarrow.jetstream.api import JetStreamApi


# Minimum number of messages that may be pending while the window is sized automatically. Without backpressure a full
# window is an error, so a burst must fit before the window has grown. With backpressure a smaller number keeps the
# queue of the next message short.
BURST_PENDING, MIN_PENDING = 5_000, 512


class LoopPublisher:
    """The native publisher of one event loop, or of all threads if there is no loop."""

    def __init__(
        self,
        session: Session,
        *,
        prefix: str,
        max_inflight: int | None,
        max_bytes: int | None,
        ack_timeout: float,
        spare: int,
        durable: bool = False,
    ) -> None:
        self._ack_futures = ack_futures = session.ack_futures()
        self.loop = ack_futures.loop
        self.native = session.native.publisher(
            ack_futures.bridge,
            prefix=prefix,
            max_inflight=max_inflight,
            max_bytes=max_bytes,
            spare=spare,
            timeout=ack_timeout,
            by_turn=ack_futures.by_turn,
            # Only a publisher with its own window, which limits bytes too, reads its failures when it is closed.
            keep_failed=max_bytes is not None,
            durable=durable,
        )
        self.publish = self.native.publish
        self.linger = partial(self.native.linger, ack_futures.bridge)
        self.is_usable_here = ack_futures.is_usable_here
        register_publisher(self)
        session.publishers.add(self)
        ack_futures.start_resolving(self.native, self)

    async def room(self, wait: float | None) -> None:
        """Waits until there is room, at most `wait` seconds."""
        try:
            await self._ack_futures.wait_while(self.native.full, self.native.room, wait)
        except TimeoutError:
            raise TooManyStalledMsgsError from None

    async def wait_for_acks(self, wait: float | None = None) -> None:
        """Waits, at most `wait` seconds, until every message is acknowledged or has failed."""
        with suppress(TimeoutError):
            await self._ack_futures.wait_while(lambda: self.native.pending > 0, self.native.room, wait)

    def unanswered(self) -> tuple[int, int]:
        """Number and bytes of the unacknowledged messages."""
        return self.native.pending, self.native.pending_bytes


class Stats(NamedTuple):
    """Counters of a publisher."""

    stored: int
    duplicates: int
    errors: int
    pending: int
    pending_bytes: int


class Publisher:
    """Publishes message by message with many in flight. Made by `js.publisher`; use it with `async with`.

    Leaving the block waits for all acks. It raises `BatchError` if messages failed whose future was not awaited.
    """

    def __init__(
        self,
        api: JetStreamApi,
        make: Callable[[], LoopPublisher],
        subject: str | None,
        *,
        backpressure: bool,
    ) -> None:
        self._api = api
        self._make = make
        self._subject = subject
        self._backpressure = backpressure
        self._loop_publisher: LoopPublisher | None = None
        self._making = threading.Lock()
        self._over = False

    def __repr__(self) -> str:
        to = "" if self._subject is None else f" to {self._subject}"
        return f"<{type(self).__name__}{to}: {self.pending} pending>"

    async def publish(
        self,
        payload: bytes | str,
        *,
        subject: str | None = None,
        headers: Headers | None = None,
        msg_id: str | None = None,
        msg_ttl: TimeToLive | None = None,
        expected_stream: str | None = None,
        expected_last_seq: int | None = None,
        expected_last_subject_seq: int | None = None,
        expected_last_msg_id: str | None = None,
        **extras: Unpack[PublishExtras],
    ) -> asyncio.Future[PubAck]:
        """Queues one message; waits for room in the window only.

        Args:
            payload: Bytes-like, or str, which is sent as UTF-8.
            subject: The subject. Default: that of the publisher.
            headers: Name to value, or to a list of values.
            msg_id: The stream stores one message per id within its duplicate window.
            msg_ttl: As `js.publish`, like the rest.
            expected_stream: The stream that must store it.
            expected_last_seq: The stream's last sequence must be this.
            expected_last_subject_seq: The last sequence of the subject must be this; 0 is none.
            expected_last_msg_id: The last message's id must be this.
            **extras: As `js.publish`.

        Returns:
            A future of the `PubAck` or of a typed error.

        Raises:
            MaxAckPendingError: The window is full and the publisher has `backpressure=False`; nothing was sent.
            BadSubjectError: The subject is invalid; nothing was sent.
            BadHeaderError: A header is invalid; nothing was sent.
            MaxPayloadError: The message with its headers exceeds the server's `max_payload`; nothing was sent.
            Error: The `async with` block of the publisher has ended.
        """
        publisher = self._loop_publisher
        if self._over:
            raise Error(
                "could not publish: the block of this publisher has ended; publish inside it, or create another one"
                " with js.publisher()"
            )
        if publisher is None:
            publisher = self._made()
        target = subject if subject is not None else self._subject
        if target is None:
            raise TypeError("subject is missing: pass it to publisher() or to publish()")
        expected = (expected_stream, expected_last_seq, expected_last_subject_seq, expected_last_msg_id, msg_ttl)
        if extras or expected != NO_EXPECTATIONS:
            headers = publish_headers(self._api, headers, *expected, extras)
        while (future := publisher.publish(publisher.loop, target, payload, headers, msg_id, None)) is None:
            if not self._backpressure:
                raise MaxAckPendingError
            await publisher.room(None)
        return future

    def _made(self) -> LoopPublisher:
        # Threads may publish their first messages at once; `flush` waits for the acks of one native publisher.
        with self._making:
            if self._loop_publisher is None:
                self._loop_publisher = self._make()
            return self._loop_publisher

    async def flush(self) -> None:
        """Waits until every message is acknowledged or has failed."""
        await self._wait_for_acks()

    async def _wait_for_acks(self, wait: float | None = None) -> None:
        if self._loop_publisher is not None:
            await self._loop_publisher.wait_for_acks(wait)

    @property
    def pending(self) -> int:
        """The number of unacknowledged messages."""
        return self._loop_publisher.native.pending if self._loop_publisher is not None else 0

    @property
    def stats(self) -> Stats:
        """Counts so far: stored, duplicates, errors, pending, pending_bytes."""
        if self._loop_publisher is None:
            return Stats(0, 0, 0, 0, 0)
        native = self._loop_publisher.native
        return Stats(native.stored, native.duplicates, native.errors, native.pending, native.pending_bytes)

    async def __aenter__(self) -> Publisher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        if kind is None:
            await self._finish()

    async def _finish(self) -> None:
        """Waits for all acks, and raises the errors whose futures were not awaited."""
        self._over = True
        await self.flush()
        if self._loop_publisher is None:
            return
        unseen = []
        for number, future in enumerate(self._loop_publisher.native.take_failed()):
            if not is_exception_retrieved(future) and not future.cancelled():
                failure = future.exception()
                if isinstance(failure, Exception):
                    unseen.append(RowError(number, failure))
        if unseen:
            text = f"{len(unseen)} messages were not stored and their futures were not awaited;"
            text += f" the first: {unseen[0].error}"
            raise BatchError(text, errors=unseen) from unseen[0].error
