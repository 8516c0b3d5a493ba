"""The sink of a streaming query, `df.writeStream.format("jetstream")`. It needs Spark 4.1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from jetarrow.spark.options.choices import Dedup
from jetarrow.spark.options.write import WriteOptions

from .progress_file import write_duplicates
from .state import BatchName
from .target import Target
from .writer import Written, check_groups, report_duplicates, write_partition


class JetStreamStreamWriter(DataSourceStreamArrowWriter):
    """Publishes the rows of every micro-batch.

    Query and batch keep their names after a restart from the checkpoint: rows that were published before the batch
    was committed are recognised.

    Args:
        options: Checked options.
        target: The streams, as `target.prepare` has found them.
    """

    def __init__(self, options: WriteOptions, target: Target) -> None:
        self._options = options
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish the rows of one task of one micro-batch.

        Args:
            iterator: Arrow batches, read as they are published.

        Returns:
            What was written, for Spark.

        Raises:
            BatchError: A row was not stored: the first one, with the server's codes.
            NoServersError: No server has answered for 30 seconds.
            ValueError: Spark does not name query and batch, which `dedup=content` needs.
        """
        context = TaskContext.get()
        assert context is not None
        names = [context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId")]
        if None in names and self._options.dedup == Dedup.CONTENT:
            raise ValueError(
                "jetstream: Spark does not say which query and batch this is, so ids cannot be made of the rows; set"
                " the option dedup=none, and give the rows ids of their own in a column msg_id"
            )
        query, batch = map(str, names)
        name = None if None in names else BatchName(query, int(batch), context.partitionId())
        written = write_partition(self._options, self._target, iterator, scope=f"{query}:{batch}", name=name)
        return replace(written, query=names[0])

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Say in the driver's log what was not stored because the stream had it.

        Args:
            messages: What the tasks report.
            batchId: Number of the micro-batch.

        Raises:
            ValueError: As `writer.check_groups`.
        """
        report_duplicates(self._options.target, messages, named=f"batch {batchId}")
        tasks = [message for message in messages if isinstance(message, Written)]
        if tasks and tasks[0].query is not None:
            write_duplicates(tasks[0].query, batchId, sum(task.duplicates for task in tasks))
        check_groups(self._options, messages)
