"""The verb `pipe` of a context."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from jetarrow.core.session import Headers
from jetarrow.core.suggestions import suggests_keywords
from jetarrow.jetstream.arrow import ArrowSchema
from jetarrow.jetstream.binary_schema import ProtobufSchema, binary_schema
from jetarrow.jetstream.json_rules import json_rules
from jetarrow.jetstream.kv.key_values import KeyValues
from jetarrow.jetstream.literals import (
    BINARY_FORMATS,
    DecodeMode,
    OnDataLoss,
    OnPipeError,
    OnRollback,
    RowFormat,
    TimestampNumbers,
    check_literal,
)
from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.publish import PublishVerbs
from jetarrow.jetstream.read import ReadVerbs
from jetarrow.jetstream.registry import SchemaRegistry, registry_of

if TYPE_CHECKING:
    from jetarrow.jetstream.pipes.pipe import Pipe
    from jetarrow.jetstream.pipes.work import PipeFunction

_BYTES = 64 * 1024 * 1024


class Pipes(PublishVerbs, ReadVerbs):
    """The verb that makes one stream of another."""

    @suggests_keywords
    def pipe(
        self,
        source: str,
        target: str,
        function: PipeFunction | str,
        *,
        name: str,
        subject: str | None = None,
        schema: ArrowSchema | Mapping[str, Any] | str | os.PathLike[str] | ProtobufSchema | type | None = None,
        mode: DecodeMode = "PERMISSIVE",
        format: RowFormat = "json",
        registry: SchemaRegistry | str | None = None,
        flatten: bool = True,
        subjects: str | Sequence[str] | None = None,
        start_seq: int | None = None,
        start_time: datetime | timedelta | str | None = None,
        tables: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        output_format: RowFormat = "json",
        output_schema: Mapping[str, Any] | str | os.PathLike[str] | ProtobufSchema | type | None = None,
        headers: Headers | None = None,
        nulls: bool = False,
        rows: int = 65_536,
        seconds: float = 0.1,
        bytes: int = _BYTES,
        follow: bool = False,
        position_subject: str | None = None,
        dead_letter_subject: str | None = None,
        on_error: OnPipeError = "fail",
        on_data_loss: OnDataLoss = "error",
        on_rollback: OnRollback = "fail",
        time_zone: str = "UTC",
        timestamp_numbers: TimestampNumbers | None = None,
        timeout: float = 30.0,
        progress: Progress | bool | None = None,
    ) -> Pipe:
        """Makes one stream of another by a function, each message exactly once despite failures (needs pyarrow).

        The messages of a step and the position in the source are stored in one atomic batch (ADR-50, nats-server
        2.12, a target with `allow_atomic`): both or neither. The position is the batch's last message, on a subject of
        the target, and expects the position before it, so that of two instances with one name the later one continues
        and the other one ends with `PipeFencedError`. It holds beyond the duplicate window, and after a rollback of
        the target, whose last position belongs to its last messages.

        A step with more messages than an atomic batch has is stored in parts, each with its position. After an
        interruption between two parts its rows are processed again, so the function must be deterministic: it returns
        the same messages for the same rows and tables.

        Args:
            source: Name of the stream to read, of retention "limits".
            target: Name of the stream to write to, of retention "limits" with `allow_atomic`.
            function: Takes a `pyarrow.Table` of rows (`stream, seq, subject, timestamp, headers` and `data`, or the
                fields of `schema`), and `tables` as keywords; returns a table of any Arrow library, or None for no
                messages. It runs in a thread, unless it is a coroutine function. Its rows are messages: a column `data`
                is the payload, otherwise the payload is made of the columns; a column `headers` has headers, those of
                the server (`Nats-…`) excepted; texts in a column `error` mark rows that failed, whose messages a column
                `seq` names. A text is a query of DuckDB, in which the rows are the table `input` (extra duckdb).
            name: Name of the pipe, under which its position is kept: letters, digits, `-`, `_` and `=`.
            subject: Subject of the messages, or a template of columns such as "enriched.{region}". Default: the column
                `subject` of the function's table.
            schema: Schema of the payloads of the source, as in `js.read`. Default: the rows have the column `data`.
            mode: With `schema`, what an undecodable row is: "PERMISSIVE", a failed row, for `on_error`;
                "DROPMALFORMED", left out; "FAILFAST", an error.
            format: Format of the payloads of the source: "json", "avro" or "protobuf", as in `js.read`.
            registry: With format "avro" or "protobuf" a schema registry, as in `js.read`.
            flatten: Whether the fields of `value` are columns; False keeps the struct.
            subjects: Subject filters that do not overlap. Default: all.
            start_seq: First sequence at the first start. Default: the stream's first one.
            start_time: Instead of `start_seq`: the first message at or after this time, as in `js.read`.
            tables: Tables for the function, by name: `js.latest(…)`, `kv.read(…)` or a key-value bucket. They are
                brought up to date before each step, and the position has their sequences.
            columns: Columns of the payload. Default: all but those of a read (`stream`, `seq`, `subject`, `timestamp`,
                `headers`).
            output_format: Format of the payloads of the target: "json", "avro" or "protobuf".
            output_schema: With these formats the schema, as in `js.publish_table`.
            headers: Headers of every message.
            nulls: Whether to write null fields in JSON. Default: they are omitted.
            rows: Most rows of a step.
            seconds: Seconds that a step waits for more rows.
            bytes: Bytes of rows at which a step ends; memory use is a few times that.
            follow: Whether `run` follows the source; otherwise it ends with the last message at the start.
            position_subject: Subject of the positions, one of the target's. Default: the first one with a wildcard,
                with `_pipe-NAME` in its place.
            dead_letter_subject: Subject of the dead letters, likewise with `_dead-NAME`.
            on_error: Reaction to a failed row: "fail" raises `PipeError`; "dead_letter" stores its message in the same
                batch, with the reason in headers (`Jetarrow-Reason`, `-Stream`, `-Seq`, `-Subject`); "skip" leaves it
                out. If the function raises, all rows of the step have failed.
            on_data_loss: "error" raises `DataLossError` if the source has lost messages after the position; "warn"
                continues with the remaining ones.
            on_rollback: Reaction if source or target was rolled back: "fail" raises `StreamRolledBackError`; "continue"
                resumes at the position that the target has, and after the last message that the source still has;
                "earliest" processes the source again.
            time_zone: Zone of texts without an offset in timestamp fields, as in `js.read`.
            timestamp_numbers: Unit of numbers in timestamp fields, as in `js.read`.
            timeout: Seconds that an atomic batch may be without an answer.
            progress: Called with (sequences read, total sequences or None); True shows a progress bar on a terminal.

        Returns:
            A pipe: `await pipe.run()`, or `await pipe.step()` for one step. It is opened at the first use.

        Raises:
            ValueError: An option has an invalid value.
            TypeError: The function or a table is none.
            UnsupportedError: pyarrow is not installed, or DuckDB for a query.
        """
        from jetarrow.jetstream.pipes.messages import Encoder
        from jetarrow.jetstream.pipes.options import PipeOptions
        from jetarrow.jetstream.pipes.pipe import Pipe
        from jetarrow.jetstream.pipes.subjects import check_name
        from jetarrow.jetstream.pipes.target import PipeTarget
        from jetarrow.jetstream.pipes.work import Work
        from jetarrow.jetstream.sinks.begin import SinkOptions, checked_schema, names_of

        for option, value, kind in (
            ("on_error", on_error, OnPipeError),
            ("on_data_loss", on_data_loss, OnDataLoss),
            ("on_rollback", on_rollback, OnRollback),
            ("mode", mode, DecodeMode),
            ("output_format", output_format, RowFormat),
        ):
            check_literal(option, value, kind)
        if start_seq is not None and start_time is not None:
            raise ValueError("start_seq and start_time exclude each other: give one of them")
        for option, number in (("rows", rows), ("bytes", bytes)):
            if number < 1:
                raise ValueError(f"{option} must be 1 or more, not {number}")
        if not seconds > 0:
            raise ValueError(f"seconds must be positive, not {seconds}")
        if output_schema is not None and output_format not in BINARY_FORMATS:
            raise ValueError('output_schema= is for output_format "avro" and "protobuf"')
        check_name(name)
        known = registry_of(self._api.session, registry, format)
        source_options = SinkOptions(
            schema=checked_schema(schema, format, known),
            format=format,
            registry=known,
            flatten=flatten,
            subjects=names_of(subjects) or None,
            start_seq=start_seq,
            start_time=start_time,
            partition_by=[],
            follow=follow,
            durable=None,
            timestamp_unit="ns",
            rules=json_rules(schema if format == "json" else None, time_zone, timestamp_numbers),
            on_data_loss=on_data_loss,
            on_rollback=on_rollback,
            rows=rows,
        )
        binary = binary_schema(output_format, output_schema) if output_format in BINARY_FORMATS else None
        frame = None if binary is None else b""
        encoder = partial(Encoder, subject, columns, headers or {}, nulls, binary, frame)
        options = PipeOptions(
            source_options,
            encoder,
            rows=rows,
            seconds=seconds,
            bytes=bytes,
            mode=mode,
            on_error=on_error,
            on_rollback=on_rollback,
            timeout=timeout,
        )
        place = PipeTarget(
            self,
            target,
            name,
            position_subject=position_subject,
            dead_letter_subject=dead_letter_subject,
            timeout=timeout,
        )
        work = Work(function, source)
        context = cast("KeyValues", self)
        return Pipe(context, source, place, work, name=name, tables=tables or {}, options=options, progress=progress)
