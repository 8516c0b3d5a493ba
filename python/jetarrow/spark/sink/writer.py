"""The sink of a batch, `df.write.format("jetstream")`, and code shared with the sink of a stream."""

from __future__ import annotations

import logging
import re
import uuid
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from jetarrow.spark.errors import hide_traceback
from jetarrow.spark.options.write import WriteOptions

from .batch_records import BatchName
from .group_writer import GroupWriter
from .groups import in_two_tasks
from .partition_writer import PartitionWriter
from .progress_file import note_write
from .state import Replayed
from .target import Target

_log = logging.getLogger("jetarrow.spark")
# Local properties of a task in `foreachBatch`: run and batch of the query, and the write.
_EXECUTION = ("spark.jobGroup.id", "streaming.sql.batchId", "spark.sql.execution.id")
_RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """Commit message of a task.

    Attributes:
        rows: Number of rows that the stream has.
        duplicates: Number of rows that it already had; 0 in mode fast, whose acks do not contain it.
        expected: Whether duplicates are expected, because the task was retried or has resent rows.
        groups: With `atomicBy` eight bytes for each group.
        query: Spark's id of the streaming query. Default: none.
        replayed: As `TaskWriter.replayed`.
        execution: Run and batch of the query whose `foreachBatch` writes, and Spark's id of the write. Default: none.
    """

    rows: int
    duplicates: int
    expected: bool
    groups: bytes = b""
    query: str | None = None
    replayed: Replayed | None = None
    execution: tuple[str, str, str] | None = None


class JetStreamWriter(DataSourceArrowWriter):
    """Appends the rows of a DataFrame.

    Spark retries a failed task, and its rows have the same ids, so stored rows are not stored twice.

    Args:
        options: Validated options.
        target: The streams, as returned by `target.prepare`.
    """

    def __init__(self, options: WriteOptions, target: Target) -> None:
        self._options = options
        self._target = target
        # Pickled for every attempt of every task.
        self._job = options.dedup_scope or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish the rows of one task.

        Args:
            iterator: Arrow batches, read as they are published.

        Returns:
            The commit message for Spark.

        Raises:
            BatchError: A row was not stored: the first one, with the server's codes.
            NoServersError: No server has answered for 30 seconds.
        """
        written = write_partition(self._options, self._target, iterator, scope=self._job)
        context = TaskContext.get()
        assert context is not None
        run, batch, write = (context.getLocalProperty(name) for name in _EXECUTION)
        # A job group of the user is the same in the next run, in which the batch may be a replay.
        if run is None or batch is None or write is None or not _RUN.fullmatch(run):
            return written
        return replace(written, execution=(run, batch, write))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log the number of duplicates on the driver.

        Args:
            messages: The commit messages of the tasks.

        Raises:
            ValueError: As `check_groups` and `check_scope`.
        """
        check_scope(self._options, messages)
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
        options: Validated options.
        target: The streams.
        rows: Arrow batches, read as they are published.
        scope: Unique name of query and batch.
        name: Query, batch and partition for `sink_state`. Default: none.

    Raises:
        Exception: As `PartitionWriter.write`.
    """
    context = TaskContext.get()
    assert context is not None
    partition = context.partitionId()
    with hide_traceback():
        if name is None or options.sink_state is None:
            scope = f"{scope}:{partition}"
        made = PartitionWriter if options.atomic_by is None else GroupWriter
        writer = made(options, window=target.window, scope=scope, partition=partition, name=name, routes=target.routes)
        count = writer.write(rows)
        again = context.attemptNumber() > 0 or writer.sent_again
        return Written(count, writer.duplicates, expected=again, groups=writer.groups, replayed=writer.replayed)


def check_scope(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Check that no other write of the batch has the `dedupScope` of this one and equal rows.

    Args:
        options: Validated options.
        messages: The commit messages of the tasks.

    Raises:
        ValueError: Another write of this run has them; equal rows of this one were not stored.
    """
    tasks = [message for message in messages if isinstance(message, Written)]
    if options.dedup_scope is None or not tasks or tasks[0].execution is None:
        return
    (run, batch, execution), scope = tasks[0].execution, f"{options.target}\0{options.dedup_scope}"
    lost = sum(task.duplicates for task in tasks if not task.expected)
    if note_write(run, batch, scope=scope, execution=execution) and lost:
        with hide_traceback():
            raise ValueError(
                f"jetstream: {lost} of {sum(task.rows for task in tasks)} rows were not stored in {options.target}:"
                f" another write of batch {batch} has the same dedupScope, {options.dedup_scope!r}, and equal rows;"
                " give each write of a batch its own dedupScope, and start the query again"
            )


def check_groups(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Check that no group of `atomicBy` was written by two tasks as two atomic batches.

    Args:
        options: Validated options.
        messages: The commit messages of the tasks.

    Raises:
        ValueError: A group was; its rows are stored, but not atomically.
    """
    if options.atomic_by is None:
        return
    found = [message.groups for message in messages if isinstance(message, Written)]
    with hide_traceback():
        if (problem := in_two_tasks(options.atomic_by, found)) is not None:
            raise ValueError(problem)


def report_duplicates(target: str, messages: Sequence[WriterCommitMessage | None], *, named: str | None = None) -> None:
    """Report the number of duplicates: log it if tasks were retried, else warn.

    Args:
        target: Description of the streams.
        messages: The commit messages of the tasks.
        named: Name of the batch, if a repetition has the same ids. Default: none.
    """
    tasks = [message for message in messages if isinstance(message, Written)]
    rows = sum(task.rows for task in tasks)
    again = sum(task.duplicates for task in tasks if task.expected)
    unexpected = sum(task.duplicates for task in tasks if not task.expected)
    where = target if named is None else f"{target}, {named}"
    if again:
        _log.info("jetstream: %s already had %d of %d rows, because tasks were retried", where, again, rows)
    if unexpected:
        replayed = "" if named is None else " This is expected if a restart has replayed this batch. Otherwise"
        warnings.warn(
            f"jetstream: {where}: {unexpected} of {rows} rows were not stored, because the stream has messages with"
            f" their ids.{replayed or ' Either'} the same rows were written before within the duplicate window, or rows"
            " of two partitions have the same msg_id; make ids unique",
            stacklevel=3,
        )
