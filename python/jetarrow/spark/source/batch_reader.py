"""The batch reader: planned once on the driver, read in the Python workers of the executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jetarrow.spark.connection import connect, jetstream
from jetarrow.spark.errors import hide_traceback
from jetarrow.spark.options.choices import ReadMode
from jetarrow.spark.options.read import ReadOptions

from .latest import StreamState, plan_states, read_state
from .metadata import Lookup
from .partition_reader import read_range
from .partitioning import StreamRange, plan_partitions
from .pushdown import Restriction, restriction_of
from .rows import check_types

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class JetStreamReader(DataSourceReader):
    """Reads ranges of sequences that were fixed when Spark planned the query.

    Spark plans a DataFrame once: counting it again gives the same rows, whatever was published since.

    Args:
        schema: Columns to read, a projection of the source's (see `schema.check_schema`).
        options: Checked options.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._restriction: Restriction | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the server for the present bounds of the streams, and split them.

        Returns:
            Ranges that are not empty; an empty list where there is nothing to read.

        Raises:
            NoServersError: No server answers within the connect timeout.
            AuthorizationError: A server refuses the credentials.
            NotFoundError: There is no such stream.
            DataLossError: What `startingOffsets` names is not in the stream any more.
            ValueError: An option does not fit the stream, or `value` has a type that JSON has no form for.
        """
        options = self._options
        # A connection of its own: a server that has gone is noticed now, and within the connect timeout.
        with hide_traceback(), connect(options.connection) as client:
            lookup = Lookup(jetstream(client, options.connection), options)
            check_types(self._schema, options.rows, lookup.js)
            if options.read_mode == ReadMode.LATEST:
                return plan_states(options, lookup.infos(), lookup)
            return plan_partitions(options, lookup.infos(), lookup, restriction=self._restriction)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one partition.

        Args:
            partition: One of `partitions`; what Spark makes up in place of an empty list yields nothing.

        Yields:
            Arrow batches of exactly the schema that Spark demands.

        Raises:
            Exception: As `partition_reader.read_range`, or `latest.read_state`.
        """
        with hide_traceback():
            if isinstance(partition, StreamRange):
                yield from read_range(self._schema, self._options, partition)
            elif isinstance(partition, StreamState):
                yield from read_state(self._schema, self._options, partition)


class PushdownReader(JetStreamReader):
    """A batch reader with filters pushed down.

    Spark fails where a reader has the method and the feature is off, so `JetStreamReader` does not have it.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Read no more than the filters leave, and let Spark evaluate all of them.

        Args:
            filters: All of them hold for the rows that are wanted.

        Returns:
            All filters.
        """
        self._restriction = restriction_of(filters)
        return filters
