"""The sink of a streaming query, `df.writeStream.format("jetstream")`. It needs Spark 4.1."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from jetarrow.spark.errors import hide_traceback
from jetarrow.spark.options.choices import Dedup
from jetarrow.spark.options.write import WriteOptions

from .batch_records import BatchName
from .progress_file import write_duplicates
from .replay import complete
from .target import Target
from .writer import Written, check_failures, check_groups, report_duplicates, write_partition


class JetStreamStreamWriter(DataSourceStreamArrowWriter):
    """Publishes the rows of every micro-batch.

    Ids of query and batch are the same after a restart from the checkpoint, so rows published before the batch was
    committed are recognised.

    Args:
        options: Validated options.
        target: The streams, as returned by `target.prepare`.
        columns: Names of the columns.
    """

    def __init__(self, options: WriteOptions, target: Target, columns: Sequence[str]) -> None:
        self._options = options
        self._target = target
        # Pickled for every attempt of every task of this execution of the batch.
        self._run = uuid.uuid4().hex
        subject = "without option 'subject'" if options.subject is None else f"subject={options.subject}"
        self._layout = f"columns {', '.join(sorted(columns))}, {subject}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish the rows of one task of one micro-batch.

        Args:
            iterator: Arrow batches, read as they are published.

        Returns:
            The commit message for Spark, with the error if a retry cannot resolve it.

        Raises:
            BatchError: A row was not stored: the first one, with the server's codes.
            NoServersError: No server has answered for 30 seconds.
            ValueError: Spark does not provide query and batch, which `dedup=content` needs.
        """
        context = TaskContext.get()
        assert context is not None
        names = [context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId")]
        if None in names and self._options.dedup == Dedup.CONTENT:
            raise ValueError(
                "jetstream: could not compute ids of rows: Spark does not provide query and batch; set the option"
                " dedup=none, and add a column msg_id"
            )
        query, batch = map(str, names)
        name = None if None in names else BatchName(query, int(batch), context.partitionId(), self._run, self._layout)
        written = write_partition(
            self._options, self._target, iterator, scope=f"{query}:{batch}", run=self._run, name=name
        )
        return replace(written, query=names[0])

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Complete a replayed batch, and log the number of duplicates on the driver.

        Args:
            messages: The commit messages of the tasks.
            batchId: Number of the micro-batch.

        Raises:
            Exception: A task has failed with an error that a retry cannot resolve.
            ValueError: As `writer.check_groups`.
            Error: As `replay.complete`.
        """
        check_failures(messages)
        tasks = [message for message in messages if isinstance(message, Written)]
        stored = 0
        if replayed := [task.replayed for task in tasks if task.replayed is not None]:
            with hide_traceback():
                stored = complete(self._options, replayed, partitions=len(messages))
        report_duplicates(self._options.target, messages, named=f"batch {batchId}")
        if tasks and tasks[0].query is not None:
            write_duplicates(tasks[0].query, batchId, stored + sum(task.duplicates for task in tasks))
        check_groups(self._options, messages)
