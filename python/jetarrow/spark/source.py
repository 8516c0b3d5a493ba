"""What Spark knows as `format("jetstream")`."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ._parse import Given
from ._write_options import WRITE_OPTIONS, WriteOptions, write_options
from .errors import plain
from .options import READ_OPTIONS, read_options
from .reader import JetStreamReader
from .rows import SCHEMA, check_schema
from .writer import JetStreamStreamWriter, JetStreamWriter, prepare


class JetStreamSource(DataSource):
    """NATS JetStream streams as rows.

    Columns: stream string, seq bigint, subject string, timestamp timestamp (when the server stored the
    message, cut to microseconds), headers map<string,array<string>> (null without headers), data binary.
    A schema given to `spark.read.schema(...)` selects columns by name.

    Options: `servers` (required, comma list), `stream` (required, one name or a comma list),
    `startingOffsets` (earliest, or JSON such as {"ORDERS": 100}, inclusive), `endingOffsets` (latest, or
    JSON, exclusive), `minPartitions` (1), `maxOffsetsPerPartition` (1,000,000). Other names only warn.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name that `format()` takes."""
        return "jetstream"

    def schema(self) -> StructType:
        """Return all columns.

        Raises
        ------
        ValueError
            An option is missing or not valid, so `load()` says so before anything is read.
        """
        with plain():
            read_options(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> JetStreamReader:
        """Return a batch reader.

        Parameters
        ----------
        schema:
            The columns to read.

        Raises
        ------
        ValueError
            An option or the schema is not valid.
        """
        with plain():
            check_schema(schema)
            options = read_options(self.options)
        # Not in schema(): Spark calls that in another process, and one warning is enough.
        Given(self.options, READ_OPTIONS).warn_of_unknown()
        options.connection.warn()
        return JetStreamReader(schema, options)

    def writer(self, schema: StructType, overwrite: bool) -> JetStreamWriter:
        """Return a batch writer.

        Parameters
        ----------
        schema:
            The DataFrame's: `data`, and optionally `subject`, `headers`, `msg_id`.
        overwrite:
            Whether the save mode is overwrite, which is refused.

        Raises
        ------
        Exception
            As `writer.prepare`, which looks at the stream.
        """
        with plain():
            return JetStreamWriter(*self._prepared(schema, overwrite=overwrite, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> JetStreamStreamWriter:
        """Return a writer for one micro-batch. Parameters and errors as `writer`."""
        with plain():
            return JetStreamStreamWriter(*self._prepared(schema, overwrite=overwrite, streaming=True))

    def _prepared(self, schema: StructType, *, overwrite: bool, streaming: bool) -> tuple[WriteOptions, float]:
        options = write_options(self.options)
        Given(self.options, WRITE_OPTIONS).warn_of_unknown()
        options.connection.warn()
        return options, prepare(schema, options, overwrite=overwrite, streaming=streaming)
