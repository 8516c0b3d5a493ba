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

from jetarrow.spark.errors import hide_traceback
from jetarrow.spark.options.write import WriteOptions

from .group_writer import GroupWriter
from .groups import in_two_tasks
from .partition_writer import PartitionWriter
from .state import BatchName
from .target import Target

_log = logging.getLogger("jetarrow.spark")


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task reports.

    Attributes:
        rows: Rows that the stream has.
        duplicates: How many of them it had before; 0 in mode fast, where the server does not say.
        expected: Whether that is how it should be: the task was tried again, or has itself sent rows again.
        groups: With `atomicBy` eight bytes for each group.
        query: Spark's id of the streaming query. Default: none.
    """

    rows: int
    duplicates: int
    expected: bool
    groups: bytes = b""
    query: str | None = None


class JetStreamWriter(DataSourceArrowWriter):
    """Appends the rows of a DataFrame.

    A failed task is written again by Spark, and its rows have the same ids: what was stored is not stored twice.

    Args:
        options: Checked options.
        target: The streams, as `target.prepare` has found them.
    """

    def __init__(self, options: WriteOptions, target: Target) -> None:
        self._options = options
        self._target = target
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
        return write_partition(self._options, self._target, iterator, scope=self._job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say in the driver's log what was not stored because the stream had it.

        Args:
            messages: What the tasks report.

        Raises:
            ValueError: As `check_groups`.
        """
        report_duplicates(self._options.target, messages, named=self._options.dedup_scope)
        check_groups(self._options, messages)


def write_partition(
    options: WriteOptions,
    target: Target,
    rows: Iterator[pa.RecordBatch],
    *,
    scope: str,
    name: BatchName | None = None,
) -> Written:
    """Publish the rows of one task.

    Args:
        options: Checked options.
        target: The streams.
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
        writer = made(options, window=target.window, scope=scope, partition=partition, name=name, routes=target.routes)
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


def report_duplicates(target: str, messages: Sequence[WriterCommitMessage | None], *, named: str | None = None) -> None:
    """Say how many rows the stream had before: a line in the log where tasks were tried again, else a warning.

    Args:
        target: Which they are, in words.
        messages: What the tasks report.
        named: Which batch it is, where it has the same ids when it is repeated. Default: none, it has others then.
    """
    tasks = [message for message in messages if isinstance(message, Written)]
    rows = sum(task.rows for task in tasks)
    again = sum(task.duplicates for task in tasks if task.expected)
    unexpected = sum(task.duplicates for task in tasks if not task.expected)
    where = target if named is None else f"{target}, {named}"
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
