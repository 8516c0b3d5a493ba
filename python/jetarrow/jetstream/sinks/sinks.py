"""The verbs `to_parquet` and `to_delta` of a context, and the sources of their rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from jetarrow.core.docstrings import with_entries_of
from jetarrow.core.suggestions import suggests_keywords
from jetarrow.jetstream.arrow import ArrowSchema
from jetarrow.jetstream.binary_schema import ProtobufSchema
from jetarrow.jetstream.json_rules import json_rules
from jetarrow.jetstream.literals import (
    Evolve,
    OnDataLoss,
    OnRollback,
    RowFormat,
    SinkCompression,
    SinkDeletes,
    SinkMerge,
    TimestampNumbers,
    TimestampUnit,
    check_literal,
)
from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.read import ReadVerbs
from jetarrow.jetstream.registry import SchemaRegistry, registry_of

if TYPE_CHECKING:
    from jetarrow.jetstream.sinks.begin import SinkOptions
    from jetarrow.jetstream.sinks.sink import Sink, Target


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
        registry: SchemaRegistry | str | None = None,
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
            registry: With format "avro" or "protobuf" a schema registry, as in `js.read`. Without `schema` the archive
                keeps that of the first message.
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
        from jetarrow.jetstream.sinks.begin import SinkOptions, checked_schema, names_of
        from jetarrow.jetstream.sinks.parquet import ParquetTable

        check_literal("compression", compression, SinkCompression)
        target = ParquetTable(
            path,
            filesystem=filesystem,
            partition_by=names_of(partition_by),
            compression=compression,
            rows=rows,
        )
        place = registry_of(self._api.session, registry, format)
        options = SinkOptions(
            schema=checked_schema(schema, format, place),
            format=format,
            registry=place,
            flatten=flatten,
            subjects=subjects,
            start_seq=start_seq,
            start_time=start_time,
            partition_by=names_of(partition_by),
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
        registry: SchemaRegistry | str | None = None,
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
        merge: SinkMerge = "append",
        key: str | Sequence[str] | None = None,
        deletes: SinkDeletes = "markers",
        evolve: Evolve = "fail",
        progress: Progress | bool | None = None,
    ) -> Sink:
        """Archives a stream in a Delta table, each message exactly once despite failures (needs deltalake and pyarrow).

        A commit is one transaction of the table, with `app_id` and the last sequence as its version. Several streams
        may be archived in one table. Timestamps are in microseconds, as required by Delta. The rows of a commit are
        buffered in memory.

        With `merge="upsert"` the table has one row for each key. After each commit it has the last row of each key up
        to the position: with `key="subject"` it equals `js.latest`. Undecodable rows, and rows with a null in a key
        column, are written to `_corrupt/` and change no row. The result's `rows` are the merged messages.

        Args:
            stream: The stream.
            table_uri: A folder, or a URI that deltalake opens; the table is created if it does not exist.
            schema: As `to_parquet`.
            format: As `to_parquet`.
            registry: As `to_parquet`.
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
            merge: "append" adds a row for each message; "upsert" replaces the row of the message's key. Then one sink
                writes a stream to a table, `durable` is not possible, and `on_rollback` is "fail" or "earliest", which
                replaces the stream's rows.
            key: With "upsert": "subject", or the columns whose values are the key. Default: none.
            deletes: With "upsert": "markers" deletes the rows of a subject after a marker of a key-value bucket or of
                the server: it was deleted, purged or expired; "none" ignores markers.
            evolve: Reaction to columns of the rows that the table lacks: "fail" raises `SinkSchemaError`, "add" adds
                them as nullable columns in the transaction of the rows. A column whose type changed is an error in both
                cases.
            progress: As `to_parquet`.

        Returns:
            A sink, as `to_parquet`.

        Raises:
            ValueError: An argument is not valid.
            UnsupportedError: deltalake or pyarrow is not installed.
        """
        from jetarrow.jetstream.sinks.begin import SinkOptions, checked_schema, names_of
        from jetarrow.jetstream.sinks.delta import DeltaTarget
        from jetarrow.jetstream.sinks.delta_merge import DeltaMerge
        from jetarrow.jetstream.sinks.upsert import check_upsert, upsert_of

        check_literal("compression", compression, SinkCompression)
        upsert = upsert_of(merge, key, deletes)
        if upsert is not None:
            check_upsert(durable=durable, on_rollback=on_rollback)
        check_literal("evolve", evolve, Evolve)
        target = DeltaTarget(
            os.fspath(table_uri),
            storage_options=storage_options,
            app_id=app_id or f"jetarrow:{stream}",
            partition_by=names_of(partition_by),
            compression="uncompressed" if compression == "none" else compression,
            upsert=upsert,
            merge=DeltaMerge,
            evolve=evolve,
        )
        place = registry_of(self._api.session, registry, format)
        options = SinkOptions(
            schema=checked_schema(schema, format, place),
            format=format,
            registry=place,
            flatten=flatten,
            subjects=subjects,
            start_seq=start_seq,
            start_time=start_time,
            partition_by=names_of(partition_by),
            follow=follow,
            durable=durable,
            timestamp_unit="us",
            rules=json_rules(schema if format == "json" else None, time_zone, timestamp_numbers),
            on_data_loss=on_data_loss,
            on_rollback=on_rollback,
            rows=rows,
            escaped=True,
            upsert=upsert,
        )
        return self._sink(stream, target, options, seconds, progress)

    def _sink(
        self, stream: str, target: Target, options: SinkOptions, seconds: float, progress: Progress | bool | None
    ) -> Sink:
        from jetarrow.jetstream.sinks.begin import begin, names_of
        from jetarrow.jetstream.sinks.lag import Start, count_lag
        from jetarrow.jetstream.sinks.sink import Sink

        for name, kind in ("timestamp_unit", TimestampUnit), ("on_data_loss", OnDataLoss), ("on_rollback", OnRollback):
            check_literal(name, getattr(options, name), kind)
        if options.start_seq is not None and options.start_time is not None:
            raise ValueError("start_seq and start_time exclude each other: give one of them")
        start = Start(options.start_seq, options.start_time, tuple(names_of(options.subjects)), options.durable)
        return Sink(
            self._api.session,
            stream,
            target,
            partial(begin, self, stream, options, str(target)),
            partial(count_lag, self._api, stream, start),
            rows=options.rows,
            seconds=seconds,
            progress=progress,
            on_rollback=options.on_rollback,
        )
