"""A table in memory with the conversions of a reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow


class ArrowTable:
    """A `pyarrow.Table` with the `to_…` verbs of a reader.

    It has the attributes and methods of the table (`num_rows`, `column`, `select`, `to_pylist` …) and is an Arrow
    producer. A function of pyarrow that requires its own class takes `to_pyarrow()`.
    """

    def __init__(self, table: pyarrow.Table) -> None:
        self._table = table

    def to_pyarrow(self) -> pyarrow.Table:
        """The table as a `pyarrow.Table`, without a copy."""
        return self._table

    def read_all(self) -> pyarrow.Table:
        """As `to_pyarrow`, under the name that a reader has."""
        return self._table

    def to_polars(self) -> polars.DataFrame:
        """The table as a `polars.DataFrame`."""
        import polars

        frame = polars.from_arrow(self._table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """The table as a `pandas.DataFrame`.

        Args:
            **options: The options of `pyarrow.Table.to_pandas`.
        """
        frame: pandas.DataFrame = self._table.to_pandas(**options)
        return frame

    def to_duckdb(self, connection: Any = None) -> duckdb.DuckDBPyRelation:
        """The table as a relation of duckdb, for queries: `rows.query("rows", "select ...")`.

        Args:
            connection: A connection of duckdb; None is its default one.
        """
        import duckdb

        rows: duckdb.DuckDBPyRelation = (connection or duckdb).from_arrow(self._table)
        return rows

    def __getattr__(self, name: str) -> Any:
        if name == "_table":  # of an object that is being unpickled
            raise AttributeError(name)
        return getattr(self._table, name)

    def __getitem__(self, key: Any) -> Any:
        return self._table[key]

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __eq__(self, other: object) -> bool:
        return bool(self._table == (other._table if isinstance(other, ArrowTable) else other))

    # As pyarrow's tables.
    __hash__ = None  # type: ignore[assignment]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._table)})

    def __repr__(self) -> str:
        return repr(self._table)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)
