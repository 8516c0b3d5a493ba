"""The options of a read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from jetarrow.spark._core import is_name

from .bounds import EARLIEST, Bound, bounds
from .choices import (
    CommitMode,
    Compression,
    FailOnDataLoss,
    HeaderValues,
    OnRecreated,
    OnRollback,
    ParseMode,
    Payload,
    ReaderKind,
    ReadMode,
    TimestampNumbers,
)
from .connection import CONNECT_OPTIONS, ConnectOptions, connect_options
from .option_texts import OptionTexts, invalid, name_pattern, stream_names
from .partition_by import partition_by
from .payload_schema import PAYLOAD_SCHEMA_OPTIONS, PayloadSchemaOptions, payload_schema_options
from .session_zone import driver_zone, native_zone
from .subjects import subject_filters
from .times import check_zone

_Going = TypeVar("_Going", OnRecreated, OnRollback)
# Limit of the 32-bit offsets of an Arrow batch, with a reserve for the rest of the batch.
_MOST_PAYLOAD_BYTES = 512 << 20

READ_OPTIONS = (
    *CONNECT_OPTIONS,
    "stream",
    "streamPattern",
    "subjects",
    "readMode",
    "startingOffsets",
    "startingTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "timeZone",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "partitionBy",
    "maxPartitionBytes",
    "maxRecordsPerPartition",
    "maxBytesPerPartition",
    "maxOffsetsPerPartition",
    "failOnDataLoss",
    "onRecreated",
    "onRollback",
    "includeHeaders",
    "includeReservedHeaders",
    "headers",
    "includeTimeNs",
    "includeReply",
    "payload",
    "valueSchema",
    *PAYLOAD_SCHEMA_OPTIONS,
    "mode",
    "timestampNumbers",
    "allowNonNumericNumbers",
    "columnNameOfCorruptRecord",
    "compression",
    "maxPayloadBytes",
    "reconnectTimeout",
    "reader",
    "fetchBytes",
    "batchRows",
    "batchBytes",
    "commitMode",
    "commitConsumer",
    "pushdown",
)


@dataclass(frozen=True)
class RowOptions:
    """Conversion of messages to rows.

    Attributes:
        headers: Whether there is a column `headers`. Default: True.
        time_ns: Whether there is a column `time_ns`. Default: False.
        reply: Whether there is a column `reply`. Default: False.
        payload: Decoding of the payload. Default: binary.
        value_schema: For JSON and Arrow: the fields of `value`, as DDL or Spark's JSON. Default: None, the schema of
            the read.
        mode: Handling of undecodable payloads. Default: None, not set.
        corrupt_column: Name of the column for such payloads. Default: _corrupt_record.
        compression: Compression of payloads. Default: none.
        max_payload_bytes: Maximum size in bytes of a decompressed payload. Default: 64 MiB.
        reserved_headers: Whether `headers` contains ids, expectations and batches, which a write refuses. Default:
            False.
        header_values: Type of the values of headers. Default: string.
        time_zone: Zone of JSON times without an offset. Default: None, the session's.
        driver_zone: Zone of a session that has set none: that of the driver. Default: UTC.
        timestamp_numbers: Unit of JSON numbers in timestamp fields. Default: None, as `from_json`.
        non_finite: Whether JSON floats may be NaN or infinite. Default: True.
        payload_schema: The schema of Avro and Protobuf payloads. Default: None, another payload.
    """

    headers: bool = True
    time_ns: bool = False
    reply: bool = False
    payload: Payload = Payload.BINARY
    value_schema: str | None = None
    mode: ParseMode | None = None
    corrupt_column: str = "_corrupt_record"
    compression: Compression = Compression.NONE
    max_payload_bytes: int = 64 << 20
    reserved_headers: bool = False
    header_values: HeaderValues = HeaderValues.STRING
    time_zone: str | None = None
    driver_zone: str = field(default="UTC", compare=False)
    timestamp_numbers: TimestampNumbers | None = None
    non_finite: bool = True
    payload_schema: PayloadSchemaOptions | None = None

    @property
    def decoded(self) -> bool:
        """Whether payloads are decoded into a column `value`, so that they may be malformed."""
        return self.payload not in (Payload.BINARY, Payload.STRING)


@dataclass(frozen=True)
class ReadOptions:
    """Validated options of a read.

    Attributes:
        connection: Servers and credentials.
        streams: Names of streams, in the given order; empty if `pattern` selects them.
        pattern: A regular expression for the whole name of a stream.
        subjects: Subject filters; empty for all subjects.
        read_mode: Selection of messages.
        start: Begin of the read.
        end: End of the read.
        rows: Conversion of messages to rows.
        max_offsets_per_trigger: Maximum number of sequences of a micro-batch; None for no limit.
        max_bytes_per_trigger: Maximum size in bytes of a micro-batch, estimated; None for no limit.
        min_offsets_per_trigger: Number of sequences that a micro-batch waits for; None for none.
        max_trigger_delay: Maximum wait for them in seconds.
        min_partitions: Minimum number of partitions of a batch, if it has as many messages; None to use two for ranges
            above 4 MiB.
        partition_by: Positions of the subject's tokens that are the key of a partition, from 1; empty for partitions by
            sequence.
        max_partition_bytes: Maximum size in bytes of a partition, estimated by the stream's average, as the setting
            spark.sql.files.maxPartitionBytes for files.
        max_records_per_partition: Maximum number of messages of a partition, if they are evenly distributed.
        max_bytes_per_partition: A second limit as `max_partition_bytes`, of which the lower one applies; None for none.
        max_offsets_per_partition: Maximum number of sequences of a partition; None for no limit.
        fail_on_data_loss: Whether lost messages are an error; None if it depends on the stream's configuration.
        on_recreated: Reaction to a stream that was deleted and created again.
        on_rollback: Reaction to a rollback of a stream behind the position.
        reconnect_timeout: Seconds for which a running read waits for unavailable servers.
        reader: Protocol of the read.
        fetch_bytes: Maximum number of bytes that a task has requested and not received yet.
        batch_rows: Maximum number of rows of an Arrow batch.
        batch_bytes: Maximum size in bytes of an Arrow batch.
        commit_mode: Removal of processed messages.
        commit_consumer: Name of the consumer if `commit_mode` is consumer, else None.
        pushdown: Whether Spark's filters are pushed down.
    """

    connection: ConnectOptions
    streams: tuple[str, ...]
    pattern: str | None
    subjects: tuple[str, ...]
    read_mode: ReadMode
    start: Bound
    end: Bound
    rows: RowOptions
    max_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: float
    min_partitions: int | None
    partition_by: tuple[int, ...]
    max_partition_bytes: int
    max_records_per_partition: int
    max_bytes_per_partition: int | None
    max_offsets_per_partition: int | None
    fail_on_data_loss: FailOnDataLoss | None
    on_recreated: OnRecreated
    on_rollback: OnRollback
    reconnect_timeout: float
    reader: ReaderKind
    fetch_bytes: int
    batch_rows: int
    batch_bytes: int
    commit_mode: CommitMode
    commit_consumer: str | None
    pushdown: bool


def read_options(given: Mapping[str, str], *, streaming: bool | None = False) -> ReadOptions:
    """Read and check the options of a read.

    Args:
        given: Options of the user and of Spark, text by name. Names are not case-sensitive; unknown ones are ignored.
        streaming: Whether it is a streaming query; None if it is not known yet. Default: False.

    Returns:
        The options with defaults.

    Raises:
        ValueError: An option is missing or not valid; the message has the valid values in one line.
    """
    options = OptionTexts(given, READ_OPTIONS)
    streams, pattern = _streams(options)
    start, end = bounds(options, streams, streaming=streaming)
    commit_mode, commit_consumer = _commit(options, start, streaming=streaming)
    return ReadOptions(
        connection=connect_options(options),
        streams=streams,
        pattern=pattern,
        subjects=subject_filters(options.text("subjects")),
        read_mode=_read_mode(options, start, streaming=streaming),
        start=start,
        end=end,
        rows=_rows(options),
        max_offsets_per_trigger=options.limit("maxOffsetsPerTrigger"),
        max_bytes_per_trigger=options.size_limit("maxBytesPerTrigger"),
        min_offsets_per_trigger=options.limit("minOffsetsPerTrigger"),
        max_trigger_delay=options.seconds("maxTriggerDelay", "15m"),
        min_partitions=options.limit("minPartitions"),
        partition_by=partition_by(options),
        max_partition_bytes=options.size("maxPartitionBytes", "128m"),
        max_records_per_partition=options.positive("maxRecordsPerPartition", 250_000),
        max_bytes_per_partition=options.size_limit("maxBytesPerPartition"),
        max_offsets_per_partition=options.limit("maxOffsetsPerPartition"),
        fail_on_data_loss=options.choice_or_none("failOnDataLoss", FailOnDataLoss),
        on_recreated=_where_to_go_on(options, "onRecreated", OnRecreated, streaming=streaming),
        on_rollback=_where_to_go_on(options, "onRollback", OnRollback, streaming=streaming),
        reconnect_timeout=_reconnect_timeout(options),
        reader=options.choice("reader", ReaderKind),
        fetch_bytes=options.size("fetchBytes", "8m"),
        batch_rows=options.positive("batchRows", 65_536),
        batch_bytes=options.size("batchBytes", "2m"),
        commit_mode=commit_mode,
        commit_consumer=commit_consumer,
        pushdown=options.flag("pushdown", default=False),
    )


def with_payload_schema(options: ReadOptions) -> ReadOptions:
    """Return the options with the schema of the payloads, fetched from the registry if it is not given.

    Args:
        options: The options.

    Raises:
        SchemaRegistryError: The registry does not answer.
    """
    schema = options.rows.payload_schema
    if schema is None:
        return options
    return replace(options, rows=replace(options.rows, payload_schema=schema.known()))


def _streams(options: OptionTexts) -> tuple[tuple[str, ...], str | None]:
    pattern = options.text("streamPattern")
    if pattern is None:
        return stream_names(options.required("stream", "the name of a stream, or a comma list of names")), None
    if options.text("stream") is not None:
        raise invalid("streamPattern", "does not go with 'stream'", "one of the two")
    return (), name_pattern(pattern)


def _read_mode(options: OptionTexts, start: Bound, *, streaming: bool | None) -> ReadMode:
    chosen = options.choice("readMode", ReadMode)
    if chosen == ReadMode.LATEST:
        if streaming:
            raise invalid("readMode", "a streaming query reads new messages", "all (default); latest in a batch")
        if start.time is not None or start.named or start.default not in (None, EARLIEST):
            name = "startingTimestamp" if start.time is not None else "startingOffsets"
            raise invalid(name, "does not go with readMode=latest, which has no beginning", "leave it out")
        if options.choice("reader", ReaderKind) != ReaderKind.AUTO or options.flag("pushdown", default=False):
            raise invalid("readMode", "latest has one way to read", "leave out 'reader' and 'pushdown'")
    return chosen


def _where_to_go_on(options: OptionTexts, name: str, kind: type[_Going], *, streaming: bool | None) -> _Going:
    chosen = options.choice(name, kind)
    if chosen != "fail" and streaming is False:
        raise invalid(
            name, "a batch read has no position to continue at", "fail, or a streaming query; load() it again"
        )
    return chosen


def _rows(options: OptionTexts) -> RowOptions:
    payload, value_schema = options.choice("payload", Payload), options.text("valueSchema")
    compression = options.choice("compression", Compression)
    if payload == Payload.ARROW and compression != Compression.NONE:
        raise invalid("compression", "does not go with payload=arrow, whose messages contain their compression", "none")
    zone = check_zone(options.text("timeZone"))
    rows = RowOptions(
        headers=options.flag("includeHeaders", default=True),
        reserved_headers=options.flag("includeReservedHeaders", default=False),
        header_values=options.choice("headers", HeaderValues),
        time_ns=options.flag("includeTimeNs", default=False),
        reply=options.flag("includeReply", default=False),
        payload=payload,
        value_schema=value_schema,
        payload_schema=payload_schema_options(options, payload),
        mode=options.choice_or_none("mode", ParseMode),
        corrupt_column=options.text("columnNameOfCorruptRecord") or "_corrupt_record",
        compression=compression,
        max_payload_bytes=_max_payload_bytes(options),
        time_zone=None if zone is None else native_zone(zone),
        driver_zone=driver_zone(),
        timestamp_numbers=options.choice_or_none("timestampNumbers", TimestampNumbers),
        non_finite=options.flag("allowNonNumericNumbers", default=True),
    )
    if value_schema is not None and payload not in (Payload.JSON, Payload.ARROW):
        raise invalid("valueSchema", "needs payload=json or arrow", "one of the two with it")
    return rows


def _max_payload_bytes(options: OptionTexts) -> int:
    most = options.size("maxPayloadBytes", "64m")
    if most > _MOST_PAYLOAD_BYTES:
        raise invalid("maxPayloadBytes", f"{most} is more than a batch can hold", "up to 512m, default 64m")
    return most


def _reconnect_timeout(options: OptionTexts) -> float:
    seconds = options.seconds("reconnectTimeout", "60s")
    if seconds < 1:
        raise invalid(
            "reconnectTimeout", f"{seconds:g} s is less than a server needs to restart", "from 1s, default 60s"
        )
    return seconds


def _commit(options: OptionTexts, start: Bound, *, streaming: bool | None) -> tuple[CommitMode, str | None]:
    mode, consumer = options.choice("commitMode", CommitMode), options.text("commitConsumer")
    if mode != CommitMode.NONE and streaming is False:
        raise invalid("commitMode", "a batch read commits nothing", "none, or a streaming query")
    if mode == CommitMode.PURGE and (start.time is not None or start.named or start.default not in (None, EARLIEST)):
        # A purge has no lower bound, so it would remove unread messages.
        name = "startingTimestamp" if start.time is not None else "startingOffsets"
        raise invalid(name, "does not go with commitMode=purge, which removes from the head on", "earliest")
    if (mode == CommitMode.CONSUMER) != (consumer is not None):
        raise invalid("commitConsumer", f"and commitMode={mode} do not go together", "a name, with commitMode=consumer")
    if consumer is not None and not is_name(consumer):
        raise invalid("commitConsumer", f"{consumer!r} cannot be a consumer", "a name without spaces, dots, * and >")
    return mode, consumer
