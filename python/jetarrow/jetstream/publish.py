"""Publishing to streams."""

from __future__ import annotations

import asyncio
import threading
from typing import Unpack

from jetarrow.core.session import Headers
from jetarrow.core.suggestions import suggests_keywords
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import APIError, MaxAckPendingError
from jetarrow.jetstream.manage.counters import CounterVerbs, value_of
from jetarrow.jetstream.models.constants import Header
from jetarrow.jetstream.publish_batch import PublishBatch
from jetarrow.jetstream.publish_headers import (
    NO_EXPECTATIONS,
    PublishExtras,
    TimeToLive,
    publish_headers,
)
from jetarrow.jetstream.publish_spec import DEFAULT_MAX_BYTES
from jetarrow.jetstream.publisher import BURST_PENDING, MIN_PENDING, LoopPublisher, Publisher
from jetarrow.jetstream.server_features import require_version


def rejected(error: APIError, subject: str) -> APIError:
    """The error of a message that a stream rejected, with the names of stream and subject."""
    where = "" if error.stream is None else f" in stream {error.stream!r}"
    return error.about(f"could not store the message to {subject!r}{where}", subject=subject)


class PublishVerbs(PublishBatch, CounterVerbs):
    """The publish verbs of a context."""

    _api: JetStreamApi
    _max_pending: int | None
    _backpressure: bool
    _ack_timeout: float
    _publisher: LoopPublisher | None
    _making_publisher: threading.Lock

    async def publish(
        self,
        subject: str,
        payload: bytes | str = b"",
        timeout: float | None = None,
        stream: str | None = None,
        headers: Headers | None = None,
        msg_ttl: TimeToLive | None = None,
        *,
        msg_id: str | None = None,
        expected_stream: str | None = None,
        expected_last_seq: int | None = None,
        expected_last_subject_seq: int | None = None,
        expected_last_msg_id: str | None = None,
        **extras: Unpack[PublishExtras],
    ) -> models.PubAck:
        """Publishes one message and waits until a stream has acknowledged it.

        Args:
            subject: The subject; a stream must store it.
            payload: Bytes-like, or a str, which is encoded as UTF-8.
            timeout: Seconds. Default: the timeout of the context.
            stream: The stream that must store it.
            expected_stream: Another name for `stream`.
            headers: Name to value, or to a list of values. The mapping is not changed.
            msg_ttl: Seconds after which the server deletes the message, or "never", which overrides the stream's
                `max_age`. The stream must have `allow_msg_ttl`.
            msg_id: The stream stores one message per id within its duplicate window.
            expected_last_seq: The stream's last sequence must be this.
            expected_last_subject_seq: The last sequence of the subject must be this; 0 is none.
            expected_last_msg_id: The last message's id must be this.
            **extras: `expected_last_subject_seq_subject`, `rollup`, and `schedule` with `schedule_target`,
                `schedule_source`, `schedule_ttl`, `schedule_time_zone` and `schedule_rollup`; see `PublishExtras`.

        Raises:
            NoStreamResponseError: No stream stores the subject, also 250 ms later; or the stream that stores it elected
                no leader within `timeout`.
            APIError: The stream rejects the message; carries the server's codes.
            TimeoutError: No ack within `timeout`; the message may or may not be stored.
            UnsupportedError: `msg_ttl` on a server older than 2.11; nothing was sent.
            BadSubjectError: The subject is invalid; nothing was sent.
            BadHeaderError: A header is invalid; nothing was sent.
            MaxPayloadError: The message with its headers exceeds the server's `max_payload`; nothing was sent.
        """
        stream = stream or expected_stream
        expected = (stream, expected_last_seq, expected_last_subject_seq, expected_last_msg_id, msg_ttl)
        if extras or expected != NO_EXPECTATIONS:
            headers = publish_headers(self._api, headers, *expected, extras)
        session, wait = self._api.session, timeout or self._api.timeout
        if session.is_blocking:
            if msg_id is not None:
                headers = {**(headers or {}), models.Header.MSG_ID.value: msg_id}
            call = session.native.publish(subject, payload, prefix=self._api.prefix, timeout=wait, headers=headers)
            try:
                return await session.run(call)
            except APIError as error:
                raise rejected(error, subject) from None
        publisher = self._publisher
        if publisher is None or not publisher.is_usable_here():
            publisher = self._new_publisher()
        while (future := publisher.publish(publisher.loop, subject, payload, headers, msg_id, wait)) is None:
            await publisher.room(wait)
        publisher.linger()
        try:
            return await future
        except APIError as error:
            raise rejected(error, subject) from None

    def _new_publisher(self) -> LoopPublisher:
        """Creates the publisher that `publish` and `publish_async` share on the running event loop."""
        # Threads may publish their first messages at once; `publish_async_completed` waits for one publisher.
        with self._making_publisher:
            publisher = self._publisher
            if publisher is None or not publisher.is_usable_here():
                self._publisher = publisher = LoopPublisher(
                    self._api.session,
                    prefix=self._api.prefix,
                    max_inflight=self._max_pending,
                    max_bytes=None,
                    ack_timeout=self._ack_timeout,
                    spare=BURST_PENDING,
                )
            return publisher

    async def publish_async(
        self,
        subject: str,
        payload: bytes | str = b"",
        wait_stall: float | None = None,
        stream: str | None = None,
        headers: Headers | None = None,
        msg_ttl: TimeToLive | None = None,
        *,
        msg_id: str | None = None,
        expected_stream: str | None = None,
        expected_last_seq: int | None = None,
        expected_last_subject_seq: int | None = None,
        expected_last_msg_id: str | None = None,
        **extras: Unpack[PublishExtras],
    ) -> asyncio.Future[models.PubAck]:
        """Publishes one message without waiting for its ack.

        Args:
            subject: The subject; a stream must store it.
            payload: Bytes-like, or a str, which is encoded as UTF-8.
            stream: The stream that must store it.
            headers: Name to value, or to a list of values. The mapping is not changed.
            msg_ttl: Seconds after which the server deletes the message, or "never", which overrides the stream's
                `max_age`. The stream must have `allow_msg_ttl`.
            msg_id: The stream stores one message per id within its duplicate window.
            expected_stream: Another name for `stream`.
            expected_last_seq: The stream's last sequence must be this.
            expected_last_subject_seq: The last sequence of the subject must be this; 0 is none.
            expected_last_msg_id: The last message's id must be this.
            **extras: The rare options of `PublishExtras`, as for `publish`.
            wait_stall: Seconds to wait for room in the window while it has `publish_async_max_pending` unacknowledged
                messages; None waits without a limit.

        Returns:
            A future of the `PubAck` or of a typed error. It is done at the latest after the context's `ack_timeout`,
            default 30 seconds.

        Raises:
            TooManyStalledMsgsError: The window stayed full for `wait_stall` seconds.
            MaxAckPendingError: The window is full, and the context has `backpressure_on_inflight=False`.
            UnsupportedError: `msg_ttl` on a server older than 2.11; nothing was sent.
            BadSubjectError: The subject is invalid; nothing was sent.
            BadHeaderError: A header is invalid; nothing was sent.
            MaxPayloadError: The message with its headers exceeds the server's `max_payload`; nothing was sent.
        """
        stream = stream or expected_stream
        expected = (stream, expected_last_seq, expected_last_subject_seq, expected_last_msg_id, msg_ttl)
        if extras or expected != NO_EXPECTATIONS:
            headers = publish_headers(self._api, headers, *expected, extras)
        publisher = self._publisher
        if publisher is None or not publisher.is_usable_here():
            publisher = self._new_publisher()
        while (future := publisher.publish(publisher.loop, subject, payload, headers, msg_id, None)) is None:
            if not self._backpressure:
                raise MaxAckPendingError
            await publisher.room(wait_stall)
        return future

    def publish_async_pending(self) -> int:
        """The number of unacknowledged messages of `publish` and `publish_async`."""
        return self._publisher.native.pending if self._publisher is not None else 0

    async def publish_async_completed(self) -> None:
        """Waits until every message of `publish_async` is acknowledged or has failed."""
        if self._publisher is not None:
            await self._publisher.wait_for_acks()

    @suggests_keywords
    def publisher(
        self,
        subject: str | None = None,
        *,
        max_inflight: int | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        backpressure: bool = True,
        ack_timeout: float = 30.0,
        durable: bool = False,
    ) -> Publisher:
        """A publisher with its own window, for messages that are published one by one.

        Args:
            subject: Default subject of its messages.
            max_inflight: Most unacknowledged messages. None sizes the window by the path to the server: it grows with
                the delivery rate and limits queueing to about one round trip; at least 512 messages may be pending.
            max_bytes: Most bytes of unacknowledged messages, including subjects and headers. A larger message is sent
                alone.
            backpressure: When the window is full, `publish` waits; False raises `MaxAckPendingError` at once.
            ack_timeout: Seconds after which a message without an ack fails.
            durable: Group commit, for servers that sync each write (`sync_interval: always`): 16 or more messages that
                wait for one stream are stored as an atomic batch (ADR-50), at most 1,000 at a time, so that they share
                the server's sync; fewer are published one by one. A message that the stream rejects leaves its batch.
                If an answer is lost, the stream is asked, by ids or by the batch, before anything is sent again; if
                that cannot be known, the message fails with `PublishUnconfirmedError`. Messages with expectations,
                counters, rollups or schedules are published by themselves, in order. Streams need `allow_atomic`
                (server 2.12); else each message fails with `UnsupportedError`.
        """

        def make() -> LoopPublisher:
            return LoopPublisher(
                self._api.session,
                prefix=self._api.prefix,
                max_inflight=max_inflight,
                max_bytes=max_bytes,
                ack_timeout=ack_timeout,
                spare=MIN_PENDING if backpressure else BURST_PENDING,
                durable=durable,
            )

        return Publisher(self._api, make, subject, backpressure=backpressure)

    async def increment(
        self,
        subject: str,
        by: int = 1,
        *,
        timeout: float | None = None,
        headers: Headers | None = None,
        msg_id: str | None = None,
    ) -> int:
        """Adds to a counter: a subject of a stream with `allow_msg_counter`. Server 2.12 or later.

        Args:
            subject: The counter.
            by: The increment; negative to decrement.
            timeout: Seconds. Default: the timeout of the context.
            headers: Name to value, or to a list of values. The mapping is not changed.
            msg_id: The stream counts one message per id within its duplicate window.

        Returns:
            The counter's value after the increment, of any size. If `msg_id` was counted before: the current value.

        Raises:
            BadRequestError: The stream is no counter.
            NoStreamResponseError: No stream stores the subject.
            UnsupportedError: The server is older than 2.12.
            TimeoutError: No ack within `timeout`; the increment may or may not be counted.
        """
        require_version(self._api, "increment", (2, 12))
        counted = {**(headers or {}), Header.INCR.value: f"{by:+d}"}
        ack = await self.publish(subject, b"", timeout, headers=counted, msg_id=msg_id)
        # The ack of a duplicate has no value.
        return await self.counter(ack.stream, subject) if ack.duplicate else value_of(ack, subject)
