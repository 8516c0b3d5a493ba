"""The batch reader: planned once on the driver, read in the Python workers of the executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import jetarrow.sync
from jetarrow.js.api import StreamInfo
from jetarrow.js.errors import NotFoundError, StreamRecreatedError

from .connection import connect, shared
from .errors import plain
from .options import ReadOptions
from .plan import StreamRange, created, plan
from .rows import Retyper


class JetStreamReader(DataSourceReader):
    """Reads ranges of sequences that were fixed when Spark planned the query.

    Spark plans a DataFrame once: counting it again gives the same rows, whatever was published since.

    Parameters
    ----------
    schema:
        Columns to read, a projection of the source's (see `rows.check_schema`).
    options:
        Checked options.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the server for the present bounds of the streams, and split them.

        Returns
        -------
        list[StreamRange]
            Never an empty range; an empty list where there is nothing to read.

        Raises
        ------
        jetarrow.errors.NoServersError
            No server answers within 2 seconds.
        jetarrow.js.errors.NotFoundError
            There is no such stream.
        jetarrow.js.errors.DataLossError
            What `startingOffsets` names is not in the stream any more.
        """
        options = self._options
        with plain():
            # Its own connection: a server that has gone is noticed now, and within the connect timeout.
            client = connect(options.connection)
            try:
                js = client.jetstream(**options.connection.context())
                infos = {name: _info(js, name, servers=options.connection.servers) for name in options.streams}
            finally:
                client.close()
            return plan(options, infos)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one partition, as Arrow batches of exactly the schema that Spark demands.

        Parameters
        ----------
        partition:
            One of `partitions`; what Spark makes up in place of an empty list yields nothing.

        Raises
        ------
        jetarrow.errors.NoServersError
            No server answers within 2 seconds.
        jetarrow.js.errors.NotFoundError
            The stream was deleted after planning.
        jetarrow.js.errors.StreamRecreatedError
            It was deleted and made again.
        jetarrow.js.errors.DataLossError
            Messages from a start that was named have gone; from earliest that only warns.
        """
        if isinstance(partition, StreamRange):
            with plain():
                yield from self._read(partition)

    def _read(self, partition: StreamRange) -> Iterator[pa.RecordBatch]:
        connection, stream = self._options.connection, partition.stream
        js = shared(connection).jetstream(**connection.context())
        now = created(_info(js, stream, servers=connection.servers))
        if now != partition.created:
            raise StreamRecreatedError(
                f"stream {stream!r} of {partition.created} was planned, but it was made again at {now}: its"
                " sequences mean other messages now; load it again"
            )
        retype = Retyper(self._schema)
        reader = js.read(
            stream,
            start_seq=partition.start,
            end_seq=partition.end,
            columns=self._schema.names,
            timestamp_unit="us",
            # Whoever begins at the head takes what is there: a full stream loses messages there all the time.
            on_data_loss="warn" if partition.from_earliest else "error",
        )
        # Spark drops a generator half-way on limit(): that too must delete the consumer.
        try:
            for batch in reader:
                yield retype(batch)
        finally:
            reader.close()


def _info(js: jetarrow.sync.JetStream, stream: str, *, servers: Sequence[str]) -> StreamInfo:
    try:
        return js.stream_info(stream)
    except NotFoundError as error:
        message = f"jetstream: there is no stream {stream!r} at {', '.join(servers)}"
        raise NotFoundError(error.code, error.description, error.err_code, message=message) from None
