"""The sink of a batch, `df.write.format("jetstream")`, and what it shares with that of a stream."""

from __future__ import annotations

import logging
import uuid
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from jetarrow.core.errors import UnsupportedError
from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.models import StreamInfo
from jetarrow.spark.connection import connect, jetstream, no_such_stream
from jetarrow.spark.errors import hide_traceback
from jetarrow.spark.options.choices import Dedup, PublishMode
from jetarrow.spark.options.texts import invalid
from jetarrow.spark.options.write import WriteOptions

from .group_writer import GroupWriter
from .groups import in_two_tasks
from .partition_writer import PartitionWriter
from .rows import check_columns
from .state import BatchName, check_target, open_bucket

_log = logging.getLogger("jetarrow.spark")
# The flag of a stream that allows a mode.
_NEEDED_FLAGS = {PublishMode.FAST: "allow_batched", PublishMode.ATOMIC: "allow_atomic"}
# Duplicate windows of the streams that this process has looked at, in seconds: Spark makes a new writer for every
# micro-batch, and one more to commit it. A task asks anew before it relies on one.
_known_windows: dict[WriteOptions, float] = {}


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task reports.

    Attributes:
        rows: Rows that the stream has.
        duplicates: How many of them it had before; 0 in mode fast, where the server does not say.
        expected: Whether that is how it should be: the task was tried again, or has itself sent rows again.
        groups: With `atomicBy` eight bytes for each group.
    """

    rows: int
    duplicates: int
    expected: bool
    groups: bytes = b""


class JetStreamWriter(DataSourceArrowWriter):
    """Appends the rows of a DataFrame.

    A failed task is written again by Spark, and its rows have the same ids: what was stored is not stored twice.

    Args:
        options: Checked options.
        window: The stream's duplicate window, in seconds.
    """

    def __init__(self, options: WriteOptions, window: float) -> None:
        self._options = options
        self._window = window
        # Pickled to every attempt of every task.
        self._job = options.dedup_scope or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish the rows of one task.

        Args:
            iterator: Arrow batches, read as they are published.

        Returns:
            What was written, for Spark.

        Raises:
            BatchError: A row was not stored: the first one, with the server's codes.
            NoServersError: No server has answered for 30 seconds.
        """
        return write_partition(self._options, self._window, iterator, scope=self._job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say in the driver's log what was not stored because the stream had it.

        Args:
            messages: What the tasks report.

        Raises:
            ValueError: As `check_groups`.
        """
        tell_duplicates(self._options.stream, messages, named=self._options.dedup_scope)
        check_groups(self._options, messages)


def write_partition(
    options: WriteOptions,
    window: float,
    rows: Iterator[pa.RecordBatch],
    *,
    scope: str,
    name: BatchName | None = None,
) -> Written:
    """Publish the rows of one task.

    Args:
        options: Checked options.
        window: The stream's duplicate window, in seconds.
        rows: Arrow batches, read as they are published.
        scope: Names the query and the batch.
        name: What is written, where `sink_state` is to remember it. Default: none.

    Raises:
        Exception: As `PartitionWriter.write`.
    """
    context = TaskContext.get()
    assert context is not None
    partition = context.partitionId()
    with hide_traceback():
        scope = f"{scope}:{partition}"
        made = PartitionWriter if options.atomic_by is None else GroupWriter
        writer = made(options, window=window, scope=scope, partition=partition, name=name)
        count = writer.write(rows)
        again = context.attemptNumber() > 0 or writer.sent_again
        return Written(count, writer.duplicates, expected=again, groups=writer.groups)


def check_groups(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Check that no group of `atomicBy` was written by two tasks, each of which has stored its part of it.

    Args:
        options: Checked options.
        messages: What the tasks report.

    Raises:
        ValueError: One was: the rows are stored, but not as they should be.
    """
    if options.atomic_by is None:
        return
    found = [message.groups for message in messages if isinstance(message, Written)]
    with hide_traceback():
        if (problem := in_two_tasks(options.atomic_by, found)) is not None:
            raise ValueError(problem)


def tell_duplicates(stream: str, messages: Sequence[WriterCommitMessage | None], *, named: str | None = None) -> None:
    """Say how many rows the stream had before: a line in the log where tasks were tried again, else a warning.

    Args:
        stream: Its name.
        messages: What the tasks report.
        named: Which batch it is, where it has the same ids when it is repeated. Default: none, it has others then.
    """
    tasks = [message for message in messages if isinstance(message, Written)]
    rows = sum(task.rows for task in tasks)
    again = sum(task.duplicates for task in tasks if task.expected)
    unexpected = sum(task.duplicates for task in tasks if not task.expected)
    where = f"stream {stream!r}" if named is None else f"stream {stream!r}, {named}"
    if again:
        _log.info("jetstream: %s had %d of %d rows already: tasks were tried again", where, again, rows)
    if unexpected:
        replayed = "" if named is None else " That is right if a restart has replayed this batch; else"
        warnings.warn(
            f"jetstream: {where}: {unexpected} of {rows} rows were not stored, as the stream had messages with their"
            f" ids.{replayed or ' Either'} the same was written before within the duplicate window, or rows of two"
            " partitions have one msg_id: an id stands for one row of the output",
            stacklevel=3,
        )


def prepare(schema: StructType, options: WriteOptions, *, overwrite: bool, streaming: bool) -> float:
    """Check everything that can be known on the driver, before a task runs.

    Args:
        schema: The DataFrame's.
        options: Checked options.
        overwrite: What Spark makes of the save mode, or of the output mode.
        streaming: Whether the writer is for a micro-batch; the stream is looked at for the first one only.

    Returns:
        The stream's duplicate window, in seconds.

    Raises:
        ValueError: A column does not fit, or rows that are there would have to go.
        UnsupportedError: The stream does not allow this `publishMode`.
        NotFoundError: There is no such stream.
        NoServersError: No server answers within the connect timeout.
    """
    if overwrite:
        asked, instead = ("outputMode complete", "append or update") if streaming else ("mode overwrite", "append")
        raise ValueError(
            f"jetstream: {asked} would have to delete the messages of stream {options.stream!r}, for all who read it,"
            f" and is never done; use {instead}, and purge the stream yourself where that is meant"
        )
    check_columns(schema, subject=options.subject, atomic_by=options.atomic_by)
    if streaming and options.dedup_scope is not None:
        raise invalid(
            "dedupScope", "a streaming query names its batches itself", "leave it out; it is for foreachBatch"
        )
    if not streaming and options.sink_state is not None:
        raise invalid("exactlyOnce", "state is for streaming queries", "window; with dedupScope in foreachBatch")
    if streaming and options in _known_windows:
        return _known_windows[options]
    info = _stream_info(options)
    flag = _NEEDED_FLAGS.get(options.publish_mode)
    if flag is not None and not getattr(info.config, flag):
        raise UnsupportedError(
            f"publishMode={options.publish_mode}", f"a stream with {flag}", f"stream {options.stream!r} has it off"
        )
    window = float(info.config.duplicate_window or 0)
    if options.sink_state is not None:
        check_target(info)
        with connect(options.connection) as client:
            js = jetstream(client, options.connection)
            open_bucket(js, options.sink_state, replicas=info.config.num_replicas or 1)
    has_ids = options.dedup == Dedup.CONTENT or "msg_id" in schema.names
    if has_ids and window < options.recovery_window and options.sink_state is None:
        warnings.warn(
            f"jetstream: stream {options.stream!r} recognises duplicates for {window:g} s, which is less than"
            f" recoveryWindow={options.recovery_window:g} s: what Spark writes again after more than that is stored"
            " twice; raise the stream's duplicate_window, or lower recoveryWindow",
            stacklevel=3,
        )
    _known_windows[options] = window
    return window


def _stream_info(options: WriteOptions) -> StreamInfo:
    # A connection of its own: a server that has gone is noticed now, and within the connect timeout.
    with connect(options.connection) as client:
        try:
            return jetstream(client, options.connection).stream_info(options.stream)
        except NotFoundError as error:
            raise no_such_stream(error, options.stream, options.connection) from None
