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
from .failures import TaskFailure, failure_after, failure_of, raise_failures
from .group_writer import GroupWriter
from .groups import in_two_tasks
from .partition_writer import PartitionWriter
from .progress_file import note_failure, note_write, read_failure, remove_failure
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
        failure: Error of the task that a retry cannot resolve. Default: it has succeeded.
    """

    rows: int
    duplicates: int
    expected: bool
    groups: bytes = b""
    query: str | None = None
    replayed: Replayed | None = None
    execution: tuple[str, str, str] | None = None
    failure: TaskFailure | None = None


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
        self._run = uuid.uuid4().hex
        self._job = options.dedup_scope or self._run

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish the rows of one task.

        Args:
            iterator: Arrow batches, read as they are published.

        Returns:
            The commit message for Spark, with the error if a retry cannot resolve it.

        Raises:
            BatchError: A row was not stored: the first one, with the server's codes.
            NoServersError: No server has answered for 30 seconds.
        """
        written = write_partition(self._options, self._target, iterator, scope=self._job, run=self._run)
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
            Exception: A task has failed with an error that a retry cannot resolve.
            ValueError: As `check_groups` and `check_scope`.
        """
        check_failures(messages)
        check_scope(self._options, messages)
        report_duplicates(self._options.target, messages, named=self._options.dedup_scope)
        check_groups(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the file of the failure; stored rows stay.

        Args:
            messages: The commit messages of the tasks that have ended.
        """
        remove_failure(self._run)


def write_partition(
    options: WriteOptions,
    target: Target,
    rows: Iterator[pa.RecordBatch],
    *,
    scope: str,
    run: str,
    name: BatchName | None = None,
) -> Written:
    """Publish the rows of one task.

    Args:
        options: Validated options.
        target: The streams.
        rows: Arrow batches, read as they are published.
        scope: Unique name of query and batch.
        run: Unique name of this execution of the write.
        name: Query, batch and partition for `sink_state`. Default: none.

    Returns:
        The commit message, with the error if a retry cannot resolve it.

    Raises:
        Exception: As `PartitionWriter.write`; or the error of another task of this write, which fails.
    """
    context = TaskContext.get()
    assert context is not None
    partition = context.partitionId()
    with hide_traceback():
        if (earlier := read_failure(run)) is not None:
            return Written(0, 0, expected=True, failure=failure_after(earlier, partition=partition))
        if name is None or options.sink_state is None:
            scope = f"{scope}:{partition}"
        made = PartitionWriter if options.atomic_by is None else GroupWriter
        writer = made(
            options,
            window=target.window,
            scope=scope,
            partition=partition,
            name=name,
            routes=target.routes,
            planned=target.planned if context.attemptNumber() > 0 and options.sink_state is None else None,
        )
        try:
            count = writer.write(rows)
        except Exception as error:
            failure = failure_of(error, writer.js, partition=partition, run=run)
            if failure is None:
                raise
            note_failure(failure)
            return Written(0, 0, expected=True, failure=failure)
        again = context.attemptNumber() > 0 or writer.sent_again
        return Written(count, writer.duplicates, expected=again, groups=writer.groups, replayed=writer.replayed)


def check_failures(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Check that no task has failed with an error that a retry cannot resolve.

    Args:
        messages: The commit messages of the tasks.

    Raises:
        Exception: The first such error, with the number of tasks that failed.
    """
    failures = [task.failure for task in messages if isinstance(task, Written) and task.failure is not None]
    if failures:
        remove_failure(failures[0].run)
        with hide_traceback():
            raise_failures(failures, len(messages))


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
