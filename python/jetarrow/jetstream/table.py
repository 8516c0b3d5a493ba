"""Tables in: every row a message, encoded natively."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from jetarrow._jetarrow import TableMessages
from jetarrow.core.session import Headers
from jetarrow.jetstream.arrow import ArrowProducer
from jetarrow.jetstream.outcome import PublishResult
from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.publish import Publish


class PublishTable(Publish):
    """Publishing whole tables."""

    async def publish_table(
        self,
        table: ArrowProducer,
        subject: str | None = None,
        *,
        format: Literal["json"] = "json",
        columns: Sequence[str] | None = None,
        msg_id: str | None = None,
        headers: Headers | None = None,
        nulls: bool = False,
        msg_ttl: float | timedelta | None = None,
        expected_stream: str | None = None,
        mode: str = "window",
        max_inflight: int = 5000,
        max_bytes: int = 64 * 1024 * 1024,
        timeout: float = 30.0,
        resend: bool | None = None,
        progress: Progress | bool | None = None,
    ) -> PublishResult:
        """Publishes every row of a table as a message: a JSON object of its columns.

        Integers and decimals keep all their digits, floats are the shortest text that reads back as the same, dates,
        times and timestamps are ISO 8601 (`Z` where the type has a zone), binary is base64. `js.read(...,
        schema=table.schema)` gives the table back; docs/tables.md lists the types that JSON cannot hold.

        Args:
            table: Arrow data of any library. A stream is read block by block, and encoded in pieces of 8,192 rows, so
                that memory stays bounded.
            subject: One subject, or a template of columns: `"orders.{region}.{id}"` (a brace itself is doubled). None:
                the column `subject`. A value that cannot be a token (null, empty, with a dot, wildcard or white space)
                is that row's error, and names the column.
            format: What a payload is. So far "json", one message a row.
            columns: The columns of the payload; default all.
            msg_id: The column that has the ids (null: none), or "content": ids made of subject and payload, the same
                each time, so that a table that is published again is stored once (within the stream's duplicate
                window).
            headers: One mapping for all rows.
            nulls: Writes null fields as null. By default they are left out.
            msg_ttl: As `publish_batch`.
            expected_stream: As `publish_batch`.
            mode: As `publish_batch`: "window", "fast", "atomic" or "auto".
            max_inflight: Most rows that are unanswered at once.
            max_bytes: Most bytes of them; default 64 MiB.
            timeout: Seconds a row may stay unanswered.
            resend: As `publish_batch`.
            progress: As `publish_batch`.

        Returns:
            The result of each row. A row that has no JSON (NaN, an infinity) or no subject is in its `errors`; the
            others are published.

        Raises:
            TypeError: It is no table, or a column has a type that has no JSON; nothing was sent.
            ValueError: A column is missing, or the template is wrong; nothing was sent.
            BadSubjectError: The subject is not valid whatever the columns hold; nothing was sent.
            BatchError: As `publish_batch`.
            UnsupportedError: Server or stream lacks the mode.
        """
        if format != "json":
            raise ValueError(f"format must be 'json', not {format!r}")
        rows = TableMessages(
            table, columns=None if columns is None else list(columns), subject=subject, msg_id=msg_id, nulls=nulls
        )
        return await self.publish_batch(
            payloads=rows,
            headers=headers,
            msg_ttl=msg_ttl,
            expected_stream=expected_stream,
            mode=mode,
            max_inflight=max_inflight,
            max_bytes=max_bytes,
            timeout=timeout,
            resend=resend,
            progress=progress,
        )
