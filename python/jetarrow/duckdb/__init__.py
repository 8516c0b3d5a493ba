"""Streams in DuckDB: `jetarrow.duckdb.register` makes a table of a stream, or of an archive and its stream.

Requires duckdb and pyarrow.
"""

from __future__ import annotations

try:
    from jetarrow.duckdb.register import register
except ImportError as error:
    if error.name not in ("duckdb", "pyarrow"):
        raise
    text = 'jetarrow.duckdb requires duckdb and pyarrow; run: pip install "jetarrow[duckdb]"'
    raise ImportError(text, name=error.name) from None

__all__ = ["register"]
