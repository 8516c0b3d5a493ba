"""`readMode=latest`: reads the last message of each subject."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from jetarrow.jetstream.errors import NotFoundError, StreamRolledBackError
from jetarrow.jetstream.models import StreamInfo
from jetarrow.spark._core import LatestReader, Mark
from jetarrow.spark.connection import no_such_stream, retry_transient, shared_jetstream
from jetarrow.spark.options.bounds import LATEST
from jetarrow.spark.options.option_texts import invalid
from jetarrow.spark.options.read import ReadOptions

from .history import marks_before, spark_error
from .metadata import Lookup, check_created, consumes, created, end_sequence, retention
from .partition_reader import is_rolled_back
from .partitioning import check_named, position
from .rows import RowShaper


@dataclass(frozen=True)
class StreamState(InputPartition):
    """One partition: the last message of each subject of a stream, or of those that a filter matches.

    Attributes:
        stream: Name of the stream.
        created: Creation time of the stream that was planned.
        subject: The filter. Default: all.
        as_of: The last sequence of the state. Default: the stream's last one when it is read.
        marks: Marks of the stream at planning. Default: none.
    """

    stream: str
    created: str
    subject: str | None = None
    as_of: int | None = None
    marks: tuple[Mark, ...] = ()


def plan_states(options: ReadOptions, infos: Mapping[str, StreamInfo], lookup: Lookup) -> list[StreamState]:
    """Plan a batch: a partition for each stream, or for each of the filters in it.

    Args:
        options: Validated options of the read.
        infos: Present info of the streams, by name.
        lookup: Lookup of times.

    Raises:
        ValueError: A stream removes consumed messages; or as `partitioning.check_named`.
    """
    check_named(options, infos)
    found = []
    for name, info in infos.items():
        if consumes(info):
            raise invalid(
                "readMode", f"{retention(info)} stream {name!r} keeps no state", "all (default); latest for limits"
            )
        wanted, last = options.end.of(name, LATEST), end_sequence(info)
        end = min(last, position(wanted, options.end.time, lookup, stream=name, latest=last))
        # A stream with a limit per subject loses its state at an earlier sequence when messages are published.
        keeps = (info.config.max_msgs_per_subject or 0) <= 0
        exact = keeps or options.end.time is not None or wanted != LATEST
        if info.state.messages and end > 1:
            as_of = end - 1 if exact else None
            marks = marks_before({name: end}, infos, lookup)[name]
            found += [StreamState(name, created(info), one, as_of, marks) for one in options.subjects or (None,)]
    return found


def read_state(schema: StructType, options: ReadOptions, partition: StreamState) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one partition, in order of sequence.

    Args:
        schema: Columns to read.
        options: Validated options.
        partition: The stream and subject filter to read.

    Yields:
        Arrow batches of the exact schema that Spark requires, none of them empty.

    Raises:
        NoServersError: No server responds for `reconnectTimeout`.
        TimeoutError: No server responds for `reconnectTimeout` during the read.
        NotFoundError: The stream was deleted after planning.
        StreamRecreatedError: The stream was deleted and created again.
        StreamRolledBackError: The stream was rolled back after planning.
        DataLossError: The stream has no message up to `partition.as_of`.
        DecodeError: A payload cannot be decoded, and the mode is FAILFAST.
    """
    shape = RowShaper(schema, options.rows, batch_bytes=options.batch_bytes)

    def opened() -> LatestReader:
        js = shared_jetstream(options.connection)
        if shape.tables is not None:
            shape.tables.read_types(js, partition.stream, [partition.subject] if partition.subject else (), start=None)
        return LatestReader(
            js,
            partition.stream,
            subjects=partition.subject,
            as_of_seq=partition.as_of,
            **shape.arguments(),
            batch_rows=options.batch_rows,
            batch_bytes=options.batch_bytes,
            fetch_bytes=options.fetch_bytes,
            outage=options.reconnect_timeout,
        )

    try:
        reader = retry_transient(opened, timeout=options.reconnect_timeout)
        try:
            check_created(partition.stream, partition.created, reader.created)
            is_rolled_back(options, partition.stream, partition.marks)
            while (batch := reader.next_batch()) is not None:
                yield from shape(batch, partition.stream)
        finally:
            reader.close()
    except StreamRolledBackError as error:
        raise spark_error(error) from None
    except NotFoundError as error:
        raise no_such_stream(error, partition.stream, options.connection, gone=True) from None
