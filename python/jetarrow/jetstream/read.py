"""Reading a range of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import ArrowSchema
from jetarrow.jetstream.literals import DecodeMode, OnDataLoss, OnRollback, PayloadFormat, TimestampUnit
from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.read_spec import BATCH_BYTES, DEFAULT_FETCH_BYTES, ReadSpec
from jetarrow.jetstream.reader import Reader


class ReadVerbs:
    """The verbs `read` and `latest` of a context."""

    _api: JetStreamApi

    def read(
        self,
        stream: str,
        *,
        start_seq: int | None = None,
        end_seq: int | None = None,
        start_time: datetime | timedelta | str | None = None,
        end_time: datetime | timedelta | str | None = None,
        subjects: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        schema: ArrowSchema | Mapping[str, Any] | str | None = None,
        mode: DecodeMode = "PERMISSIVE",
        format: PayloadFormat = "json",
        flatten: bool = False,
        limit: int | None = None,
        batch_rows: int | None = None,
        batch_bytes: int = BATCH_BYTES,
        fetch_bytes: int = DEFAULT_FETCH_BYTES,
        direct: bool | None = None,
        follow: bool = False,
        timestamp_unit: TimestampUnit = "ns",
        on_data_loss: OnDataLoss = "error",
        on_rollback: OnRollback = "fail",
        progress: Progress | bool | None = None,
    ) -> Reader:
        """Reads `[start, end)` of a stream in order, as Arrow batches. No durable consumer is made.

        Messages that were deleted inside the range are skipped; what retention or a purge took is an error.

        Args:
            stream: The stream.
            start_seq: First sequence; None is the first there is. More than one behind the last sequence is
                `DataLossError`; `follow=True` waits until it is there.
            end_seq: One past the last sequence; None, or more than there is, is one past the last at opening.
            start_time: Instead of `start_seq`: the first message at or after this time. A datetime (without a zone it
                is local time) or RFC 3339 text, to the nanosecond; a timedelta, or a span such as "1h" or "2d12h", is
                so long ago by this machine's clock.
            end_time: Instead of `end_seq`, likewise.
            subjects: Filters, one or several that do not overlap; None is all.
            columns: What is built, in this order; default stream, seq, subject, timestamp, headers, data. There are
                also delivered, consumer_seq, pending, reply.
            schema: Decodes JSON payloads natively: `data` gives way to `value: struct<...>` of these fields. Anything
                with `__arrow_c_schema__` (a pyarrow schema, a polars or arro3 one); DDL text ("id BIGINT, name
                STRING"); a dict of name to type (`{"id": int, "at": "timestamp"}`); or "infer", which learns it from
                the first 1,000 messages of the range (`reader.inferred` tells it). Missing fields and JSON nulls are
                null, extra fields are ignored; a field that does not fit makes the whole row malformed.
            mode: What happens to malformed rows. "PERMISSIVE": `value` is null, the text is in a string column
                `_corrupt_record` after it (base64 where it is no UTF-8), and field and reason in `_error`;
                "DROPMALFORMED": they are left out; "FAILFAST": `DecodeError` with sequence and column.
            format: "arrow": each payload is an Arrow IPC stream, as `publish_table(format="arrow")` makes it, and its
                rows are those of the result: the columns of the table, beside those that `columns` names ("seq",
                "subject", "timestamp" of the message; default none). `schema` chooses among the columns, by name; by
                default they are those of the first message. A message that lacks one, has it of another type, or
                stands for more than 512 MiB is malformed.
            flatten: The fields of `value` are columns of their own.
            limit: Most rows; None is all.
            batch_rows: Most rows of a batch. None: 65,536, and fewer in the first ones, so that there is soon something
                to do.
            batch_bytes: A batch is cut when its messages have this number of bytes, default 16 MiB, at most 1 GiB.
            fetch_bytes: Most bytes on their way at a time, at most 32 MiB; two of the largest messages always fit.
            direct: Read by direct gets instead of a consumer, which needs `allow_direct`; one filter at most. None: for
                work-queue and interest streams, where a consumer would take the messages away.
            follow: Goes on for ever with what comes; a batch is then handed out as soon as no more is there.
            timestamp_unit: "ns", or "us" for readers that know no nanoseconds.
            on_data_loss: "error" raises `DataLossError`, "warn" warns and reads what is left. With `subjects` it is
                always a warning: whether the lost messages matched cannot be known.
            on_rollback: What happens where the server went back behind what was read (a restored backup, a lost disk),
                which is looked at after each break: "fail" raises `StreamRolledBackError`; "continue" warns and goes on
                behind the last message that is still there; "earliest" warns and begins anew with the first message.
                Without `follow` the range then ends at what is there.
            progress: Called with (sequences done, sequences in all or None) at most ten times a second; True shows a
                bar on stderr where that is a terminal.

        Returns:
            A reader to iterate (`async for`), or to read at once with `await reader.read_all()`, `to_polars()` and so
            on. It reads its range once.

        Raises:
            ValueError: An argument that cannot be used.
            NotFoundError: While it is read: there is no such stream; the text names it, and the nearest that there is.
        """
        spec = ReadSpec(
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
            on_rollback=on_rollback,
            schema=schema,
            mode=mode,
            format=format,
            flatten=flatten,
            limit=limit,
            progress=progress,
        )
        return Reader(self._api, spec)

    def latest(
        self,
        stream: str,
        subjects: str | Sequence[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        schema: ArrowSchema | Mapping[str, Any] | str | None = None,
        mode: DecodeMode = "PERMISSIVE",
        format: PayloadFormat = "json",
        flatten: bool = False,
        as_of_seq: int | None = None,
        as_of_time: datetime | timedelta | str | None = None,
        deleted: bool = False,
        limit: int | None = None,
        batch_rows: int | None = None,
        batch_bytes: int = BATCH_BYTES,
        fetch_bytes: int = DEFAULT_FETCH_BYTES,
        timestamp_unit: TimestampUnit = "ns",
        progress: Progress | bool | None = None,
    ) -> Reader:
        """Reads the last message of each subject, in order of sequence, as Arrow batches: the state of a stream.

        Each subject has one row: its last message at opening. `reader.position` is one past the last sequence at
        opening, and `js.read(stream, start_seq=reader.position, follow=True)` goes on with what changes.

        What is deleted while it is read is left out. Where a later message took its place meanwhile, as in a stream
        with `max_msgs_per_subject=1`, the value at opening is gone: the subject's row is then the later message, whose
        `seq` is at or beyond `reader.position`. In such a read a subject that is new since opening may have a row too.

        As of a point in the past there is what the stream still holds of it: of a stream that keeps one message a
        subject, only the subjects that were not written to since. Where all messages up to there are gone, it is an
        error. Everything up to there is gone through twice, the first time without payloads, with some 50 bytes of
        memory a subject.

        Args:
            stream: The stream. Its retention must be "limits".
            subjects: Filters, one or several that do not overlap; None is all.
            columns: As `js.read`.
            schema: As `js.read`.
            mode: As `js.read`.
            format: As `js.read`; a subject's last message is all its rows.
            flatten: As `js.read`.
            as_of_seq: The state when this was the last sequence; None is now.
            as_of_time: Instead of `as_of_seq`: the state right before this time, given as for `js.read`.
            deleted: Subjects whose last message is a deletion marker have a row too: of key-value buckets
                (`KV-Operation`), and of the server (`Nats-Marker-Reason`). By default they have none.
            limit: Most rows; None is all.
            batch_rows: As `js.read`.
            batch_bytes: A batch is cut when its messages have this number of bytes, default 16 MiB, at most 1 GiB.
            fetch_bytes: As `js.read`.
            timestamp_unit: As `js.read`.
            progress: As `js.read`.

        Returns:
            A reader, as `js.read` gives it.

        Raises:
            ValueError: An argument that cannot be used.
            NotFoundError: While it is read: there is no such stream.
            DataLossError: While it is read: all messages up to `as_of_seq` or `as_of_time` are gone.
        """
        if as_of_seq is not None and as_of_seq < 0:
            raise ValueError(f"as_of_seq must be 0 or more, not {as_of_seq}")
        if as_of_seq is not None and as_of_time is not None:
            raise ValueError("give as_of_seq or as_of_time, not both")
        spec = ReadSpec(
            stream,
            end_seq=None if as_of_seq is None else as_of_seq + 1,
            end_time=as_of_time,
            subjects=subjects,
            columns=columns,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            fetch_bytes=fetch_bytes,
            timestamp_unit=timestamp_unit,
            schema=schema,
            mode=mode,
            format=format,
            flatten=flatten,
            limit=limit,
            progress=progress,
            latest=True,
            deleted=deleted,
        )
        return Reader(self._api, spec)
