"""What a worker does for one partition, of a batch or of a micro-batch."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.types import StructType

from jetarrow import _jetarrow
from jetarrow._run import blocked, finish
from jetarrow.js.errors import DataLossError, NotFoundError

from ._shape import Shaper
from .connection import patiently, shared
from .options import ReadOptions
from .plan import StreamRange, check_created

# A leader that has just been elected may not know the newest messages, which the plan knows.
_SETTLE = 10.0
_PAUSE = 0.25
_WHAT_TO_DO = "; start there"  # what js.read advises is said in other words here


def read_range(schema: StructType, options: ReadOptions, partition: StreamRange) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one partition.

    Parameters
    ----------
    schema:
        Columns to read.
    options:
        Checked options.
    partition:
        What to read.

    Raises
    ------
    jetarrow.errors.NoServersError
        No server answers for a minute.
    jetarrow.js.errors.NotFoundError
        The stream was deleted after planning.
    jetarrow.js.errors.StreamRecreatedError
        It was deleted and made again.
    jetarrow.js.errors.DataLossError
        Messages have gone, and that is an error here; elsewhere it only warns.
    jetarrow.js.errors.DecodeError
        A payload cannot be decoded, and the mode says that this is an error.
    """
    stream, connection = partition.stream, options.connection
    shape = Shaper(schema, options.rows, partition.how.local)
    try:
        # The planner has just reached the servers: one that is away now comes back.
        native = _opened(options, partition, shape)
        # Spark drops a generator half-way on limit(): that too must delete the consumer.
        try:
            while (item := native.next().block()) is not None:
                if isinstance(item, _jetarrow.Loss):
                    _lost(str(item), partition)
                elif (rows := shape(item, stream)) is not None:
                    yield rows
        finally:
            native.close().block()
    except DataLossError as error:
        text = str(error).removeprefix("nats: ")
        raise DataLossError(error.asked, error.available, message=_advised(text)) from None
    except NotFoundError as error:
        at = ", ".join(connection.servers)
        message = f"jetstream: there is no stream {stream!r} at {at} any more"
        raise NotFoundError(error.code, error.description, error.err_code, message=message) from None


def _opened(options: ReadOptions, partition: StreamRange, shape: Shaper) -> _jetarrow.Reader:
    """A reader of the whole range; js.read by itself ends where the stream ends."""
    until = time.monotonic() + _SETTLE
    while True:
        native = patiently(lambda: _open(options, partition, shape))
        try:
            check_created(partition.stream, partition.how.created, native.created)
            end = native.end
            if end >= partition.end:
                return native
            if time.monotonic() >= until:
                _ended(options, partition, end)
                return native
        except BaseException:
            native.close().block()
            raise
        native.close().block()
        time.sleep(_PAUSE)


def _open(options: ReadOptions, partition: StreamRange, shape: Shaper) -> _jetarrow.Reader:
    """The native reader, without the wrappers of js.read: what it reports as a warning may be an error here."""
    how, connection = partition.how, options.connection
    js = shared(connection).jetstream(**connection.context())
    reader = js.read(
        partition.stream,
        start_seq=partition.start,
        end_seq=partition.end,
        subjects=how.pushed or None,
        columns=shape.columns,
        schema=shape.value_schema,
        mode=shape.mode,
        timestamp_unit=shape.timestamp_unit,
        batch_rows=options.batch_rows,
        batch_bytes=options.batch_bytes,
        fetch_bytes=options.fetch_bytes,
        direct=how.direct,
        on_data_loss="error" if how.loss_fails else "warn",
    )
    return finish(reader._inner._open(blocked))


def _ended(options: ReadOptions, partition: StreamRange, end: int) -> None:
    """The stream ends before what was planned. No limit or purge does that: it was restored, or has lost its end."""
    stream, planned = partition.stream, partition.end
    text = f"messages {end} to {planned - 1} of stream {stream!r} are gone: it ends before them"
    if options.fail_on_data_loss != "false":
        raise DataLossError((end, planned), end, message=text)
    warnings.warn(f"jetstream: {text}", stacklevel=4)


def _lost(text: str, partition: StreamRange) -> None:
    """Messages are gone; with a filter `js.read` only tells, for nobody knows whether it matched them."""
    if partition.how.loss_fails:
        raise DataLossError((partition.start, partition.end), message=text)
    warnings.warn(f"jetstream: {text.partition(_WHAT_TO_DO)[0]}", stacklevel=3)


def _advised(text: str) -> str:
    return f"jetstream: {text.partition(_WHAT_TO_DO)[0]}; set failOnDataLoss=false to go on with what is left"
