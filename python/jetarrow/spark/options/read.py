"""The options of ``format("jetstream")`` for reading: read, checked, defaulted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .bounds import EARLIEST, LATEST, Bound, bounds
from .connection import CONNECT_OPTIONS, ConnectOptions, connect_options
from .subjects import subject_filters
from .texts import Given, invalid, stream_names

__all__ = ["EARLIEST", "LATEST", "READ_OPTIONS", "ReadOptions", "RowOptions", "read_options"]

READ_OPTIONS = (
    *CONNECT_OPTIONS,
    "stream",
    "streamPattern",
    "subjects",
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
    "maxOffsetsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "includeTimeNs",
    "includeReply",
    "payload",
    "valueSchema",
    "mode",
    "columnNameOfCorruptRecord",
    "compression",
    "reader",
    "fetchBytes",
    "batchRows",
    "batchBytes",
    "commitMode",
    "commitConsumer",
    "pushdown",
)
MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")


@dataclass(frozen=True)
class RowOptions:
    """What becomes of a message.

    Attributes:
        headers, time_ns, reply: Whether the optional columns are there. Default: headers.
        payload: binary, string or json. Default: binary.
        value_schema: For json: the fields of `value`, as DDL or Spark's JSON. Default: None, a schema says it.
        mode: What becomes of payloads that cannot be decoded, one of MODES. Default: None, not said.
        corrupt_column: Name of the column for such payloads. Default: _corrupt_record.
        compression: none, zlib or zstd. Default: none.
    """

    headers: bool = True
    time_ns: bool = False
    reply: bool = False
    payload: str = "binary"
    value_schema: str | None = None
    mode: str | None = None
    corrupt_column: str = "_corrupt_record"
    compression: str = "none"


@dataclass(frozen=True)
class ReadOptions:
    """Checked options of a read. Units as in the options; None is no limit, or not said.

    Attributes:
        connection: Where to connect, and as whom.
        streams: Names of streams, in the order given; empty where `pattern` finds them.
        pattern: A regular expression for the whole name of a stream.
        subjects: Filters; none is all.
        start, end: What to read.
        rows: What becomes of a message.
        fail_on_data_loss: true, false or strict; None where the stream's kind decides.
        reader: auto, pull or direct.
        commit_mode: none, purge or consumer; `commit_consumer` is that consumer's name.
        max_trigger_delay: In seconds.
    """

    connection: ConnectOptions
    streams: tuple[str, ...]
    pattern: str | None
    subjects: tuple[str, ...]
    start: Bound
    end: Bound
    rows: RowOptions
    max_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: float
    min_partitions: int
    max_offsets_per_partition: int
    fail_on_data_loss: str | None
    reader: str
    fetch_bytes: int
    batch_rows: int
    batch_bytes: int
    commit_mode: str
    commit_consumer: str | None
    pushdown: bool


def read_options(given: Mapping[str, str], *, streaming: bool | None = False) -> ReadOptions:
    """Read and check the options of a read.

    Args:
        given: What the user and Spark have set, name to text. Names in any case; unknown ones are left alone.
        streaming: Whether it is a streaming query; None where that is not known yet. Default: False.

    Returns:
        With defaults filled in.

    Raises:
        ValueError: An option is missing, or its value is not valid: one line that names the valid values.
    """
    options = Given(given, READ_OPTIONS)
    streams, pattern = _streams(options)
    start, end = bounds(options, streams, streaming=streaming)
    fail = options.choice("failOnDataLoss", ("true", "false", "strict"))
    commit_mode, commit_consumer = _commit(options, start, streaming=streaming)
    return ReadOptions(
        connection=connect_options(options),
        streams=streams,
        pattern=pattern,
        subjects=subject_filters(options.text("subjects")),
        start=start,
        end=end,
        rows=_rows(options),
        max_offsets_per_trigger=options.limit("maxOffsetsPerTrigger"),
        max_bytes_per_trigger=options.size_limit("maxBytesPerTrigger"),
        min_offsets_per_trigger=options.limit("minOffsetsPerTrigger"),
        max_trigger_delay=options.seconds("maxTriggerDelay", "15m"),
        min_partitions=options.positive("minPartitions", 1),
        max_offsets_per_partition=options.positive("maxOffsetsPerPartition", 1_000_000),
        fail_on_data_loss=fail if options.text("failOnDataLoss") else None,
        reader=options.choice("reader", ("auto", "pull", "direct")),
        fetch_bytes=options.size("fetchBytes", "8m"),
        batch_rows=options.positive("batchRows", 65_536),
        batch_bytes=options.size("batchBytes", "8m"),
        commit_mode=commit_mode,
        commit_consumer=commit_consumer,
        pushdown=options.flag("pushdown", default=False),
    )


def _streams(options: Given) -> tuple[tuple[str, ...], str | None]:
    pattern = options.text("streamPattern")
    if pattern is None:
        return stream_names(options.required("stream", "the name of a stream, or a comma list of names")), None
    if options.text("stream") is not None:
        raise invalid("streamPattern", "does not go with 'stream'", "one of the two")
    try:
        re.compile(pattern)
    except re.error as error:
        valid = "a regular expression for the whole name, such as orders_.*"
        raise invalid("streamPattern", f"{pattern!r} is not a regular expression: {error}", valid) from None
    return (), pattern


def _rows(options: Given) -> RowOptions:
    payload, mode = options.choice("payload", ("binary", "string", "json")), options.text("mode")
    value_schema = options.text("valueSchema")
    if value_schema is not None and payload != "json":
        raise invalid("valueSchema", "needs payload=json", "payload=json with it")
    return RowOptions(
        headers=options.flag("includeHeaders", default=True),
        time_ns=options.flag("includeTimeNs", default=False),
        reply=options.flag("includeReply", default=False),
        payload=payload,
        value_schema=value_schema,
        mode=None if mode is None else options.choice("mode", MODES),
        corrupt_column=options.text("columnNameOfCorruptRecord") or "_corrupt_record",
        compression=options.choice("compression", ("none", "zlib", "zstd")),
    )


def _commit(options: Given, start: Bound, *, streaming: bool | None) -> tuple[str, str | None]:
    mode, consumer = options.choice("commitMode", ("none", "purge", "consumer")), options.text("commitConsumer")
    if mode != "none" and streaming is False:
        raise invalid("commitMode", "a batch read commits nothing", "none, or a streaming query")
    if mode == "purge" and (start.time is not None or start.named or start.default not in (None, EARLIEST)):
        # A purge has no lower bound: it would take what was never read.
        name = "startingTimestamp" if start.time is not None else "startingOffsets"
        raise invalid(name, "does not go with commitMode=purge, which removes from the head on", "earliest")
    if (mode == "consumer") != (consumer is not None):
        raise invalid("commitConsumer", f"and commitMode={mode} do not go together", "a name, with commitMode=consumer")
    if consumer is not None and re.search(r"[\s.*>/\\]", consumer):
        raise invalid("commitConsumer", f"{consumer!r} cannot be a consumer", "a name without spaces, dots, * and >")
    return mode, consumer
