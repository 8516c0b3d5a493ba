"""Read of one partition, of a batch or a micro-batch, by a worker."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa
from pyspark.sql.types import StructType

from jetarrow.jetstream.errors import DataLossError, NotFoundError, StreamRolledBackError
from jetarrow.spark._core import Loss, Mark, RangeReader, verify_marks
from jetarrow.spark.connection import no_such_stream, retry_transient, shared_jetstream
from jetarrow.spark.options.choices import FailOnDataLoss, OnRollback
from jetarrow.spark.options.read import ReadOptions

from .history import spark_error
from .metadata import check_created
from .partitioning import StreamRange
from .rows import RowShaper

# Seconds for which a newly elected leader may lag behind the planned messages.
_NEW_LEADER_TIMEOUT = 10.0
_RETRY_PAUSE = 0.25
_ADVICE = "; set failOnDataLoss=false to continue with the remaining messages"


def read_range(schema: StructType, options: ReadOptions, partition: StreamRange) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one partition.

    Args:
        schema: Columns to read.
        options: Validated options.
        partition: The range of a stream to read.

    Yields:
        Arrow batches of the exact schema that Spark requires, none of them empty.

    Raises:
        NoServersError: No server responds for `reconnectTimeout`.
        TimeoutError: No server responds for `reconnectTimeout` during the read.
        NotFoundError: The stream was deleted after planning.
        StreamRecreatedError: The stream was deleted and created again.
        StreamRolledBackError: The stream was rolled back after planning, and `onRollback` is fail.
        DataLossError: Messages were lost, and `failOnDataLoss` applies; otherwise it only warns.
        DecodeError: A payload cannot be decoded, and the mode is FAILFAST.
    """
    stream, share = partition.stream, partition.share
    if share is not None and share.empty:
        return
    shape = RowShaper(schema, options.rows, partition.plan.local, batch_bytes=options.batch_bytes, share=share)

    try:
        # Spark abandons a generator on limit(), which must delete the consumer too.
        with closing(_opened(options, partition, shape)) as reader:
            while (item := reader.next()) is not None:
                if isinstance(item, StreamRolledBackError):
                    warnings.warn(f"jetstream: {item.summary}", stacklevel=2)
                elif isinstance(item, Loss):
                    _lost(item, partition)
                else:
                    yield from shape(item, stream)
    except StreamRolledBackError as error:
        raise spark_error(error) from None
    except NotFoundError as error:
        raise no_such_stream(error, stream, options.connection, gone=True) from None


def _opened(options: ReadOptions, partition: StreamRange, shape: RowShaper) -> RangeReader:
    """Open a reader of the whole range; js.read alone would stop at the present end of the stream."""
    # The planner has reached the servers before, so an unavailable one is waited for.
    until = time.monotonic() + _NEW_LEADER_TIMEOUT
    while True:
        reader = retry_transient(lambda: _open(options, partition, shape), timeout=options.reconnect_timeout)
        try:
            check_created(partition.stream, partition.plan.created, reader.created)
            whole = reader.end >= partition.end
            if whole or time.monotonic() >= until:
                # Checked after the reader was opened, because the reader checks from then on.
                gone = is_rolled_back(options, partition.stream, partition.before, partition.marks)
                if not whole and not gone:
                    _ended(options, partition, reader.end)
                return reader
        except BaseException:
            reader.close()
            raise
        reader.close()
        time.sleep(_RETRY_PAUSE)


def _open(options: ReadOptions, partition: StreamRange, shape: RowShaper) -> RangeReader:
    plan, js = partition.plan, shared_jetstream(options.connection)
    if shape.tables is not None:
        shape.tables.read_types(js, partition.stream, plan.pushed or plan.local, start=partition.start)
    return RangeReader(
        js,
        partition.stream,
        start_seq=partition.start,
        end_seq=partition.end,
        subjects=plan.pushed or None,
        **shape.arguments(),
        batch_rows=options.batch_rows,
        batch_bytes=options.batch_bytes,
        fetch_bytes=options.fetch_bytes,
        outage=options.reconnect_timeout,
        direct=plan.direct,
        # The query itself handles the rollback after this batch.
        on_rollback="fail" if options.on_rollback == OnRollback.FAIL else "continue",
    )


def is_rolled_back(options: ReadOptions, stream: str, *seen: Sequence[Mark]) -> bool:
    """Return whether a stream was rolled back since planning, and warn.

    Args:
        options: Validated options.
        stream: Name of the stream.
        seen: Groups of marks of the stream; at most one request for each group.

    Raises:
        StreamRolledBackError: The stream was rolled back, and `onRollback` is fail.
    """
    js = shared_jetstream(options.connection)
    for marks in seen:
        asked = functools.partial(verify_marks, js, stream, marks)
        error = retry_transient(asked, timeout=options.reconnect_timeout)
        if error is not None:
            if options.on_rollback == OnRollback.FAIL:
                raise spark_error(error)
            warnings.warn(f"jetstream: {error.summary}; the query handles it in its next batch", stacklevel=4)
            return True
    return False


def _ended(options: ReadOptions, partition: StreamRange, end: int) -> None:
    """Handle a stream that ends before the planned end, because it was restored, or has lost its last messages."""
    stream, planned = partition.stream, partition.end
    text = f"jetstream: messages {end} to {planned - 1} of stream {stream!r} are gone: it ends before them"
    if options.fail_on_data_loss != FailOnDataLoss.FALSE:
        raise DataLossError((end, planned), end, message=text + _ADVICE)
    warnings.warn(text, stacklevel=4)


def _lost(loss: Loss, partition: StreamRange) -> None:
    """Handle lost messages of the range. With a filter it is unknown whether they matched."""
    text = f"jetstream: {loss.summary}"
    # Only losses before the first message of the stream's head are ignored, not those during the read.
    forgiven = partition.head and loss.asked[0] == partition.start
    if partition.plan.loss_fails and not forgiven:
        raise DataLossError(loss.asked, loss.available, message=text + _ADVICE)
    warnings.warn(text, stacklevel=3)
