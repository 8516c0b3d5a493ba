"""Tables in: every row a message, encoded natively."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from jetarrow._jetarrow import TableMessages
from jetarrow.core.session import Headers
from jetarrow.jetstream.arrow import ArrowProducer
from jetarrow.jetstream.arrow_compat import without_nested_offsets
from jetarrow.jetstream.literals import ArrowCompression, PayloadFormat, PublishMode, check_literal
from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.publish import PublishVerbs
from jetarrow.jetstream.publish_headers import batch_headers
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.jetstream.publish_spec import DEFAULT_MAX_BYTES, PublishSpec

CONTENT_TYPE = "application/vnd.apache.arrow.stream"
# What a message may have in headers besides its own: an id, what it expects, a time to live.
_OTHER_HEADERS = 512


def _size(headers: Headers) -> int:
    """Most bytes that headers are, with what is added to them."""
    lists = ((name, [values] if isinstance(values, str) else values) for name, values in headers.items())
    return _OTHER_HEADERS + sum(len(f"{name}: {value}\r\n".encode()) for name, values in lists for value in values)


class PublishTable(PublishVerbs):
    """Publishing whole tables."""

    async def publish_table(
        self,
        table: ArrowProducer,
        subject: str | None = None,
        *,
        format: PayloadFormat = "json",
        columns: Sequence[str] | None = None,
        msg_id: str | None = None,
        headers: Headers | None = None,
        nulls: bool = False,
        rows_per_message: int = 10_000,
        compression: ArrowCompression | None = "zstd",
        msg_ttl: float | timedelta | None = None,
        expected_stream: str | None = None,
        mode: PublishMode = "window",
        max_inflight: int | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        timeout: float = 30.0,
        resend: bool | None = None,
        progress: Progress | bool | None = None,
    ) -> PublishResult:
        """Publishes a table: every row as a message, a JSON object of its columns, or many rows in Arrow messages.

        In JSON, integers and decimals keep all their digits, floats are the shortest text that reads back as the same,
        dates, times and timestamps are ISO 8601 (`Z` where the type has a zone), binary is base64. `js.read(...,
        schema=table.schema)` gives the table back; docs/tables.md lists the types that JSON cannot hold.

        Args:
            table: Arrow data of any library. A stream is read block by block, and encoded in pieces of 8,192 rows, so
                that memory stays bounded.
            subject: One subject, or a template of columns: `"orders.{region}.{id}"` (a brace itself is doubled). None:
                the column `subject`. A value that cannot be a token (null, empty, with a dot, wildcard or white space)
                is that row's error, and names the column.
            format: What a payload is: "json", one message a row; or "arrow", rows of equal subject as one Arrow IPC
                stream, many times faster, which holds every type. `js.read(format="arrow")` gives the rows back.
            columns: The columns of the payload; default all.
            msg_id: The column that has the ids (null: none), or "content": ids made of subject and payload, the same
                each time, so that a table that is published again is stored once (within the stream's duplicate
                window). With format "arrow" only that.
            headers: One mapping for all rows.
            nulls: In JSON, writes null fields as null. By default they are left out.
            rows_per_message: Most rows of an Arrow message. It is cut to what the server takes (`max_payload`); a
                subject's rows are looked for in 16 times as many rows of the table, which are in memory then.
            compression: Of Arrow messages: "zstd" (default), "lz4" or None.
            msg_ttl: As `publish_batch`.
            expected_stream: As `publish_batch`.
            mode: As `publish_batch`: "window", "fast", "atomic" or "auto".
            max_inflight: Most messages that are unanswered at once; None as for `publish_batch`.
            max_bytes: Most bytes of them; default 64 MiB.
            timeout: Seconds a row may stay unanswered.
            resend: As `publish_batch`.
            progress: As `publish_batch`.

        Returns:
            The result of each row. A row that has no JSON (NaN, an infinity) or no subject is in its `errors`; the
            others are published. With format "arrow" the result of each message, in which a row that is none, as it
            has no subject or is too large by itself, counts as one; its error names the row of the table.

        Raises:
            TypeError: It is no table, or a column has a type that has no JSON; nothing was sent.
            ValueError: A column is missing, or the template is wrong; nothing was sent.
            BadSubjectError: The subject is not valid whatever the columns hold; nothing was sent.
            BatchError: As `publish_batch`.
            UnsupportedError: Server or stream lacks the mode.
        """
        spec = PublishSpec(mode, expected_stream, max_inflight, max_bytes, timeout, resend)
        arrow = None
        if format == "arrow":
            headers = {**(headers or {}), "Content-Type": CONTENT_TYPE}
            arrow = (compression, rows_per_message, self._api.session.native.max_payload - _size(headers))
        else:
            check_literal("format", format, PayloadFormat)
        rows = TableMessages(
            without_nested_offsets(table),
            columns=None if columns is None else list(columns),
            subject=subject,
            msg_id=msg_id,
            nulls=nulls,
            arrow=arrow,
        )
        all_headers, ttl = batch_headers(
            self._api, headers, rows, last_seq=None, last_subject_seq=None, last_msg_id=None, ttl=msg_ttl
        )
        return await self._publish_rows(None, rows, spec, progress, headers=all_headers, msg_ids=None, msg_ttl=ttl)
