"""Conversion of a read to tables of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetarrow.core.docstrings import with_entries_of
from jetarrow.jetstream.arrow import ArrowStream, needs_pyarrow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import duckdb
    import pandas
    import polars
    import pyarrow

    from jetarrow.jetstream.batch import MessageBatch


class ReaderConversions:
    """The verbs of a reader that return all its rows."""

    def _rows(self) -> AsyncIterator[MessageBatch]:
        """The batches up to the end; raises an error if the reader is closed before."""
        raise NotImplementedError

    async def _empty(self) -> ArrowStream:
        """An object with the schema, if there are no rows."""
        raise NotImplementedError

    async def read_all(self) -> pyarrow.Table:
        """The rest of the range as one table (needs pyarrow).

        Raises:
            DataLossError: A limit, a purge or a delete removed messages of the range.
            StreamRecreatedError: The stream was deleted and created again meanwhile.
            NotFoundError: The stream does not exist.
            Error: The reader was closed, or is at its end.
            UnsupportedError: pyarrow is not installed.
        """
        pa = needs_pyarrow("read_all()")
        batches = [batch.to_pyarrow() async for batch in self._rows()]
        table: pyarrow.Table = pa.Table.from_batches(batches, pa.schema(await self._empty()))
        return table

    @with_entries_of(read_all)
    async def to_polars(self) -> polars.DataFrame:
        """The rest of the range as a `polars.DataFrame`; `headers` as in `MessageBatch.to_polars`.

        Raises:
            DataLossError: As `read_all`.
            NotFoundError: As `read_all`.
            Error: As `read_all`.
        """
        import polars

        frames = [batch.to_polars() async for batch in self._rows()]
        return polars.concat(frames) if frames else polars.DataFrame(await self._empty())

    @with_entries_of(read_all)
    async def to_pandas(self) -> pandas.DataFrame:
        """The rest of the range as a `pandas.DataFrame` (needs pyarrow).

        Raises:
            UnsupportedError: pyarrow is not installed.
            DataLossError: As `read_all`.
            NotFoundError: As `read_all`.
            Error: As `read_all`.
        """
        frame: pandas.DataFrame = (await self.read_all()).to_pandas()
        return frame

    @with_entries_of(read_all)
    async def to_duckdb(self, connection: Any = None) -> duckdb.DuckDBPyRelation:
        """The rest of the range as a relation of duckdb, for queries: `rows.query("rows", "select ...")`.

        Args:
            connection: A connection of duckdb; None is its default one.

        Raises:
            UnsupportedError: pyarrow is not installed.
            DataLossError: As `read_all`.
            NotFoundError: As `read_all`.
            Error: As `read_all`.
        """
        import duckdb

        rows: duckdb.DuckDBPyRelation = (connection or duckdb).from_arrow(await self.read_all())
        return rows
