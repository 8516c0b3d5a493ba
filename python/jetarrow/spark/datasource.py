"""The data source `format("jetstream")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark.sql.datasource
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from jetarrow.core.errors import UnsupportedError
from jetarrow.jetstream.errors import SchemaRegistryError

from .errors import hide_traceback
from .options.option_texts import OptionTexts, invalid
from .options.read import READ_OPTIONS, ReadOptions, read_options, with_payload_schema
from .options.write import WRITE_OPTIONS, WriteOptions, write_options
from .schema import check_schema, full_schema
from .sink.target import Target, prepare
from .sink.writer import JetStreamWriter
from .source.batch_reader import JetStreamReader, PushdownReader
from .source.pushdown import check_sound
from .source.refused_reader import RefusedStreamReader
from .source.stream_reader import JetStreamStreamReader

if TYPE_CHECKING:
    from .sink.stream_writer import JetStreamStreamWriter


class JetStreamSource(DataSource):
    """NATS JetStream streams as rows.

    Columns: stream string, seq bigint, subject string, timestamp timestamp (when the server stored the
    message, cut to microseconds), headers map<string,array<string>> (null without headers), data binary;
    with `includeTimeNs` time_ns bigint, with `includeReply` reply string. With `payload=string` data is a string, with
    `payload=json` value struct<...> replaces it. A schema given to `schema(...)` selects columns by name.

    The options are those of `options.read.READ_OPTIONS` and `options.write.WRITE_OPTIONS`. Required are `servers` and
    `stream` or `streamPattern` for reading. Unknown options are an error with the nearest names.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name that `format()` takes."""
        return "jetstream"

    def schema(self) -> StructType | str:
        """Return all columns.

        Raises:
            ValueError: An option is missing or not valid, which `load()` raises before anything is read.
        """
        with hide_traceback():
            return full_schema(with_payload_schema(read_options(self.options, streaming=None)).rows)

    def reader(self, schema: StructType) -> JetStreamReader:
        """Return a batch reader.

        Args:
            schema: The columns to read.

        Raises:
            ValueError: An option or the schema is not valid.
        """
        options = self._read_options(schema, streaming=False)
        if not options.pushdown:
            return JetStreamReader(schema, options)
        with hide_traceback():
            check_sound()
        return PushdownReader(schema, options)

    def streamReader(self, schema: StructType) -> JetStreamStreamReader | RefusedStreamReader:
        """Return a reader for a streaming query.

        It raises no error, because Spark 4.3 replaces errors raised here. The methods of the returned reader raise the
        errors of `reader`.

        Args:
            schema: The columns to read.
        """
        try:
            return JetStreamStreamReader(schema, self._read_options(schema, streaming=True))
        except (ValueError, SchemaRegistryError) as error:
            return RefusedStreamReader(str(error))

    def _read_options(self, schema: StructType, *, streaming: bool) -> ReadOptions:
        with hide_traceback():
            options = with_payload_schema(read_options(self.options, streaming=streaming))
            check_schema(schema, options.rows)
            if streaming and options.pushdown:
                raise invalid("pushdown", "Spark pushes no filters into a streaming query", "false (default)")
            OptionTexts(self.options, READ_OPTIONS).refuse_unknown()
        options.connection.warn()
        if options.rows.payload_schema is not None:
            options.rows.payload_schema.warn()
        return options

    def writer(self, schema: StructType, overwrite: bool) -> JetStreamWriter:
        """Return a batch writer.

        Args:
            schema: The DataFrame's: `data`, and optionally `subject`, `headers`, `msg_id`.
            overwrite: Whether the save mode is overwrite, which is refused.

        Raises:
            Exception: As `target.prepare`, which checks the streams.
        """
        with hide_traceback():
            return JetStreamWriter(*self._prepared(schema, overwrite=overwrite, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> JetStreamStreamWriter:
        """Return a writer for one micro-batch.

        Args:
            schema: As `writer`.
            overwrite: Whether the output mode is complete, which is refused.

        Raises:
            UnsupportedError: This Spark is older than 4.1.
            Exception: As `target.prepare`, which checks the streams.
        """
        with hide_traceback():
            if not hasattr(pyspark.sql.datasource, "DataSourceStreamArrowWriter"):
                raise UnsupportedError(
                    "writeStream.format('jetstream')",
                    "Spark 4.1",
                    f"this is Spark {pyspark.__version__}: write each batch in foreachBatch, with dedupScope",
                )
            from .sink.stream_writer import JetStreamStreamWriter

            return JetStreamStreamWriter(*self._prepared(schema, overwrite=overwrite, streaming=True), schema.names)

    def _prepared(self, schema: StructType, *, overwrite: bool, streaming: bool) -> tuple[WriteOptions, Target]:
        options = write_options(self.options)
        OptionTexts(self.options, WRITE_OPTIONS).refuse_unknown()
        options.connection.warn()
        return options, prepare(schema, options, overwrite=overwrite, streaming=streaming)
