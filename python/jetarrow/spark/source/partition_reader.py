"""What a worker does for one partition, of a batch or of a micro-batch."""

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

# How long a leader that has just been elected may not know the newest messages, which the plan knows, in seconds.
_NEW_LEADER_TIMEOUT = 10.0
_RETRY_PAUSE = 0.25
_HOW_TO_GO_ON = "; set failOnDataLoss=false to go on with what is left"


def read_range(schema: StructType, options: ReadOptions, partition: StreamRange) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one partition.

    Args:
        schema: Columns to read.
        options: Checked options.
        partition: What to read.

    Yields:
        Arrow batches of exactly the schema that Spark demands, none of them empty.

    Raises:
        NoServersError: No server answers for as long as `reconnectTimeout` says.
        TimeoutError: Likewise, in the middle of the read.
        NotFoundError: The stream was deleted after planning.
        StreamRecreatedError: It was deleted and made again.
        StreamRolledBackError: It went back since it was planned, and that is an error here.
        DataLossError: Messages have gone, and that is an error here; elsewhere it only warns.
        DecodeError: A payload cannot be decoded, and the mode says that this is an error.
    """
    stream = partition.stream
    shape = RowShaper(schema, options.rows, partition.plan.local, batch_bytes=options.batch_bytes)

    try:
        # Spark drops a generator half-way on limit(): that too must delete the consumer.
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
    """A reader of the whole range; js.read by itself ends where the stream ends."""
    # The planner has just reached the servers: one that is away now comes back.
    until = time.monotonic() + _NEW_LEADER_TIMEOUT
    while True:
        reader = retry_transient(lambda: _open(options, partition, shape), timeout=options.reconnect_timeout)
        try:
            check_created(partition.stream, partition.plan.created, reader.created)
            whole = reader.end >= partition.end
            if whole or time.monotonic() >= until:
                # After it was opened: from then on it looks itself.
                gone = has_gone_back(options, partition.stream, partition.before, partition.marks)
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
        shape.tables.look(js, partition.stream, plan.pushed or plan.local, start=partition.start)
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
        # The query itself goes back further, once this batch has ended.
        on_rollback="fail" if options.on_rollback == OnRollback.FAIL else "continue",
    )


def has_gone_back(options: ReadOptions, stream: str, *seen: Sequence[Mark]) -> bool:
    """Return whether a stream is not any more the one that was planned.

    Args:
        options: Checked options.
        stream: Its name.
        seen: Messages that it had: one request for a message at most for each of these.

    Raises:
        StreamRolledBackError: It is not, and that is an error here; else it is warned about.
    """
    js = shared_jetstream(options.connection)
    for marks in seen:
        asked = functools.partial(verify_marks, js, stream, marks)
        error = retry_transient(asked, timeout=options.reconnect_timeout)
        if error is not None:
            if options.on_rollback == OnRollback.FAIL:
                raise spark_error(error)
            warnings.warn(f"jetstream: {error.summary}; the query goes back in its next batch", stacklevel=4)
            return True
    return False


def _ended(options: ReadOptions, partition: StreamRange, end: int) -> None:
    """The stream ends before what was planned. No limit or purge does that: it was restored, or has lost its end."""
    stream, planned = partition.stream, partition.end
    text = f"jetstream: messages {end} to {planned - 1} of stream {stream!r} are gone: it ends before them"
    if options.fail_on_data_loss != FailOnDataLoss.FALSE:
        raise DataLossError((end, planned), end, message=text + _HOW_TO_GO_ON)
    warnings.warn(text, stacklevel=4)


def _lost(loss: Loss, partition: StreamRange) -> None:
    """The stream has let go of messages of the range. With a filter it is unknown whether they matched."""
    text = f"jetstream: {loss.summary}"
    # At the head, only before the first message: what goes while it is read is lost everywhere.
    forgiven = partition.head and loss.asked[0] == partition.start
    if partition.plan.loss_fails and not forgiven:
        raise DataLossError(loss.asked, loss.available, message=text + _HOW_TO_GO_ON)
    warnings.warn(text, stacklevel=3)
