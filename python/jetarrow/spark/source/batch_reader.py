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
    """Reads ranges of sequences that are fixed when Spark plans the query.

    Spark plans a DataFrame once, so repeated actions return the same rows, without messages published since.

    Args:
        schema: Columns to read, a projection of the source's (see `schema.check_schema`).
        options: Validated options.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._restriction: Restriction | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """Request the present bounds of the streams, and split them.

        Returns:
            Ranges that are not empty; an empty list if there are no messages.

        Raises:
            NoServersError: No server responds within the connect timeout.
            AuthorizationError: A server rejects the credentials.
            NotFoundError: A stream does not exist.
            DataLossError: The stream no longer has the sequence of `startingOffsets`.
            ValueError: An option does not apply to the stream, or `value` has a type that cannot be decoded from JSON.
        """
        options = self._options
        # A separate connection, so that an unavailable server is an error within the connect timeout.
        with hide_traceback(), connect(options.connection) as client:
            lookup = Lookup(jetstream(client, options.connection), options)
            check_types(self._schema, options.rows, lookup.js)
            if options.read_mode == ReadMode.LATEST:
                return plan_states(options, lookup.infos(), lookup)
            return plan_partitions(options, lookup.infos(), lookup, restriction=self._restriction)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one partition.

        Args:
            partition: One of `partitions`; the placeholder that Spark creates for an empty list yields nothing.

        Yields:
            Arrow batches of the exact schema that Spark requires.

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

    A separate class, because Spark fails if a reader has the method and the feature is disabled.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Restrict the read by the filters, and have Spark evaluate all of them.

        Args:
            filters: Filters that all requested rows match.

        Returns:
            All filters.
        """
        self._restriction = restriction_of(filters)
        return filters
