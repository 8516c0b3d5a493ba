"""Reading a range of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any

from jetarrow.core.docstrings import with_entries_of
from jetarrow.core.suggestions import suggests_keywords
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import ArrowSchema
from jetarrow.jetstream.binary_schema import ProtobufSchema
from jetarrow.jetstream.literals import (
    DecodeMode,
    OnDataLoss,
    OnRollback,
    PayloadFormat,
    TimestampNumbers,
    TimestampUnit,
)
from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.read_spec import BATCH_BYTES, DEFAULT_FETCH_BYTES, ReadSpec
from jetarrow.jetstream.reader import Reader
from jetarrow.jetstream.registry import SchemaRegistry, registry_of


class ReadVerbs:
    """The verbs `read` and `latest` of a context."""

    _api: JetStreamApi

    @suggests_keywords
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
        schema: ArrowSchema | Mapping[str, Any] | str | PathLike[str] | ProtobufSchema | type | None = None,
        mode: DecodeMode = "PERMISSIVE",
        format: PayloadFormat = "json",
        registry: SchemaRegistry | str | None = None,
        flatten: bool = False,
        limit: int | None = None,
        batch_rows: int | None = None,
        batch_bytes: int = BATCH_BYTES,
        fetch_bytes: int = DEFAULT_FETCH_BYTES,
        direct: bool | None = None,
        follow: bool = False,
        timestamp_unit: TimestampUnit = "ns",
        time_zone: str = "UTC",
        timestamp_numbers: TimestampNumbers | None = None,
        on_data_loss: OnDataLoss = "error",
        on_rollback: OnRollback = "fail",
        progress: Progress | bool | None = None,
    ) -> Reader:
        """Reads `[start, end)` of a stream in order, as Arrow batches, without a durable consumer.

        Deleted messages inside the range are skipped. Messages that a limit or a purge removed are an error.

        Args:
            stream: The stream.
            start_seq: First sequence; None is the first of the stream. If it is more than one past the last sequence,
                `DataLossError` is raised; with `follow=True` the read waits for it.
            end_seq: One past the last sequence; None, or a later one, is one past the last sequence at opening.
            start_time: Instead of `start_seq`: the first message at or after this time. A datetime (local time if it
                has no zone) or RFC 3339 text, to the nanosecond; a timedelta, or a span such as "1h" or "2d12h", counts
                back from this machine's clock.
            end_time: Instead of `end_seq`: the first message at or after this time is the first one left out.
            subjects: Filters, one or several that do not overlap; None is all.
            columns: Columns of the batches, in this order; default stream, seq, subject, timestamp, headers, data.
                Others are delivered, consumer_seq, pending, reply.
            schema: Decodes JSON payloads natively: `value: struct<...>` of these fields replaces `data`. Anything with
                `__arrow_c_schema__` (a schema of pyarrow, polars or arro3); DDL text ("id BIGINT, name STRING"); a dict
                of name to type (`{"id": int, "at": "timestamp"}`); or "infer", which infers it from the first 1,000
                messages of the range (`reader.inferred` returns it). Missing fields and JSON nulls are null, and extra
                fields are ignored. A field of another type makes the whole row malformed. With format "avro" an Avro
                schema: its JSON text, the same as a dict, or a path; with "protobuf" a `jetarrow.ProtobufSchema` or a
                generated message class.
            mode: Handling of malformed rows. "PERMISSIVE": `value` is null, the payload is in the string column
                `_corrupt_record` (base64 if it is not UTF-8), field and reason are in `_error`; "DROPMALFORMED": they
                are dropped; "FAILFAST": `DecodeError` with sequence and column.
            format: "arrow": each payload is an Arrow IPC stream, as `publish_table(format="arrow")` writes it. Its rows
                are the rows of the result, with the columns of the table and those in `columns` ("seq", "subject",
                "timestamp" of the message; default none). `schema` selects columns by name; by default they are those
                of the first message. A message is malformed if it lacks a column, if a column has another type, or if
                it decodes to more than 512 MiB. "avro": each payload is a datum of the record `schema`, alone or in
                single-object encoding. "protobuf": each payload is a message of the type `schema`.
            registry: With format "avro" or "protobuf" a schema registry, its URL or a `jetarrow.SchemaRegistry`: each
                payload begins with the id of its schema (Confluent's wire format). Schemas are fetched once. Avro data
                are resolved from their schema to `schema`, by default the first message's. A Protobuf message of
                another type than `schema` is malformed, and so is a payload whose id the registry does not have.
            flatten: The fields of `value` become top-level columns.
            limit: Most rows; None is all.
            batch_rows: Most rows of a batch. None: 65,536, and fewer in the first batches, so that the first one
                arrives early.
            batch_bytes: Bytes of messages at which a batch ends, default 16 MiB, at most 1 GiB.
            fetch_bytes: Most bytes requested and not yet received, at most 32 MiB; two of the largest messages always
                fit.
            direct: Read by direct gets instead of a consumer, which needs `allow_direct` and at most one filter. None:
                for work-queue and interest streams, in which acknowledgements of a consumer would delete messages.
            follow: Continue with new messages, without end; a batch then ends when no more messages are pending.
            timestamp_unit: "ns", or "us" for readers without support for nanoseconds.
            time_zone: For JSON: the zone of texts without an offset in timestamp fields with a zone, as an IANA name
                ("Europe/Berlin") or an offset ("+02:00"). A local time that occurs twice is the earlier one, and a
                local time that a change of the clocks leaves out is moved forward by the gap.
            timestamp_numbers: For JSON: "seconds", "millis", "micros" or "nanos" since 1970 is the unit of numbers in
                timestamp fields; "error" makes them malformed. None: the unit of the field in an Arrow schema, and
                "error" for a schema as text or of Python types, which has no units.
            on_data_loss: "error" raises `DataLossError`, "warn" warns and reads the remaining messages. With `subjects`
                it is always a warning, because the server cannot report whether the lost messages matched.
            on_rollback: Reaction to a stream that was rolled back behind the position (a restored backup, a lost disk),
                which is checked after each reconnect: "fail" raises `StreamRolledBackError`; "continue" warns and
                continues after the last message that the stream still has; "earliest" warns and restarts at the first
                message. Without `follow` the range then ends at the stream's last sequence.
            progress: Called with (sequences done, total or None) at most ten times a second; True shows a bar on stderr
                if that is a terminal.

        Returns:
            A reader to iterate (`async for`), or to read as a whole with `await reader.read_all()`, `to_polars()` and
            so on. It reads its range once.

        Raises:
            ValueError: An argument has an invalid value.
            SchemaRegistryError: While it is read: the registry does not answer, or no message names a schema for it.
            NotFoundError: While it is read: the stream does not exist; the text names it, and the nearest that there
                is.
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
            time_zone=time_zone,
            timestamp_numbers=timestamp_numbers,
            on_data_loss=on_data_loss,
            on_rollback=on_rollback,
            schema=schema,
            mode=mode,
            format=format,
            registry=registry_of(self._api.session, registry, format),
            flatten=flatten,
            limit=limit,
            progress=progress,
        )
        return Reader(self._api, spec)

    @suggests_keywords
    @with_entries_of(read)
    def latest(
        self,
        stream: str,
        subjects: str | Sequence[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        schema: ArrowSchema | Mapping[str, Any] | str | PathLike[str] | ProtobufSchema | type | None = None,
        mode: DecodeMode = "PERMISSIVE",
        format: PayloadFormat = "json",
        registry: SchemaRegistry | str | None = None,
        flatten: bool = False,
        as_of_seq: int | None = None,
        as_of_time: datetime | timedelta | str | None = None,
        deleted: bool = False,
        limit: int | None = None,
        batch_rows: int | None = None,
        batch_bytes: int = BATCH_BYTES,
        fetch_bytes: int = DEFAULT_FETCH_BYTES,
        timestamp_unit: TimestampUnit = "ns",
        time_zone: str = "UTC",
        timestamp_numbers: TimestampNumbers | None = None,
        progress: Progress | bool | None = None,
    ) -> Reader:
        """Reads the last message of each subject, in order of sequence, as Arrow batches: the state of a stream.

        Each subject has one row: its last message at opening. `reader.position` is one past the last sequence at
        opening, and `js.read(stream, start_seq=reader.position, follow=True)` continues with the changes.

        Messages that are deleted during the read are left out. If a later message replaced one during the read, as in a
        stream with `max_msgs_per_subject=1`, the row of the subject is the later message, whose `seq` is
        `reader.position` or more. In such a read a subject that is new since opening may have a row too.

        A state in the past consists of the messages that the stream still has: in a stream with one message per
        subject, only the subjects without a later message. It is an error if no message up to that point is left. All
        messages up to that point are read twice, first without payloads, with about 50 bytes of memory per subject.

        Args:
            stream: The stream. Its retention must be "limits".
            subjects: Filters, one or several that do not overlap; None is all.
            columns: As `js.read`.
            schema: As `js.read`.
            mode: As `js.read`.
            format: As `js.read`; a subject's last message is all its rows.
            registry: As `js.read`.
            flatten: As `js.read`.
            as_of_seq: The state at the time when this was the last sequence; None is now.
            as_of_time: Instead of `as_of_seq`: the state right before this time, given as for `js.read`.
            deleted: Whether subjects whose last message is a deletion marker have a row: markers of key-value buckets
                (`KV-Operation`) and of the server (`Nats-Marker-Reason`).
            limit: Most rows; None is all.
            batch_rows: As `js.read`.
            batch_bytes: Bytes of messages at which a batch ends, default 16 MiB, at most 1 GiB.
            fetch_bytes: As `js.read`.
            timestamp_unit: As `js.read`.
            time_zone: As `js.read`.
            timestamp_numbers: As `js.read`.
            progress: As `js.read`.

        Returns:
            A reader, as `js.read`.

        Raises:
            ValueError: An argument has an invalid value.
            NotFoundError: While it is read: the stream does not exist.
            DataLossError: While it is read: the stream has no message up to `as_of_seq` or `as_of_time`.
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
            time_zone=time_zone,
            timestamp_numbers=timestamp_numbers,
            schema=schema,
            mode=mode,
            format=format,
            registry=registry_of(self._api.session, registry, format),
            flatten=flatten,
            limit=limit,
            progress=progress,
            latest=True,
            deleted=deleted,
        )
        return Reader(self._api, spec)
