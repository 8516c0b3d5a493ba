"""The verbs `to_parquet` and `to_delta` of a context, and the sources of their rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from jetarrow.core.docstrings import with_entries_of
from jetarrow.core.suggestions import suggests_keywords
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import ArrowSchema, needs_pyarrow
from jetarrow.jetstream.binary_schema import BinaryColumns, ProtobufSchema, binary_schema
from jetarrow.jetstream.errors import SinkError, StreamRecreatedError
from jetarrow.jetstream.json_rules import JsonRules, json_rules
from jetarrow.jetstream.literals import (
    BINARY_FORMATS,
    OnDataLoss,
    OnRollback,
    RowFormat,
    SinkCompression,
    TimestampNumbers,
    TimestampUnit,
    check_literal,
)
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.read import ReadVerbs
from jetarrow.jetstream.read_spec import ReadSpec
from jetarrow.jetstream.reader import Reader
from jetarrow.jetstream.rollback import error_without_marks, verify
from jetarrow.jetstream.schema import arrow_schema
from jetarrow.jetstream.sinks.delta import DeltaTarget
from jetarrow.jetstream.sinks.durable import decode_batch, open_consumer
from jetarrow.jetstream.sinks.lag import Start, count_lag
from jetarrow.jetstream.sinks.parquet import ParquetTable
from jetarrow.jetstream.sinks.rows import Shape, from_text, to_text
from jetarrow.jetstream.sinks.sink import Sink, Target
from jetarrow.jetstream.sinks.source import DurableSource, RangeSource
from jetarrow.jetstream.sinks.state import State

if TYPE_CHECKING:
    import pyarrow


class Sinks(ReadVerbs):
    """The verbs that archive a stream exactly once."""

    @suggests_keywords
    def to_parquet(
        self,
        stream: str,
        path: str | os.PathLike[str],
        *,
        schema: ArrowSchema | Mapping[str, Any] | str | os.PathLike[str] | ProtobufSchema | type | None = None,
        format: RowFormat = "json",
        flatten: bool = True,
        subjects: str | Sequence[str] | None = None,
        start_seq: int | None = None,
        start_time: datetime | timedelta | str | None = None,
        rows: int = 1_000_000,
        seconds: float = 60.0,
        partition_by: str | Sequence[str] | None = None,
        compression: SinkCompression = "zstd",
        follow: bool = False,
        durable: str | None = None,
        timestamp_unit: TimestampUnit = "ns",
        time_zone: str = "UTC",
        timestamp_numbers: TimestampNumbers | None = None,
        on_data_loss: OnDataLoss = "error",
        on_rollback: OnRollback = "fail",
        filesystem: Any = None,
        progress: Progress | bool | None = None,
    ) -> Sink:
        """Archives a stream in a folder of Parquet files, each message exactly once despite failures (needs pyarrow).

        The position is stored with the data: a commit is a set of files and a record in `_jetarrow/`, written last. A
        start resumes at the newest record, and removes files without a record. A lock admits one writer at a time.

        Args:
            stream: Name of the stream.
            path: A folder, or a URI that pyarrow opens (`s3://bucket/folder`, `gs://…`).
            schema: Schema for JSON payloads, as in `js.read`. Undecodable rows are written to `_corrupt/` with their
                payload. "infer" infers the schema once, at the first start.
            format: "json", "avro" or "protobuf", as in `js.read`.
            flatten: Whether the fields of `value` are columns of the table; False keeps the struct.
            subjects: Subject filters that do not overlap. Default: all.
            start_seq: First sequence at the first start. Default: the stream's first one.
            start_time: Instead of `start_seq`: the first message at or after this time, as in `js.read`.
            rows: Maximum number of rows per commit.
            seconds: Maximum wait of a commit for more rows.
            partition_by: Columns whose values are folders (`region=eu/`). `date` and `hour` are derived from the
                timestamp (UTC) unless columns have these names.
            compression: "zstd", "snappy", "gzip", "brotli", "lz4" or "none".
            follow: Whether `run` follows the stream; otherwise it ends with the last message at the start.
            durable: A durable consumer to read from instead of a range read, acknowledged after each commit; created if
                it does not exist. Required for work-queue and interest streams.
            timestamp_unit: "ns", or "us" for readers without nanoseconds.
            time_zone: Zone of texts without an offset in timestamp fields, as in `js.read`.
            timestamp_numbers: Unit of numbers in timestamp fields, as in `js.read`.
            on_data_loss: "error" raises `DataLossError` if the stream has lost messages after the position; "warn"
                continues with the remaining ones.
            on_rollback: Reaction if the server was rolled back behind the position, checked at starts and after each
                reconnect: "fail" raises `StreamRolledBackError`; "continue" resumes after the last message that the
                stream still has; "earliest" archives the stream again. Both write a new epoch into the record, which
                distinguishes the rows of the two histories.
            filesystem: File system of `path`, a `pyarrow.fs.FileSystem`. Default: that of the URI.
            progress: Called with (sequences read, total sequences or None); True shows a progress bar on a terminal.

        Returns:
            A sink: `await sink.run()`, or `await sink.step()` for one commit. It is opened at the first use.

        Raises:
            ValueError: An argument is not valid.
            UnsupportedError: pyarrow is not installed.
        """
        check_literal("compression", compression, SinkCompression)
        target = ParquetTable(
            path,
            filesystem=filesystem,
            partition_by=_names(partition_by),
            compression=compression,
            rows=rows,
        )
        options = _Options(
            schema=_checked(schema, format),
            format=format,
            flatten=flatten,
            subjects=subjects,
            start_seq=start_seq,
            start_time=start_time,
            partition_by=_names(partition_by),
            follow=follow,
            durable=durable,
            timestamp_unit=timestamp_unit,
            rules=json_rules(schema if format == "json" else None, time_zone, timestamp_numbers),
            on_data_loss=on_data_loss,
            on_rollback=on_rollback,
            rows=rows,
        )
        return self._sink(stream, target, options, seconds, progress)

    @suggests_keywords
    @with_entries_of(to_parquet)
    def to_delta(
        self,
        stream: str,
        table_uri: str | os.PathLike[str],
        *,
        schema: ArrowSchema | Mapping[str, Any] | str | os.PathLike[str] | ProtobufSchema | type | None = None,
        format: RowFormat = "json",
        flatten: bool = True,
        subjects: str | Sequence[str] | None = None,
        start_seq: int | None = None,
        start_time: datetime | timedelta | str | None = None,
        rows: int = 1_000_000,
        seconds: float = 60.0,
        partition_by: str | Sequence[str] | None = None,
        compression: SinkCompression = "zstd",
        follow: bool = False,
        durable: str | None = None,
        time_zone: str = "UTC",
        timestamp_numbers: TimestampNumbers | None = None,
        on_data_loss: OnDataLoss = "error",
        on_rollback: OnRollback = "fail",
        storage_options: Mapping[str, str] | None = None,
        app_id: str | None = None,
        progress: Progress | bool | None = None,
    ) -> Sink:
        """Archives a stream in a Delta table, each message exactly once despite failures (needs deltalake and pyarrow).

        A commit is one transaction of the table, with `app_id` and the last sequence as its version. Several streams
        may be archived in one table. Timestamps are in microseconds, as required by Delta. The rows of a commit are
        buffered in memory.

        Args:
            stream: The stream.
            table_uri: A folder, or a URI that deltalake opens; the table is created if it does not exist.
            schema: As `to_parquet`.
            format: As `to_parquet`.
            flatten: As `to_parquet`.
            subjects: As `to_parquet`.
            start_seq: As `to_parquet`.
            start_time: As `to_parquet`.
            rows: As `to_parquet`.
            seconds: As `to_parquet`.
            partition_by: As `to_parquet`; `date` and `hour` are columns of the table.
            compression: As `to_parquet`.
            follow: As `to_parquet`.
            durable: As `to_parquet`.
            time_zone: As `to_parquet`.
            timestamp_numbers: As `to_parquet`.
            on_data_loss: As `to_parquet`.
            on_rollback: As `to_parquet`.
            storage_options: Storage options of deltalake, such as keys and regions.
            app_id: Name of this sink in the table's log. Default: `jetarrow:` and the stream's name.
            progress: As `to_parquet`.

        Returns:
            A sink, as `to_parquet`.

        Raises:
            ValueError: An argument is not valid.
            UnsupportedError: deltalake or pyarrow is not installed.
        """
        check_literal("compression", compression, SinkCompression)
        target = DeltaTarget(
            os.fspath(table_uri),
            storage_options=storage_options,
            app_id=app_id or f"jetarrow:{stream}",
            partition_by=_names(partition_by),
            compression="uncompressed" if compression == "none" else compression,
        )
        options = _Options(
            schema=_checked(schema, format),
            format=format,
            flatten=flatten,
            subjects=subjects,
            start_seq=start_seq,
            start_time=start_time,
            partition_by=_names(partition_by),
            follow=follow,
            durable=durable,
            timestamp_unit="us",
            rules=json_rules(schema if format == "json" else None, time_zone, timestamp_numbers),
            on_data_loss=on_data_loss,
            on_rollback=on_rollback,
            rows=rows,
            escaped=True,
        )
        return self._sink(stream, target, options, seconds, progress)

    def _sink(
        self, stream: str, target: Target, options: _Options, seconds: float, progress: Progress | bool | None
    ) -> Sink:
        for name, kind in ("timestamp_unit", TimestampUnit), ("on_data_loss", OnDataLoss), ("on_rollback", OnRollback):
            check_literal(name, getattr(options, name), kind)
        if options.start_seq is not None and options.start_time is not None:
            raise ValueError("start_seq and start_time exclude each other: give one of them")
        start = Start(options.start_seq, options.start_time, tuple(_names(options.subjects)), options.durable)
        return Sink(
            self._api.session,
            stream,
            target,
            partial(_begin, self, stream, options, str(target)),
            partial(count_lag, self._api, stream, start),
            rows=options.rows,
            seconds=seconds,
            progress=progress,
            on_rollback=options.on_rollback,
        )


@dataclass(frozen=True)
class _Options:
    # With a binary format as `binary_schema` returns it.
    schema: Any
    format: RowFormat
    flatten: bool
    subjects: str | Sequence[str] | None
    start_seq: int | None
    start_time: datetime | timedelta | str | None
    partition_by: list[str]
    follow: bool
    durable: str | None
    timestamp_unit: TimestampUnit
    rules: JsonRules
    on_data_loss: OnDataLoss
    on_rollback: OnRollback
    rows: int
    # Whether names of folders are escaped, as in Delta tables.
    escaped: bool = False


def _checked(schema: Any, format: RowFormat) -> Any:
    check_literal("format", format, RowFormat)
    return binary_schema(format, schema) if format in BINARY_FORMATS else schema


def _names(given: str | Sequence[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


async def _begin(
    js: Sinks, stream: str, options: _Options, target: str, state: State | None
) -> tuple[RangeSource | DurableSource, Shape]:
    """Return the source of rows after a position, and their converter."""
    info = await Management(js._api).stream_info(stream)
    created = info.created_raw or ""
    if state is not None and state.stream != stream:
        raise SinkError(
            f"could not archive stream {stream!r} in {target}: it is the archive of stream {state.stream!r}"
        )
    if state is not None and state.created != created:
        raise StreamRecreatedError(
            f"could not resume {target}: stream {stream!r} was deleted and created again since, so its sequences are"
            " other messages; archive it in another place"
        )
    back = None if state is None else await _rolled_back(js._api, info, state, options.on_rollback)
    schema = await _schema(js, stream, options, state)
    if state is None:
        state = State(stream, created, schema=None if schema is None else to_text(schema))
    state = replace(
        back or state,
        rules=(options.rules.time_zone, options.rules.timestamp_numbers),
        subjects=tuple(_names(options.subjects)),
        durable=options.durable,
    )
    shape = Shape(schema=schema, flatten=options.flatten, partition_by=options.partition_by, escaped=options.escaped)
    if options.durable is not None:
        sub = await open_consumer(
            js._api,
            stream,
            options.durable,
            target=target,
            subjects=_names(options.subjects),
            start_seq=options.start_seq,
            start_time=options.start_time,
            rows=options.rows,
        )
        payloads = options.schema if options.format in BINARY_FORMATS else schema
        decode = partial(
            decode_batch, schema=payloads, format=options.format, rules=options.rules, unit=options.timestamp_unit
        )
        durable = DurableSource(js._api, state, sub, decode=decode, follow=options.follow, rows=options.rows)
        durable.is_rolled_back = back is not None
        return durable, shape
    if info.config.retention != models.RetentionPolicy.LIMITS:
        raise SinkError(
            f"could not read stream {stream!r} by ranges: its retention {info.config.retention} removes acknowledged"
            ' messages; give durable="archive", a consumer that is acknowledged after each commit'
        )
    read = partial(
        _open_range,
        js._api,
        stream,
        subjects=options.subjects,
        schema=options.schema if options.format in BINARY_FORMATS else schema,
        format=options.format,
        timestamp_unit=options.timestamp_unit,
        rules=options.rules,
        on_data_loss=options.on_data_loss,
        batch_rows=min(options.rows, 65_536),
    )
    source = RangeSource(
        js._api,
        info,
        state,
        read,
        start_seq=options.start_seq,
        start_time=options.start_time,
        follow=options.follow,
        lossy=options.on_data_loss == "warn",
    )
    source.is_rolled_back = back is not None
    return source, shape


async def _rolled_back(
    api: JetStreamApi, info: models.StreamInfo, state: State, on_rollback: OnRollback
) -> State | None:
    """Return the state to resume at if the stream was rolled back behind the position; else None."""
    error = await verify(api, state.stream, state.marks)
    if error is None and info.state.last_seq < state.last_seq:
        error = error_without_marks(state.stream, info.state.last_seq, state.last_seq)
    if error is None:
        return None
    if on_rollback == "fail":
        raise error
    warnings.warn(str(error), stacklevel=2)
    good = 0 if on_rollback == "earliest" or error.last_good is None else error.last_good[0]
    return state.rolled_back_to(good)


async def _schema(js: Sinks, stream: str, options: _Options, state: State | None) -> pyarrow.Schema | None:
    """Return the fields of `value`: those of the option, or those inferred at the first start."""
    if options.schema is None:
        return None
    if options.format in BINARY_FORMATS:
        columns: pyarrow.Schema = needs_pyarrow("a sink").schema(BinaryColumns(options.schema))
        return columns
    if options.schema != "infer":
        schema: pyarrow.Schema = needs_pyarrow("a sink").schema(arrow_schema(options.schema))
        return schema
    if state is not None and state.schema is not None:
        return from_text(state.schema)
    async with js.read(stream, subjects=options.subjects, schema="infer", start_seq=options.start_seq) as reader:
        await reader._open()
        return reader.inferred


def _open_range(api: JetStreamApi, stream: str, **options: Any) -> Reader:
    return Reader(api, ReadSpec(stream, **options))
