"""Publishing to streams."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar, Unpack

from jetarrow.core.session import Headers
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import ArrowProducer
from jetarrow.jetstream.errors import MaxAckPendingError
from jetarrow.jetstream.literals import ExtraColumns, PublishMode
from jetarrow.jetstream.manage.counters import CounterVerbs, value_of
from jetarrow.jetstream.models.constants import Header
from jetarrow.jetstream.progress import Progress, reporter
from jetarrow.jetstream.publish_headers import (
    NO_EXPECTATIONS,
    PublishExtras,
    TimeToLive,
    batch_headers,
    publish_headers,
)
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.jetstream.publish_spec import DEFAULT_MAX_BYTES, PublishSpec
from jetarrow.jetstream.publisher import BURST_PENDING, MIN_PENDING, LoopPublisher, Publisher
from jetarrow.jetstream.server_features import require_version

_V = TypeVar("_V")
# One value for all rows, or one value or None for each row.
PerRow: TypeAlias = _V | Sequence[_V | None] | ArrowProducer | None


class PublishVerbs(CounterVerbs):
    """The publish verbs of a context."""

    _api: JetStreamApi
    _max_pending: int | None
    _backpressure: bool
    _ack_timeout: float
    _publisher: LoopPublisher | None

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
            return await session.run(call)
        publisher = self._publisher
        if publisher is None or not publisher.is_usable_here():
            publisher = self._new_publisher()
        while (future := publisher.publish(publisher.loop, subject, payload, headers, msg_id, wait)) is None:
            await publisher.room(wait)
        publisher.linger()
        return await future

    def _new_publisher(self) -> LoopPublisher:
        """Creates the publisher that `publish` and `publish_async` share on the running event loop."""
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
            subject: As `publish`.
            payload: As `publish`.
            stream: As `publish`.
            headers: As `publish`.
            msg_ttl: As `publish`.
            msg_id: As `publish`.
            expected_stream: As `publish`.
            expected_last_seq: As `publish`.
            expected_last_subject_seq: As `publish`.
            expected_last_msg_id: As `publish`.
            **extras: As `publish`.
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

    def publisher(
        self,
        subject: str | None = None,
        *,
        max_inflight: int | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        backpressure: bool = True,
        ack_timeout: float = 30.0,
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
        """

        def make() -> LoopPublisher:
            return LoopPublisher(
                self._api.session,
                prefix=self._api.prefix,
                max_inflight=max_inflight,
                max_bytes=max_bytes,
                ack_timeout=ack_timeout,
                spare=MIN_PENDING if backpressure else BURST_PENDING,
            )

        return Publisher(self._api, make, subject, backpressure=backpressure)

    async def publish_batch(
        self,
        subject: str | Sequence[str] | ArrowProducer | None = None,
        payloads: Sequence[bytes | bytearray | memoryview | str] | ArrowProducer | None = None,
        *,
        headers: Headers | Sequence[Headers | None] | None = None,
        msg_ids: Sequence[str | None] | ArrowProducer | None = None,
        msg_id: Sequence[str | None] | ArrowProducer | None = None,
        msg_ttl: PerRow[TimeToLive] = None,
        expected_stream: str | None = None,
        expected_last_seq: PerRow[int] = None,
        expected_last_subject_seq: PerRow[int] = None,
        expected_last_msg_id: PerRow[str] = None,
        mode: PublishMode = "window",
        max_inflight: int | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        timeout: float = 30.0,
        resend: bool | None = None,
        extra: ExtraColumns = "error",
        progress: Progress | bool | None = None,
    ) -> PublishResult:
        """Publishes many messages, many in flight at once, and returns the result of each.

        Args:
            subject: One for all rows, or one per row (a sequence, or an Arrow string column). None if the payloads are
                a table with a column `subject`, which a subject given here overrides.
            payloads: A sequence of bytes-like or str; or Arrow data of any library: a binary or string column, or a
                table with a column `data` and optionally `subject`, `headers` (map<string, string or list<string>>) and
                `msg_id`; other columns of a `js.read` are ignored. An Arrow stream is read block by block, so memory
                use is bounded. A null payload is an error of its row, as is every defect of a row of a stream.
            headers: One mapping for all rows, or one mapping or None per row. They are added to those of a table's
                column `headers`, and override them.
            msg_ids: One (or None) per row, a sequence or an Arrow string column; the stream stores one message per id
                within its duplicate window, which a purge does not empty.
            msg_id: Another name for `msg_ids`; a table's column may have either name.
            msg_ttl: Seconds after which the server deletes the messages, or "never"; the stream must have
                `allow_msg_ttl`. One for all rows, or a sequence or Arrow column with one or None per row, as for
                `expected_last_seq`, `expected_last_subject_seq` and `expected_last_msg_id`.
            expected_stream: The stream that must store every row.
            expected_last_seq: The stream's last sequence must be this when the row is stored. It can hold for few of
                the rows in flight.
            expected_last_subject_seq: The last sequence of the row's subject must be this; 0 is none.
            expected_last_msg_id: The last message's id must be this.
            mode: "window", an ack for every row; "fast", the server's fast ingest (ADR-50, server 2.14, a stream with
                `allow_batched`): few acks, and no sequence but the last row's; "atomic", all rows or none (ADR-50,
                server 2.12, a stream with `allow_atomic`, at most 1000 rows); "auto", fast if server and stream
                support it and all rows are for one stream, otherwise window.
            max_inflight: Most unacknowledged rows. None sizes the window by the path to the server: it grows with the
                delivery rate and limits queueing to about one round trip. In mode "fast", in which the server
                acknowledges one of some hundred rows, it is at least 5000.
            max_bytes: Most bytes of unacknowledged rows, including subjects and headers; default 64 MiB. A larger row
                is sent alone. The limit does not apply to an atomic batch, which is acknowledged as a whole.
            timeout: Seconds that a row may be unacknowledged. If nothing was acknowledged for this time, all remaining
                rows fail and the call returns.
            resend: After a reconnect: None resends the rows in flight that have a message id, within the stream's
                duplicate window, and fails the others with `PublishUnconfirmedError`; True resends all, False none.
            extra: Other columns of a table, which may be misspelt ones: "error" rejects them by name, "ignore" ignores
                them.
            progress: Called with (rows done, total rows) at most ten times a second; True shows a bar on stderr if that
                is a terminal.

        Returns:
            The result of each row. Failed rows are in its `errors`: call `raise_for_errors()` if none may fail.

        Raises:
            TypeError: An argument has a wrong type; nothing was sent.
            ValueError: An argument has an invalid value; nothing was sent.
            BadSubjectError: A subject is invalid; nothing was sent.
            BadHeaderError: A header is invalid; nothing was sent.
            MaxPayloadError: A message with its headers exceeds the server's `max_payload`; nothing was sent.
            BatchError: An atomic batch, or the start of a fast one, was rejected: nothing is stored. It has the
                server's codes, and the row if the server names it.
            UnsupportedError: Server or stream lacks the mode, or the server is older than 2.11 and `msg_ttl` is given.
        """
        if msg_ids is not None and msg_id is not None:
            raise TypeError("msg_ids and msg_id are one thing: give one of them")
        spec = PublishSpec(mode, expected_stream, max_inflight, max_bytes, timeout, resend, extra)
        headers, ttl = batch_headers(
            self._api,
            headers,
            payloads,
            last_seq=expected_last_seq,
            last_subject_seq=expected_last_subject_seq,
            last_msg_id=expected_last_msg_id,
            ttl=msg_ttl,
        )
        ids = msg_id if msg_ids is None else msg_ids
        return await self._publish_rows(subject, payloads, spec, progress, headers=headers, msg_ids=ids, msg_ttl=ttl)

    async def _publish_rows(
        self, subject: object, payloads: object, spec: PublishSpec, progress: Progress | bool | None, **rows: Any
    ) -> PublishResult:
        """Publishes many messages; `rows` are the native `publish_batch`'s keywords that differ by row."""
        report = reporter(progress, "publishing")
        session = self._api.session
        call = session.native.publish_batch(
            subject, payloads, prefix=self._api.prefix, progress=report, **rows, **spec.native_options()
        )
        result = PublishResult(await session.run(call))
        if report is not None:
            report(result.count, result.count)
        return result

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
