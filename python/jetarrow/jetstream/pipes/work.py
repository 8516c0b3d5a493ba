"""The function of a pipe: a callable, or a query of DuckDB."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from jetarrow.core.errors import UnsupportedError

# Takes the rows of a step and the tables by name; returns any Arrow table, or None.
PipeFunction: TypeAlias = Callable[..., Any]
# Name of the rows of a step in a query.
INPUT = "input"


class Work:
    """A function that is called with the rows of each step.

    Args:
        function: A callable, or the text of a query.
        source: Name of the stream, under which a query finds the rows, too.

    Raises:
        TypeError: It is neither.
        UnsupportedError: It is a query, and DuckDB is not installed.
    """

    def __init__(self, function: PipeFunction | str, source: str) -> None:
        if isinstance(function, str):
            self._call: PipeFunction = _Query(function, source)
        elif callable(function):
            self._call = function
        else:
            raise TypeError(f"a pipe needs a function or the text of a query, not {type(function).__name__}")
        called = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
        self.is_coroutine = inspect.iscoroutinefunction(called)

    def __call__(self, rows: Any, tables: Mapping[str, Any]) -> Any:
        """Return what the function returns: a coroutine if it is one."""
        return self._call(rows, **tables)


class _Query:
    """A query; the rows of the step are the table `input`, the others have their names."""

    def __init__(self, text: str, source: str) -> None:
        try:
            import duckdb
        except ImportError as error:
            message = 'a query needs duckdb: pip install "jetarrow[duckdb]", or give a function'
            raise UnsupportedError("pipe()", "duckdb", "no duckdb", message=message) from error
        self._text, self._names = text, (source, INPUT)
        self._connection = duckdb.connect()
        # With several threads the order of rows, and so the messages, would differ from run to run.
        self._connection.execute("SET threads = 1")

    def __call__(self, rows: Any, **tables: Any) -> Any:
        for name, table in {**dict.fromkeys(self._names, rows), **tables}.items():
            self._connection.register(name, table)
        return self._connection.sql(self._text).to_arrow_table()
