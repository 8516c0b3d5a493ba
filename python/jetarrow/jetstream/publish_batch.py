"""Publishing many messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

from jetarrow.core.session import Headers
from jetarrow.core.suggestions import suggests_keywords_async
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import ArrowProducer
from jetarrow.jetstream.literals import ExtraColumns, OnReject, PublishMode
from jetarrow.jetstream.progress import Progress, reporter
from jetarrow.jetstream.publish_headers import TimeToLive, batch_headers
from jetarrow.jetstream.publish_partial import ProgressOfRows
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.jetstream.publish_spec import DEFAULT_MAX_BYTES, PublishSpec

_V = TypeVar("_V")

# One value for all rows, or one value or None for each row.
PerRow: TypeAlias = _V | Sequence[_V | None] | ArrowProducer | None


class PublishBatch:
    """The verb `publish_batch` of a context."""

    _api: JetStreamApi

    @suggests_keywords_async
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
        chunk: int | None = None,
        on_reject: OnReject | None = None,
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
                server 2.12, a stream with `allow_atomic`, at most 1000 rows, or any number with `chunk`); "auto", fast
                if server and stream support it and all rows are for one stream, otherwise window.
            chunk: With mode "atomic": the rows of one atomic batch, 1 to 1,000. Any number of rows is sent as such
                chunks, several in flight, each stored whole or not at all, in row order; a chunk that has to be sent
                again may come after those that were in flight behind it. The rows of a chunk that is not stored are
                errors of the result. This is the fast way to rows that are on disk when they are acknowledged
                (`sync_interval: always`). Default: all rows are one batch.
            on_reject: With `chunk`, what a row does that the stream rejects: "chunk", its whole chunk is rejected, and
                the errors name the row; "split", the chunk is stored without it. Default: "chunk".
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
            KeyboardInterrupt: Ctrl-C in the sync face; its attribute `partial` is a `PartialPublish`. In the async face
                the `CancelledError` has it.
        """
        if msg_ids is not None and msg_id is not None:
            raise TypeError("msg_ids and msg_id are one thing: give one of them")
        spec = PublishSpec(
            mode,
            chunk,
            on_reject,
            expected_stream=expected_stream,
            max_inflight=max_inflight,
            max_bytes=max_bytes,
            timeout=timeout,
            resend=resend,
            extra=extra,
        )
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
        self,
        subject: object,
        payloads: object,
        spec: PublishSpec,
        progress: Progress | bool | None,
        *,
        first_row: int = 0,
        **rows: Any,
    ) -> PublishResult:
        """Publishes many messages; `rows` are the native `publish_batch`'s keywords that differ by row."""
        report = progress if isinstance(progress, ProgressOfRows) else ProgressOfRows(reporter(progress, "publishing"))
        session = self._api.session
        call = session.native.publish_batch(
            subject,
            payloads,
            prefix=self._api.prefix,
            progress=report.of_call(payloads),
            first_row=first_row,
            **rows,
            **spec.native_options(),
        )
        with report.added_to_interrupts():
            result = PublishResult(await session.run(call))
        report(result.count, result.count)
        return result
