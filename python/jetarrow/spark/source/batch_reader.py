"""The batch reader: planned once on the driver, read in the Python workers of the executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from jetarrow.spark.connection import connect
from jetarrow.spark.errors import plain
from jetarrow.spark.options.read import ReadOptions

from .metadata import Lookup
from .partition_reader import read_range
from .partitioning import StreamRange, plan
from .pushdown import Narrow, narrow
from .rows import Shaper


class JetStreamReader(DataSourceReader):
    """Reads ranges of sequences that were fixed when Spark planned the query.

    Spark plans a DataFrame once: counting it again gives the same rows, whatever was published since.

    Args:
        schema: Columns to read, a projection of the source's (see `rows.check_schema`).
        options: Checked options.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._narrow: Narrow | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the server for the present bounds of the streams, and split them.

        Returns:
            Never an empty range; an empty list where there is nothing to read.

        Raises:
            NoServersError: No server answers within the connect timeout.
            AuthorizationError: A server refuses the credentials.
            NotFoundError: There is no such stream.
            DataLossError: What `startingOffsets` names is not in the stream any more.
            ValueError: An option does not fit the stream, or `value` has a type that JSON has no form for.
        """
        options = self._options
        # A connection of its own: a server that has gone is noticed now, and within the connect timeout.
        with plain(), connect(options.connection) as client:
            lookup = Lookup(client.jetstream(**options.connection.context()), options)
            check_types(self._schema, options, lookup)
            return plan(options, lookup.infos(), lookup, narrow=self._narrow)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one partition, as Arrow batches of exactly the schema that Spark demands.

        Args:
            partition: One of `partitions`; what Spark makes up in place of an empty list yields nothing.

        Raises:
            Exception: As `_task.read_range`.
        """
        if isinstance(partition, StreamRange):
            with plain():
                yield from read_range(self._schema, self._options, partition)


class PushdownReader(JetStreamReader):
    """The same, with filters pushed down. Spark takes the method only where it is switched on, so not all have it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Read no more than the filters leave, and let Spark evaluate all of them.

        Args:
            filters: All of them hold for the rows that are wanted.
        """
        self._narrow = narrow(filters)
        return filters


def check_types(schema: StructType, options: ReadOptions, lookup: Lookup) -> None:
    """Raise ValueError where `value` has a type that cannot be decoded; better on the driver than in every task."""
    value = Shaper(schema, options.rows).value_schema
    if value is not None:
        lookup.js.read("any", columns=["data"], schema=value)  # checked when made, opened never
