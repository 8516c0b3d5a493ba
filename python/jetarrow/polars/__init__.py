"""Streams in polars: `jetarrow.polars.scan` returns a LazyFrame. Requires polars and pyarrow."""

from __future__ import annotations

try:
    from jetarrow.polars.source import scan
except ImportError as error:
    if error.name not in ("polars", "pyarrow"):
        raise
    text = 'jetarrow.polars requires polars and pyarrow; run: pip install "jetarrow[polars]"'
    raise ImportError(text, name=error.name) from None

__all__ = ["scan"]
