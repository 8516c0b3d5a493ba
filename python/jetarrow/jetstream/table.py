"""Publishing of tables: each row is a message, encoded natively."""

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
# Most bytes of the headers that are added to a message: an id, expectations, a time to live.
_OTHER_HEADERS = 512


def _size(headers: Headers) -> int:
    """Upper limit of the bytes of headers, including added ones."""
    lists = ((name, [values] if isinstance(values, str) else values) for name, values in headers.items())
    return _OTHER_HEADERS + sum(len(f"{name}: {value}\r\n".encode()) for name, values in lists for value in values)


class PublishTable(PublishVerbs):
    """The verb `publish_table` of a context."""

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
        """Publishes a table: each row as a message with a JSON object of its columns, or many rows in Arrow messages.

        In JSON, integers and decimals keep all their digits, floats are the shortest text that parses to the same
        value, dates, times and timestamps are ISO 8601 (`Z` if the type has a zone), binary is base64. `js.read(...,
        schema=table.schema)` returns the table; docs/tables.md lists the types without a JSON representation.

        Args:
            table: Arrow data of any library. An Arrow stream is read block by block, and encoded in blocks of 8,192
                rows, so memory use is bounded.
            subject: One subject, or a template of columns: `"orders.{region}.{id}"` (double a literal brace). None: the
                column `subject`. A value that is not a valid token (null, empty, with a dot, wildcard or white space)
                is an error of its row, which names the column.
            format: Encoding of payloads: "json", one message per row; or "arrow", rows of equal subject as one Arrow
                IPC stream, which is many times faster and supports every type. `js.read(format="arrow")` returns the
                rows.
            columns: The columns of the payload; default all.
            msg_id: The column of the ids (null: no id), or "content": ids derived from subject and payload, so that a
                table that is published again is stored once (within the stream's duplicate window). Format "arrow"
                supports only "content".
            headers: One mapping for all rows.
            nulls: Whether to write null fields in JSON. By default they are omitted.
            rows_per_message: Most rows of an Arrow message, which is limited by the server's `max_payload` too. The
                rows of a subject are collected from 16 times as many rows of the table, which are buffered in memory.
            compression: Compression of Arrow messages: "zstd" (default), "lz4" or None.
            msg_ttl: As `publish_batch`.
            expected_stream: As `publish_batch`.
            mode: As `publish_batch`: "window", "fast", "atomic" or "auto".
            max_inflight: As `publish_batch`.
            max_bytes: As `publish_batch`.
            timeout: As `publish_batch`.
            resend: As `publish_batch`.
            progress: As `publish_batch`.

        Returns:
            The result of each row. Rows without a JSON representation (NaN, an infinity) or without a subject are in
            its `errors`; the others are published. With format "arrow" the result of each message. A row that cannot
            be in a message, because it has no subject or is too large, counts as a message; its error names the row
            of the table.

        Raises:
            TypeError: It is not a table, or the type of a column has no JSON representation; nothing was sent.
            ValueError: A column is missing, or the template is invalid; nothing was sent.
            BadSubjectError: The subject is invalid for all values of the columns; nothing was sent.
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
