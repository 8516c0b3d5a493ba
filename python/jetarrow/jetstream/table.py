"""Publishing of tables: each row is a message, encoded natively."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from jetarrow._jetarrow import TableMessages
from jetarrow.core.docstrings import with_entries_of
from jetarrow.core.session import Headers
from jetarrow.core.suggestions import suggests_keywords_async
from jetarrow.jetstream.arrow import ArrowProducer
from jetarrow.jetstream.arrow_compat import without_nested_offsets
from jetarrow.jetstream.binary_schema import ProtobufSchema, binary_schema
from jetarrow.jetstream.kv.key_values import KeyValues
from jetarrow.jetstream.literals import (
    BINARY_FORMATS,
    ArrowCompression,
    OnReject,
    PayloadFormat,
    PublishMode,
    check_literal,
)
from jetarrow.jetstream.progress import Progress, reporter
from jetarrow.jetstream.publish import PublishVerbs
from jetarrow.jetstream.publish_headers import batch_headers
from jetarrow.jetstream.publish_partial import ProgressOfStep, set_partial
from jetarrow.jetstream.publish_result import PartialPublish, PublishResult
from jetarrow.jetstream.publish_spec import DEFAULT_MAX_BYTES, PublishSpec
from jetarrow.jetstream.registry import SchemaRegistry, frame_of, registry_of

if TYPE_CHECKING:
    import pyarrow as pa

    from jetarrow.jetstream.resume.publish import Resume

CONTENT_TYPE = "application/vnd.apache.arrow.stream"
# Most bytes of the headers that are added to a message: an id, expectations, a time to live.
_OTHER_HEADERS = 512


def _size(headers: Headers) -> int:
    """Upper limit of the bytes of headers, including added ones."""
    lists = ((name, [values] if isinstance(values, str) else values) for name, values in headers.items())
    return _OTHER_HEADERS + sum(len(f"{name}: {value}\r\n".encode()) for name, values in lists for value in values)


class PublishTable(PublishVerbs):
    """The verb `publish_table` of a context."""

    @suggests_keywords_async
    @with_entries_of(PublishVerbs.publish_batch)
    async def publish_table(
        self,
        table: ArrowProducer,
        subject: str | None = None,
        *,
        format: PayloadFormat = "json",
        schema: Mapping[str, Any] | str | PathLike[str] | ProtobufSchema | type | None = None,
        registry: SchemaRegistry | str | None = None,
        columns: Sequence[str] | None = None,
        msg_id: str | None = None,
        headers: Headers | None = None,
        nulls: bool = False,
        rows_per_message: int = 10_000,
        compression: ArrowCompression | None = "zstd",
        msg_ttl: float | timedelta | None = None,
        expected_stream: str | None = None,
        mode: PublishMode = "window",
        chunk: int | None = None,
        on_reject: OnReject | None = None,
        max_inflight: int | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        timeout: float = 30.0,
        resend: bool | None = None,
        resume: str | PathLike[str] | None = None,
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
                rows. "avro", "protobuf": one message per row, of `schema`.
            schema: With format "avro" the Avro schema of a record: its JSON text, the same as a dict, or a path; with
                "protobuf" a `jetarrow.ProtobufSchema` or a generated message class. Fields are found by name; one
                without a column has its default.
            registry: With these formats a schema registry, its URL or a `jetarrow.SchemaRegistry`: each payload begins
                with the id of its schema (Confluent's wire format). The schema is registered first, under the subject
                of the `SchemaRegistry`, by default the name of the record or message. Without `schema` it is the latest
                one of that subject.
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
            chunk: As `publish_batch`; with format "arrow" the messages of one atomic batch.
            on_reject: As `publish_batch`.
            max_inflight: As `publish_batch`.
            max_bytes: As `publish_batch`.
            timeout: As `publish_batch`.
            resend: As `publish_batch`.
            resume: Keep a position, so that the same call after an interruption at any moment stores each row once,
                however long the interruption was (needs pyarrow). A name is a key of the bucket `jetarrow_positions`; a
                path is a file. A row without an id of `msg_id` gets one of its number. Mode "window" only, and one
                stream, which must not have removed messages of an interrupted step; docs/tables.md has the rules.
            progress: As `publish_batch`.

        Returns:
            The result of each row. Rows without a JSON representation (NaN, an infinity) or without a subject are in
            its `errors`; the others are published. With format "arrow" the result of each message, and `errors` has
            each row of a message that failed, with its number in the table. A row that cannot be in a message, because
            it has no subject or is too large, counts as a message.

        Raises:
            TypeError: It is not a table, or the type of a column has no representation in the format; nothing was sent.
            ValueError: A column is missing, or the template is invalid; nothing was sent.
            BadSubjectError: The subject is invalid for all values of the columns; nothing was sent.
            BatchError: As `publish_batch`.
            SchemaRegistryError: The registry does not answer, or refuses the schema; nothing was sent.
            UnsupportedError: Server or stream lacks the mode, or `resume` is given without pyarrow.
            ResumeError: The load cannot continue at its position: other rows or options, a recreated or rolled back
                stream, removed messages, another run at the same time.
            KeyboardInterrupt: As `publish_batch`; with `resume` its `partial` has the position of the next run.
        """
        if resume is not None and mode != "window":
            raise ValueError(f"resume needs mode 'window', not {mode!r}: leave out one of them")
        spec = PublishSpec(
            mode,
            chunk,
            on_reject,
            expected_stream=expected_stream,
            max_inflight=max_inflight,
            max_bytes=max_bytes,
            timeout=timeout,
            resend=resend,
        )
        arrow = None
        if format == "arrow":
            headers = {**(headers or {}), "Content-Type": CONTENT_TYPE}
            arrow = (compression, rows_per_message, self._api.session.native.max_payload - _size(headers))
        else:
            check_literal("format", format, PayloadFormat)
        binary = format in BINARY_FORMATS
        if schema is not None and not binary:
            raise ValueError(f'schema= is for format "avro" and "protobuf"; leave it out with format {format!r}')
        framed = None
        if (known := registry_of(self._api.session, registry, format)) is not None:
            framed = await frame_of(known, format, schema, self._api.session.run)
        elif binary:
            framed = (binary_schema(format, schema), b"")
        rows = TableMessages(
            without_nested_offsets(table),
            columns=None if columns is None else list(columns),
            subject=subject,
            msg_id=msg_id,
            nulls=nulls,
            arrow=arrow,
            binary=None if framed is None else framed[0],
            frame=None if framed is None else framed[1],
        )
        all_headers, ttl = batch_headers(
            self._api, headers, rows, last_seq=None, last_subject_seq=None, last_msg_id=None, ttl=msg_ttl
        )
        more: dict[str, Any] = {"headers": all_headers, "msg_ids": None, "msg_ttl": ttl, "table": rows}
        if resume is None:
            return await self._publish_rows(None, rows, spec, progress, **more)
        total = len(rows) if arrow is None and hasattr(table, "__len__") else None
        report = reporter(progress, "publishing")
        return await self._resume(
            rows, spec, resume, subject=subject, msg_id=msg_id, report=report, total=total, **more
        )

    async def _resume(
        self,
        rows: TableMessages,
        spec: PublishSpec,
        resume: str | PathLike[str] | Resume,
        *,
        subject: str | None,
        msg_id: str | None,
        report: Progress | None,
        total: int | None,
        **more: Any,
    ) -> PublishResult:
        """Publishes messages from the position of a load on; `more` are the native `publish_batch`'s keywords."""
        from jetarrow.jetstream.resume.publish import Resume, open_load
        from jetarrow.jetstream.resume.rows import ReadThread
        from jetarrow.jetstream.resume.stores import store_of

        context = cast("KeyValues", self)
        place = resume if isinstance(resume, Resume) else Resume(store_of(context, resume))

        async def publish(step: pa.Table, first_row: int, stream: str) -> PublishResult:
            progress = ProgressOfStep(report, first=first_row, total=total)
            return await self._publish_rows(
                None, step, replace(spec, expected_stream=stream), progress, first_row=first_row, **more
            )

        load, thread = None, ReadThread(self._api.session.loop())
        try:
            load = await open_load(
                context,
                rows,
                place,
                publish=publish,
                subject=subject,
                msg_id=msg_id,
                stream=spec.expected_stream,
                off_loop=thread,
            )
            await load.run()
            return load.result()
        except (KeyboardInterrupt, asyncio.CancelledError) as interrupt:
            row = load.position.row if load is not None and load.position is not None else 0
            partial = getattr(interrupt, "partial", None) or PartialPublish(row, total)
            set_partial(interrupt, partial._replace(rows=max(row, partial.rows), position=row))
            raise
        finally:
            thread.close()
            place.store.close()
