"""Archive and stream as one LazyFrame."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from jetarrow.archive_scan.query import Query
from jetarrow.archive_scan.table import ArchiveTable
from jetarrow.polars.bounds import ALL, Bounds, bounds

if TYPE_CHECKING:
    import pyarrow.dataset

_METADATA = ("seq", "timestamp", "subject")
_COMPARISONS = {"Eq", "Lt", "LtEq", "Gt", "GtEq"}


class ArchiveSource:
    """The source of a scan with an archive, which polars calls with columns, predicate and limits.

    Args:
        table: Archive and stream.
    """

    def __init__(self, table: ArchiveTable) -> None:
        self._table = table

    def schema(self) -> pl.Schema:
        """The columns."""
        return pl.DataFrame(self._table.columns.empty_table()).schema

    def frames(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """Called by polars: yields the frames."""
        schema = self.schema()
        names = list(schema) if with_columns is None else with_columns
        yield pl.DataFrame(schema={name: schema[name] for name in names})
        left = n_rows
        for frame in self._rows(schema, names, predicate, n_rows):
            # With both, polars applies the predicate to the first n_rows of the table.
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield (frame if predicate is None else frame.filter(predicate)).select(names)
            if left == 0:
                return

    def _rows(
        self, schema: pl.Schema, names: list[str], predicate: pl.Expr | None, n_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        pushed = predicate if n_rows is None else None
        wanted = ALL if pushed is None else bounds(pushed, _METADATA)
        if wanted.empty or n_rows == 0:
            return
        roots = [] if predicate is None else predicate.meta.root_names()
        needed = tuple(dict.fromkeys([*names, *roots])) or ("seq",)
        filtered = None if pushed is None else safe_part(pushed, schema)

        def of_dataset(dataset: pyarrow.dataset.Dataset) -> pl.DataFrame:
            if n_rows is not None:
                return pl.DataFrame(dataset.head(n_rows, columns=list(needed)))
            lazy = pl.scan_pyarrow_dataset(dataset)
            if filtered is not None:
                lazy = lazy.filter(filtered)
            return lazy.select(needed).collect()

        for frame in self._table.rows(_query(wanted, needed, n_rows), of_dataset, pl.DataFrame):
            yield frame.cast({name: schema[name] for name in needed if frame.schema[name] != schema[name]})


def _query(wanted: Bounds, needed: tuple[str, ...], limit: int | None) -> Query:
    return Query(needed, wanted.first, wanted.end, wanted.since, wanted.until, wanted.subjects, limit)


def safe_part(predicate: pl.Expr, schema: pl.Schema) -> pl.Expr | None:
    """Return the part of a predicate that pyarrow evaluates as polars does; None if there is none.

    These are comparisons of a column with a literal, `is_between` and `is_in`, combined with `&` and `|`. Floats are
    left out, because polars orders NaN after all numbers and pyarrow does not. polars filters the result again.

    Args:
        predicate: A predicate on the columns of a scan.
        schema: The columns.
    """
    try:
        tree = _safe(json.loads(predicate.meta.serialize(format="json")), schema)
        return None if tree is None else pl.Expr.deserialize(json.dumps(tree).encode(), format="json")
    except Exception:  # the format is internal to polars: a later version may change it
        return None


def _safe(tree: Any, schema: pl.Schema) -> Any:
    """The part of a tree that selects the same rows or more; None if that is unknown."""
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd" as op, "right": right}}:
            parts = [part for part in (_safe(left, schema), _safe(right, schema)) if part is not None]
            if len(parts) < 2:
                return parts[0] if parts else None
            return {"BinaryExpr": {"left": parts[0], "op": op, "right": parts[1]}}
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr" as op, "right": right}}:
            parts = [_safe(left, schema), _safe(right, schema)]
            if None in parts:
                return None
            return {"BinaryExpr": {"left": parts[0], "op": op, "right": parts[1]}}
        case {"BinaryExpr": {"left": {"Column": name}, "op": op, "right": {"Literal": _}}} if op in _COMPARISONS:
            return tree if _is_safe(schema[name]) else None
        case {
            "Function": {"input": [{"Column": name}, *values], "function": {"Boolean": {"IsBetween": _} | {"IsIn": _}}}
        }:
            literal = all("Literal" in value for value in values)
            return tree if literal and _is_safe(schema[name]) else None
    return None


def _is_safe(kind: pl.DataType) -> bool:
    return kind.is_integer() or kind.is_temporal() or kind in (pl.String, pl.Boolean)
