"""The JetStream context: publish, fetch, read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

# What is imported as itself (`X as X`), nats-py has here, too.
from jetarrow.aio.msg import Msg as Msg
from jetarrow.aio.subscription import Subscription as Subscription
from jetarrow.js import api
from jetarrow.js._subscribing import Callback as Callback
from jetarrow.js._subscribing import Subscribing
from jetarrow.js.api import DEFAULT_JS_SUB_PENDING_BYTES_LIMIT as DEFAULT_JS_SUB_PENDING_BYTES_LIMIT
from jetarrow.js.api import DEFAULT_JS_SUB_PENDING_MSGS_LIMIT as DEFAULT_JS_SUB_PENDING_MSGS_LIMIT
from jetarrow.js.errors import FetchTimeoutError as FetchTimeoutError
from jetarrow.js.errors import MaxAckPendingError
from jetarrow.js.errors import NotFoundError as NotFoundError
from jetarrow.js.manager import JetStreamManager as JetStreamManager
from jetarrow.js.ordered import AT_ONCE, COLUMNS, OrderedConsumer
from jetarrow.js.push import PushSubscription
from jetarrow.js.subscription import PullSubscription
from jetarrow.publish import Progress, PublishResult, progress_bar
from jetarrow.publisher import Acks, Publisher, acks_of
from jetarrow.read import DEFAULT_FETCH_BYTES, Reader

if TYPE_CHECKING:
    from jetarrow.aio.client import Client

Headers = Mapping[str, str | list[str]]


class ArrowArray(Protocol):
    """What has one Arrow array or batch: pyarrow, arro3, nanoarrow, a `MessageBatch`."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class ArrowStream(Protocol):
    """What has Arrow data in pieces: chunked arrays, tables, readers; polars, duckdb, pandas."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowSchema(Protocol):
    """What has an Arrow schema, or a struct type."""

    def __arrow_c_schema__(self) -> object: ...


ArrowProducer = ArrowArray | ArrowStream


def _ttl(value: float | timedelta) -> str:
    """A time to live as the server reads it: whole seconds, at least one (ADR-43)."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not seconds >= 1 or seconds == float("inf"):
        raise ValueError(f"msg_ttl must be at least 1 second, not {value}")
    return str(int(seconds))


def _expect(
    headers: Headers | None,
    stream: str | None,
    last_seq: int | None,
    last_subject_seq: int | None,
    last_msg_id: str | None,
    ttl: float | timedelta | None,
) -> Headers | None:
    """The headers, and those that say what is expected, in a mapping of its own."""
    expected = {
        api.Header.EXPECTED_STREAM.value: stream,
        api.Header.EXPECTED_LAST_SEQUENCE.value: last_seq,
        api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: last_subject_seq,
        api.Header.EXPECTED_LAST_MSG_ID.value: last_msg_id,
        api.Header.MSG_TTL.value: None if ttl is None else _ttl(ttl),
    }
    return {**(headers or {}), **{name: str(value) for name, value in expected.items() if value is not None}}


# What a message nearly always expects.
_NOTHING = (None, None, None, None, None)


class JetStreamContext(Subscribing):
    """JetStream on a connection. Made by `nc.jetstream()`."""

    PullSubscription = PullSubscription
    PushSubscription = PushSubscription

    def __init__(
        self,
        conn: Client,
        prefix: str = api.DEFAULT_PREFIX,
        domain: str | None = None,
        timeout: float = 5.0,
        publish_async_max_pending: int | None = None,
        *,
        max_ack_inflight: int | None = None,
        backpressure_on_inflight: bool = True,
        ack_timeout: float = 30.0,
        api_prefix: str | None = None,
    ) -> None:
        if api_prefix is not None:
            if prefix != api.DEFAULT_PREFIX:
                raise TypeError("prefix and api_prefix are one: give one of them")
            prefix = api_prefix
        if publish_async_max_pending is not None and max_ack_inflight is not None:
            raise TypeError("publish_async_max_pending and max_ack_inflight are one number: give one of them")
        self._max_pending = publish_async_max_pending or max_ack_inflight or 5000
        self._backpressure = backpressure_on_inflight
        self._ack_timeout = ack_timeout
        self._acks: Acks | None = None
        if domain is not None:
            if prefix != api.DEFAULT_PREFIX:
                raise TypeError("give prefix or domain, not both")
            prefix = f"$JS.{domain}.API"
        super().__init__(conn, prefix, timeout)

    async def publish(
        self,
        subject: str,
        payload: bytes | str = b"",
        timeout: float | None = None,
        stream: str | None = None,
        headers: Headers | None = None,
        msg_ttl: float | timedelta | None = None,
        *,
        msg_id: str | None = None,
        expected_stream: str | None = None,
        expected_last_seq: int | None = None,
        expected_last_subject_seq: int | None = None,
        expected_last_msg_id: str | None = None,
    ) -> api.PubAck:
        """Publishes one message and waits until a stream has stored it.

        Parameters:
            subject: what to publish to; a stream must take it.
            payload: bytes-like, or str, which is sent as UTF-8.
            timeout: seconds, default that of the context.
            stream (or expected_stream): the stream that must take it.
            headers: name to value, or to a list of values. The mapping is not changed.
            msg_ttl: seconds until the message goes; the stream must have `allow_msg_ttl`.
            msg_id: the stream stores one message per id within its duplicate window.
            expected_last_seq: the stream's last sequence must be this.
            expected_last_subject_seq: the last sequence of the subject must be this; 0 is none.
            expected_last_msg_id: the last message's id must be this.

        Raises:
            NoStreamResponseError: no stream takes the subject.
            APIError: the stream refuses the message; carries the server's codes.
            TimeoutError: no answer in time: it may or may not be stored.
            BadSubjectError, BadHeaderError, MaxPayloadError: before anything is sent.
        """
        stream = stream or expected_stream
        expected = (stream, expected_last_seq, expected_last_subject_seq, expected_last_msg_id, msg_ttl)
        if expected != _NOTHING:
            headers = _expect(headers, *expected)
        if self._nc._blocks:
            if msg_id is not None:
                headers = {**(headers or {}), api.Header.MSG_ID.value: msg_id}
            call = self._nc._native.publish(subject, payload, timeout=timeout or self._timeout, headers=headers)
            return await self._nc._run(call)
        acks = self._acks
        if acks is None or not acks.here():
            acks = self._new_acks()
        wait = timeout or self._timeout
        while (future := acks.publish(acks.loop, subject, payload, headers, msg_id, wait)) is None:
            await acks.room(wait)
        return await future

    def _new_acks(self) -> Acks:
        """The publisher behind `publish` and `publish_async`: one for the loop that runs, with one window."""
        self._acks = acks = acks_of(
            self._nc, max_inflight=self._max_pending, max_bytes=None, ack_timeout=self._ack_timeout
        )
        return acks

    async def publish_async(
        self,
        subject: str,
        payload: bytes | str = b"",
        wait_stall: float | None = None,
        stream: str | None = None,
        headers: Headers | None = None,
        msg_ttl: float | timedelta | None = None,
        *,
        msg_id: str | None = None,
        expected_stream: str | None = None,
        expected_last_seq: int | None = None,
        expected_last_subject_seq: int | None = None,
        expected_last_msg_id: str | None = None,
    ) -> asyncio.Future[api.PubAck]:
        """Publishes one message without waiting for its ack.

        Parameters:
            subject, payload, stream, headers, msg_ttl, msg_id and what is expected: as `publish`.
            wait_stall: seconds to wait for room when as many messages are unanswered as the context allows
                (`publish_async_max_pending`, default 5000); None waits as long as it takes.

        Returns:
            A future that resolves to the `PubAck` or raises a typed error: at the latest after the context's
            `ack_timeout`, default 30 seconds.

        Raises:
            TooManyStalledMsgsError: no room within `wait_stall`.
            MaxAckPendingError: no room, and the context has `backpressure_on_inflight=False`.
            BadSubjectError, BadHeaderError, MaxPayloadError: before anything is sent.
        """
        stream = stream or expected_stream
        expected = (stream, expected_last_seq, expected_last_subject_seq, expected_last_msg_id, msg_ttl)
        if expected != _NOTHING:
            headers = _expect(headers, *expected)
        acks = self._acks
        if acks is None or not acks.here():
            acks = self._new_acks()
        while (future := acks.publish(acks.loop, subject, payload, headers, msg_id, None)) is None:
            if not self._backpressure:
                raise MaxAckPendingError
            await acks.room(wait_stall)
        return future

    def publish_async_pending(self) -> int:
        """How many messages of `publish` and `publish_async` have no answer yet."""
        return self._acks.native.pending if self._acks is not None else 0

    async def publish_async_completed(self) -> None:
        """Waits until every message of `publish_async` has its answer."""
        if self._acks is not None:
            await self._acks.drained()

    def publisher(
        self,
        subject: str | None = None,
        *,
        max_inflight: int = 5000,
        max_bytes: int = 64 * 1024 * 1024,
        backpressure: bool = True,
        ack_timeout: float = 30.0,
    ) -> Publisher:
        """A publisher with a window of its own, for messages that come one by one.

        Parameters:
            subject: default subject of its messages.
            max_inflight: most messages that are unanswered at once.
            max_bytes: most bytes of them.
            backpressure: at the limit `publish` waits; False raises `MaxAckPendingError` at once.
            ack_timeout: seconds until a message without an answer fails.
        """

        def make() -> Acks:
            return acks_of(self._nc, max_inflight=max_inflight, max_bytes=max_bytes, ack_timeout=ack_timeout)

        return Publisher(make, subject, backpressure=backpressure)

    async def publish_batch(
        self,
        subject: str | Sequence[str] | ArrowProducer | None = None,
        payloads: Sequence[bytes | bytearray | memoryview | str] | ArrowProducer | None = None,
        *,
        headers: Headers | Sequence[Headers | None] | None = None,
        msg_ids: Sequence[str | None] | ArrowProducer | None = None,
        msg_ttl: float | timedelta | None = None,
        expected_stream: str | None = None,
        mode: str = "window",
        max_inflight: int = 5000,
        timeout: float = 30.0,
        resend: bool | None = None,
        progress: Progress | bool | None = None,
    ) -> PublishResult:
        """Publishes many messages, many in flight at once, and tells what became of each.

        Parameters:
            subject: one for all rows, or one per row (a sequence, or an Arrow string column). None where the payloads
                are a table with a column `subject`; given both, this wins.
            payloads: a sequence of bytes-like or str; or Arrow data of any library: a binary or string column, or a
                table with a column `data` and optionally `subject`, `headers` (map<string, string or list<string>>)
                and `msg_id`. A stream is read block by block, so that memory stays bounded. A null payload is that
                row's error, and so is everything that is wrong with a row of a stream.
            headers: one mapping for all rows, or (with a sequence of payloads) one or None per row.
            msg_ids: one (or None) per row, a sequence or an Arrow string column; the stream stores one message per id
                within its duplicate window.
            msg_ttl: seconds until the messages go; the stream must have `allow_msg_ttl`.
            expected_stream: the stream that must take every row.
            mode: "window", an ack for every row; "fast", the server's fast ingest (ADR-50, server 2.14, a stream with
                `allow_batched`): few acks, and no sequence but the last row's; "atomic", all rows or none (ADR-50,
                server 2.12, a stream with `allow_atomic`, at most 1000 rows); "auto", fast where server and stream
                allow it and all rows go to one stream, else window.
            max_inflight: most rows that are unanswered at once.
            timeout: seconds a row may stay unanswered; when nothing at all was answered for so long, every row left
                ends in an error and the call is over.
            resend: after a lost connection: None sends the rows in flight again that have a message id and ends the
                others in `PublishUnconfirmedError`; True and False force it for all.
            progress: called with (rows done, rows in all) at most ten times a second; True shows a bar on stderr
                where that is a terminal.

        Returns:
            The result of each row; failed rows are in its `errors`, so call `raise_for_errors()` where none may fail.

        Raises:
            TypeError, ValueError, BadSubjectError, BadHeaderError, MaxPayloadError: before anything is sent.
            BatchError: an atomic batch, or a fast one at its start, was refused: nothing is stored. Carries the
                server's codes, and the row where the server names it.
            UnsupportedError: server or stream lacks the mode.
        """
        report = progress_bar("publishing") if progress is True else progress or None
        call = self._nc._native.publish_batch(
            subject,
            payloads,
            prefix=self._prefix,
            headers=headers,
            msg_ids=msg_ids,
            msg_ttl=None if msg_ttl is None else _ttl(msg_ttl),
            expected_stream=expected_stream,
            mode=mode,
            max_inflight=max_inflight,
            timeout=timeout,
            resend=resend,
            progress=report,
        )
        result = PublishResult(await self._nc._run(call))
        if report is not None:
            report(result.count, result.count)
        return result

    def read(
        self,
        stream: str,
        *,
        start_seq: int | None = None,
        end_seq: int | None = None,
        start_time: datetime | str | None = None,
        end_time: datetime | str | None = None,
        subjects: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        schema: ArrowSchema | None = None,
        mode: str = "PERMISSIVE",
        batch_rows: int = 65536,
        batch_bytes: int = 16 * 1024 * 1024,
        fetch_bytes: int = DEFAULT_FETCH_BYTES,
        direct: bool | None = None,
        follow: bool = False,
        timestamp_unit: str = "ns",
        on_data_loss: str = "error",
        progress: Progress | bool | None = None,
    ) -> Reader:
        """Reads `[start, end)` of a stream in order, as Arrow batches. No durable consumer is made.

        Messages that were deleted inside the range are skipped; what retention or a purge took is an error.

        Parameters:
            stream: the stream.
            start_seq: first sequence; None is the first there is.
            end_seq: one past the last sequence; None, or more than there is, is one past the last at opening.
            start_time, end_time: instead of a sequence: the first message at or after this time. A datetime (without
                a zone it is local time) or RFC 3339 text, to the nanosecond.
            subjects: filters, one or several that do not overlap; None is all.
            columns: what is built, in this order; default stream, seq, subject, timestamp, headers, data. There are
                also delivered, consumer_seq, pending, reply.
            schema: decodes JSON payloads natively: `data` gives way to `value: struct<...>` of these fields (anything
                with `__arrow_c_schema__`: a pyarrow schema, a polars or arro3 one). Missing fields and JSON nulls are
                null, extra fields are ignored; a field that does not fit makes the whole row malformed.
            mode: what happens to malformed rows. "PERMISSIVE": `value` is null, and the text is in a string column
                `_corrupt_record` after it (base64 where it is no UTF-8); "DROPMALFORMED": they are left out;
                "FAILFAST": `DecodeError` with sequence and column.
            batch_rows: most rows of a batch.
            batch_bytes: a batch is cut when its messages have so many bytes.
            fetch_bytes: most bytes on their way at a time, at most 32 MiB; two of the largest messages always fit.
            direct: read by direct gets instead of a consumer, which needs `allow_direct`; one filter at most. None: for
                work-queue and interest streams, where a consumer would take the messages away.
            follow: goes on for ever with what comes; a batch is then handed out as soon as no more is there.
            timestamp_unit: "ns", or "us" for readers that know no nanoseconds.
            on_data_loss: "error" raises `DataLossError`, "warn" warns and reads what is left. With `subjects` it is
                always a warning: nobody can know whether what is gone would have matched.
            progress: called with (sequences done, sequences in all or None) at most ten times a second; True shows a
                bar on stderr where that is a terminal.

        Returns:
            A reader: iterate it (`async for`), or `await reader.read_all()`.
        """
        return Reader(
            self._nc,
            self._prefix,
            stream,
            start_seq=start_seq,
            end_seq=end_seq,
            start_time=start_time,
            end_time=end_time,
            subjects=subjects,
            follow=follow,
            columns=columns,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            fetch_bytes=fetch_bytes,
            direct=direct,
            timestamp_unit=timestamp_unit,
            on_data_loss=on_data_loss,
            schema=schema,
            mode=mode,
            progress=progress,
        )

    def ordered_consumer(
        self,
        stream: str,
        subjects: str | Sequence[str] | None = None,
        *,
        start_seq: int | None = None,
        start_time: datetime | str | None = None,
    ) -> OrderedConsumer:
        """A stream's messages in order, one by one and without end: `async for msg in js.ordered_consumer("S")`.

        Parameters:
            stream: the stream.
            subjects: filters, one or several that do not overlap; None is all.
            start_seq: first sequence; None is the first there is.
            start_time: instead of a sequence: the first message at or after this time.

        Raises while it is iterated:
            DataLossError: retention or a purge took messages before they were read.
            StreamRecreatedError: the stream was deleted and created again.
            NotFoundError: there is no such stream.
        """

        def read() -> Reader:
            return self.read(
                stream,
                subjects=subjects,
                start_seq=start_seq,
                start_time=start_time,
                columns=COLUMNS,
                batch_rows=AT_ONCE,
                follow=True,
            )

        return OrderedConsumer(read)
