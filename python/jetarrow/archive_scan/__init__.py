"""An archive and the rest of its stream as one table: the parts that polars and DuckDB share."""
